//! Cgroups for sandboxes, and the thread that buries the dead.
//!
//! Teardown is off every caller's path: a sandbox that is done is killed, at once or when its caller
//! has had a moment (see `live`), and handed to the reaper, which waits for its end and removes its
//! cgroup. How many may live or die at one time is bounded by permits, so a flood waits at the door
//! instead of piling up corpses.

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ringfence_jail::cgroup::{self, Base, Group, Host, Reason, Removal, remove_trees};
use ringfence_types::Limits;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, pidfd_send_signal},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Error, SetupRules,
    clerk::Clerk,
    health::{SetupHealth, SetupTimer},
    ids::Ids,
    prepared::group_limits,
    spare::Maker,
    watchdog::Watchlist,
};

/// The cgroups of this service.
#[derive(Debug)]
pub(crate) struct Groups {
    maker: Option<Arc<Maker>>,
    /// Why there is no base, or which controllers it lacks.
    pub(crate) absent: Vec<(&'static str, Reason)>,
    pub(crate) version: &'static str,
    permits: Arc<Semaphore>,
    /// How many wait for a permit.
    waiting: AtomicUsize,
    idle: OnceLock<Weak<dyn Idle>>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
    /// Nobody waits for the sweeper any more.
    closing: Arc<AtomicBool>,
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    reaper: Mutex<Option<JoinHandle<()>>>,
    pub(crate) clerk: Clerk,
    /// Whether sandboxes are made.
    pub(crate) health: Arc<SetupHealth>,
    /// Programs that the watchdog may end.
    pub(crate) watchlist: Arc<Watchlist>,
}

/// What the reaper is told.
#[derive(Debug)]
enum Order {
    Bury(Burial),
    /// A group was taken: make the next one once its sandbox stands.
    LookAhead,
}

/// A sandbox that is being made needs the processors more than the next one does. A program that
/// takes longer than this does not notice, and after a shorter one the reaper comes by anyway.
const FIRST_STEPS: Duration = Duration::from_millis(5);

/// How long the reaper waits for one that was killed before it looks after the others. It looks
/// again each time this has passed.
const QUICK_END: Duration = Duration::from_millis(200);

/// How long closing waits for the reaper, and for the sweeper of what earlier services left.
const REAPER_TIMEOUT: Duration = Duration::from_secs(5);
const SWEEPER_TIMEOUT: Duration = Duration::from_secs(2);

/// What is left of one sandbox, or of a helper.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) group: Option<Arc<Group>>,
    /// All its walls stood. If it does not die, that says nothing of making others.
    pub(crate) is_set_up: bool,
    /// Closing the last descriptor of a workspace unmounts it, for which the kernel waits; so the
    /// reaper has the last one unless somebody still wants the files.
    pub(crate) workspace: Option<OwnedFd>,
    /// Given to another sandbox only once no process has them any more.
    pub(crate) ids: Option<Ids>,
}

#[derive(Debug)]
struct Burial {
    remains: Remains,
    _place: Place,
}

/// A place among the living and the dying, to be had before a sandbox is made. What helps to make
/// sandboxes is not counted among them: a call must never wait for its own helper's place.
#[derive(Debug, Default)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Whoever holds sandboxes that nobody uses yet.
pub(crate) trait Idle: std::fmt::Debug + Send + Sync {
    /// Gives one of them up, if there is one.
    fn give_way(&self) -> bool;
}

/// A place, a cgroup and ids for a sandbox that is being made. They go back unless it comes to be, even
/// when whoever waits for it gives up halfway.
#[derive(Debug)]
pub(crate) struct Plot {
    groups: Arc<Groups>,
    place: Option<Place>,
    pub(crate) group: Option<Group>,
    /// Ids of its own, once they are taken.
    pub(crate) ids: Option<Ids>,
}

impl Plot {
    /// Waits for room, then makes the cgroup.
    pub(crate) async fn open(
        groups: &Arc<Groups>,
        limits: &Limits,
        freezer: bool,
    ) -> Result<Self, Error> {
        let timer = SetupTimer::begin("place");
        let place = Some(groups.place().await?);
        drop(timer);
        let _timer = SetupTimer::begin("cgroup");
        let group = groups.make(limits, freezer)?;
        Ok(Self { groups: groups.clone(), place, group, ids: None })
    }

    /// For a helper, which has no limit in number but its own limits.
    pub(crate) fn for_helper(groups: &Arc<Groups>, limits: &Limits) -> Result<Self, Error> {
        let place = Some(Place::default());
        let group = groups.make(limits, false)?;
        Ok(Self { groups: groups.clone(), place, group, ids: None })
    }

    /// The sandbox is there and takes them over.
    pub(crate) fn hand_over(mut self) -> (Option<Place>, Option<Group>, Option<Ids>) {
        (self.place.take(), self.group.take(), self.ids.take())
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let (group, ids) = (self.group.take().map(Arc::new), self.ids.take());
            self.groups.bury(place, Remains { group, ids, ..Remains::default() });
        }
    }
}

impl Groups {
    /// Makes our own base; what dead instances left is swept meanwhile.
    pub(crate) fn open(most: usize, setup: SetupRules) -> Self {
        let host = Host::detect();
        let (base, absent) = match Base::create(&host) {
            Ok(base) => {
                let absent = base.absent().iter().map(|a| (a.controller, a.reason.clone()));
                let absent = absent.collect();
                (Some(base), absent)
            }
            Err(error) => (None, all_absent(&host, &error)),
        };
        let version = match host.version {
            ringfence_jail::cgroup::Version::V2 => "v2",
            _ => "v1",
        };
        let (sender, orders) = mpsc::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let maker = base.map(|base| Arc::new(Maker::new(base)));
        let ahead = maker.clone();
        let health = Arc::new(SetupHealth::new(setup));
        let seen = health.clone();
        let reaper = thread("reaper").spawn(move || reap(&orders, ahead.as_deref(), &seen));
        let closing = Arc::new(AtomicBool::new(false));
        let closes = closing.clone();
        let goes_on = move || !closes.load(Ordering::Relaxed);
        let sweeper = thread("sweeper").spawn(move || drop(Base::sweep(&host, goes_on)));
        Self {
            maker,
            absent,
            version,
            permits: Arc::new(Semaphore::new(most)),
            waiting: AtomicUsize::new(0),
            idle: OnceLock::new(),
            sweeper: Mutex::new(sweeper.ok()),
            closing,
            orders: Mutex::new(Some(sender)),
            reaper: Mutex::new(reaper.ok()),
            clerk: Clerk::start(),
            health,
            watchlist: Arc::default(),
        }
    }

    /// Directories to be removed by somebody else should we die.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.maker.as_ref().map(|maker| maker.paths()).unwrap_or_default()
    }

    /// Why the controller is missing, if it is.
    pub(crate) fn missing(&self, controller: &str) -> Option<&Reason> {
        self.absent.iter().find(|(name, _)| *name == controller).map(|(_, why)| why)
    }

    /// From now on `idle` is asked to give way when there is no room.
    pub(crate) fn ask_when_full(&self, idle: Weak<dyn Idle>) {
        let _ = self.idle.set(idle);
    }

    /// Whether a sandbox could be made that nobody has asked for.
    pub(crate) fn has_room(&self) -> bool {
        self.permits.available_permits() > 0
    }

    /// Whether somebody waits for a place.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Waits until there is room for one more sandbox. Whoever has to wait takes the place of one
    /// that is idle; whatever becomes idle from then on looks whether it is awaited.
    async fn place(&self) -> Result<Place, Error> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(Place { _permit: Some(permit) });
        }
        let _waiting = Waiting::new(&self.waiting);
        if let Some(idle) = self.idle.get().and_then(Weak::upgrade) {
            idle.give_way();
        }
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Gone("service"))?;
        Ok(Place { _permit: Some(permit) })
    }

    /// A cgroup with these limits; `None` where the host has none to give.
    fn make(&self, limits: &Limits, freezer: bool) -> Result<Option<Group>, Error> {
        let Some(maker) = &self.maker else { return Ok(None) };
        let group = maker.make(&group_limits(limits), freezer)?;
        // A service that runs one program and ends has no use for another group.
        if maker.was_asked_before() {
            self.order(Order::LookAhead);
        }
        Ok(Some(group))
    }

    /// Takes over a sandbox that was killed, or one that never came to be.
    pub(crate) fn bury(&self, place: Place, remains: Remains) {
        self.order(Order::Bury(Burial { remains, _place: place }));
    }

    fn order(&self, order: Order) {
        let sender = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let _ = sender.send(order);
        }
    }

    /// Kernel memory that sandboxes are charged with, if the host counts it.
    pub(crate) fn kernel_memory(&self) -> Option<u64> {
        self.maker.as_ref()?.kernel_memory()
    }

    /// Waits for the last burial, then removes the base. A process that hangs in the kernel, or
    /// much that others left, keeps nobody from stopping.
    pub(crate) fn close(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        join(&self.reaper, REAPER_TIMEOUT);
        join(&self.sweeper, SWEEPER_TIMEOUT);
        self.closing.store(true, Ordering::Relaxed);
        let _ = remove_trees(&self.paths(), Duration::from_secs(5));
    }
}

/// One who waits for a place, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.close();
    }
}

/// Each controller with its own reason, else the one why there is no base.
fn all_absent(host: &Host, error: &cgroup::Error) -> Vec<(&'static str, Reason)> {
    let no_base = Reason {
        what: format!("cannot {} a control group: {}", error.action, error.source),
        place: Some(error.path.clone()),
        fix: error.hint.clone(),
    };
    let reason = |available: &cgroup::Available| available.clone().err().unwrap_or(no_base.clone());
    host.controllers().into_iter().map(|(name, available)| (name, reason(available))).collect()
}

/// Waits for the end of a thread, but not longer.
fn join(thread: &Mutex<Option<JoinHandle<()>>>, limit: Duration) {
    let Some(thread) = thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let deadline = Instant::now() + limit;
    while !thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    if thread.is_finished() {
        let _ = thread.join();
    }
}

/// Buries, and makes groups ahead when there is nothing to bury.
fn reap(orders: &mpsc::Receiver<Order>, maker: Option<&Maker>, health: &SetupHealth) {
    let mut due = None;
    let mut slow: Vec<Slow> = Vec::new();
    let mut look_again: Option<Instant> = None;
    while let Ok(order) = next(orders, [due, look_again].into_iter().flatten().min()) {
        let is_past = |at: &Instant| *at <= Instant::now();
        match order {
            Some(Order::Bury(burial)) => {
                slow.extend(bury(burial));
                due = Some(Instant::now());
            }
            Some(Order::LookAhead) => due = due.or(Some(Instant::now() + FIRST_STEPS)),
            None if due.as_ref().is_some_and(is_past) => {
                due = None;
                maker.inspect(|maker| maker.make_spare());
            }
            None => {}
        }
        if look_again.as_ref().is_some_and(is_past) {
            look_again = None;
            slow.retain_mut(|dying| !dying.has_ended(health));
        }
        look_again = look_again.or(slow.first().map(|_| Instant::now() + QUICK_END));
    }
}

/// One that was killed and takes its time to die.
#[derive(Debug)]
struct Slow {
    burial: Burial,
    since: Instant,
    /// Its number, once it is plain that it hangs.
    hangs: Option<i32>,
}

impl Slow {
    /// Removes what is left if it has died; tells of it if it hangs.
    fn has_ended(&mut self, health: &SetupHealth) -> bool {
        let Remains { pidfd, group, is_set_up, .. } = &self.burial.remains;
        if pidfd.as_ref().is_none_or(|pidfd| wait_for_end(pidfd, Duration::ZERO)) {
            group.as_ref().inspect(|group| remove(group, Duration::from_secs(10)));
            self.hangs.inspect(|process| health.died(*process));
            return true;
        }
        let is_late = self.since.elapsed() >= health.rules.kill_timeout;
        if is_late && !is_set_up && self.hangs.is_none() {
            self.hangs = pidfd.as_ref().and_then(pid_of);
            self.hangs.inspect(|process| health.hangs(*process, Instant::now()));
        }
        false
    }
}

/// The next order; `None` if there is none until `due`. An error when nobody can order any more.
fn next(
    orders: &mpsc::Receiver<Order>,
    due: Option<Instant>,
) -> Result<Option<Order>, mpsc::RecvError> {
    let Some(due) = due else { return orders.recv().map(Some) };
    match orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Ok(order) => Ok(Some(order)),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(mpsc::RecvError),
    }
}

/// Gives it back if it has not died soon.
fn bury(burial: Burial) -> Option<Slow> {
    let Remains { pidfd, group, .. } = &burial.remains;
    if pidfd.as_ref().is_some_and(|pidfd| !wait_for_end(pidfd, QUICK_END)) {
        // The frozen cannot die.
        group.as_ref().inspect(|group| drop(group.kill(Duration::ZERO)));
        return Some(Slow { burial, since: Instant::now(), hangs: None });
    }
    group.as_ref().inspect(|group| remove(group, Duration::from_secs(10)));
    drop((burial.remains.workspace, burial.remains.ids));
    None
}

/// Ends a process.
pub(crate) fn kill(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// The number of a process that has not been waited for.
fn pid_of(pidfd: &OwnedFd) -> Option<i32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (pid > 0).then_some(pid)
}

/// Waits for the end of a process; whether it has come.
pub(crate) fn wait_for_end(pidfd: &OwnedFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut watched = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// A cgroup is busy until its last process is reaped, which is somebody else's task; so we ask
/// again, ever less often, and in the end kill whatever is still in there.
fn remove(group: &Group, patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_micros(200);
    while !matches!(group.remove(), Ok(Removal::Gone)) {
        if Instant::now() > deadline {
            return;
        }
        if pause > Duration::from_millis(50) {
            let _ = group.kill(Duration::from_millis(100));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}
