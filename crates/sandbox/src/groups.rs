//! Cgroups for sandboxes, and the thread that buries the dead.
//!
//! Teardown is off every caller's path: a sandbox that is done is killed, at once or when its caller
//! has had a moment (see `live`), and handed to the reaper, which waits for its end and removes its
//! cgroup. How many may live or die at one time is bounded by permits, so a flood waits at the door
//! instead of piling up corpses.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ringfence_jail::cgroup::{Base, Group, Host, Removal, remove_trees};
use ringfence_types::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, clerk::Clerk, prepared::group_limits, spare::Maker};

/// The cgroups of this service.
#[derive(Debug)]
pub(crate) struct Groups {
    maker: Option<Arc<Maker>>,
    /// In words, why there is no base or which controllers it lacks.
    pub(crate) absent: Vec<(&'static str, String)>,
    pub(crate) version: &'static str,
    permits: Arc<Semaphore>,
    /// How many wait for a permit.
    waiting: AtomicUsize,
    idle: OnceLock<Weak<dyn Idle>>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    reaper: Mutex<Option<JoinHandle<()>>>,
    pub(crate) clerk: Clerk,
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

/// What is left of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) group: Option<Group>,
    /// Closing the last descriptor of a workspace unmounts it, for which the kernel waits; so the
    /// reaper has the last one unless somebody still wants the files.
    pub(crate) workspace: Option<OwnedFd>,
}

#[derive(Debug)]
struct Burial {
    remains: Remains,
    _place: Place,
}

/// A place among the living and the dying, to be had before a sandbox is made. What helps to make
/// sandboxes is not counted among them: a call must never wait for its own helper's place.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Whoever holds sandboxes that nobody uses yet.
pub(crate) trait Idle: std::fmt::Debug + Send + Sync {
    /// Gives one of them up, if there is one.
    fn give_way(&self) -> bool;
}

/// A place and a cgroup for a sandbox that is being made. Both go back unless it comes to be, even
/// when whoever waits for it gives up halfway.
#[derive(Debug)]
pub(crate) struct Plot {
    groups: Arc<Groups>,
    place: Option<Place>,
    pub(crate) group: Option<Group>,
}

impl Plot {
    /// Waits for room, then makes the cgroup.
    pub(crate) async fn open(
        groups: &Arc<Groups>,
        limits: &Limits,
        freezer: bool,
    ) -> Result<Self, Error> {
        let place = Some(groups.place().await?);
        let group = groups.make(limits, freezer)?;
        Ok(Self { groups: groups.clone(), place, group })
    }

    /// For a helper, which has no limit in number but its own limits.
    pub(crate) fn for_helper(groups: &Arc<Groups>, limits: &Limits) -> Result<Self, Error> {
        let place = Some(Place { _permit: None });
        let group = groups.make(limits, false)?;
        Ok(Self { groups: groups.clone(), place, group })
    }

    /// The sandbox is there and takes both over.
    pub(crate) fn hand_over(mut self) -> (Option<Place>, Option<Group>) {
        (self.place.take(), self.group.take())
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.groups.bury(place, Remains { group: self.group.take(), ..Remains::default() });
        }
    }
}

impl Groups {
    /// Makes our own base; what dead instances left is swept meanwhile.
    pub(crate) fn open(most: usize) -> Self {
        let host = Host::detect();
        let (base, absent) = match Base::create(&host) {
            Ok(base) => {
                let absent = base.absent().iter().map(|a| (a.controller, a.reason.to_string()));
                let absent = absent.collect();
                (Some(base), absent)
            }
            Err(error) => (None, all_absent(&host, &error.to_string())),
        };
        let version = match host.version {
            ringfence_jail::cgroup::Version::V2 => "v2",
            _ => "v1",
        };
        let (sender, orders) = mpsc::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let maker = base.map(|base| Arc::new(Maker::new(base)));
        let ahead = maker.clone();
        let reaper = thread("reaper").spawn(move || reap(&orders, ahead.as_deref()));
        let sweeper = thread("sweeper").spawn(move || drop(Base::sweep(&host)));
        Self {
            maker,
            absent,
            version,
            permits: Arc::new(Semaphore::new(most)),
            waiting: AtomicUsize::new(0),
            idle: OnceLock::new(),
            sweeper: Mutex::new(sweeper.ok()),
            orders: Mutex::new(Some(sender)),
            reaper: Mutex::new(reaper.ok()),
            clerk: Clerk::start(),
        }
    }

    /// Directories to be removed by somebody else should we die.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.maker.as_ref().map(|maker| maker.paths()).unwrap_or_default()
    }

    /// Why the controller is missing, if it is.
    pub(crate) fn missing(&self, controller: &str) -> Option<&str> {
        self.absent.iter().find(|(name, _)| *name == controller).map(|(_, why)| why.as_str())
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

    /// Waits for the last burial, then removes the base.
    pub(crate) fn close(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in [&self.reaper, &self.sweeper] {
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
        // The spawner does this too, but there may never have been one.
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

fn all_absent(host: &Host, error: &str) -> Vec<(&'static str, String)> {
    host.controllers()
        .into_iter()
        .map(|(name, available)| {
            (name, available.as_ref().err().map_or_else(|| error.to_owned(), ToString::to_string))
        })
        .collect()
}

/// Buries, and makes groups ahead when there is nothing to bury.
fn reap(orders: &mpsc::Receiver<Order>, maker: Option<&Maker>) {
    let mut due = None;
    while let Ok(order) = next(orders, due) {
        match order {
            Some(Order::Bury(burial)) => {
                bury(burial);
                due = Some(Instant::now());
            }
            Some(Order::LookAhead) => due = due.or(Some(Instant::now() + FIRST_STEPS)),
            None => {
                due = None;
                maker.inspect(|maker| maker.make_spare());
            }
        }
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

fn bury(burial: Burial) {
    if let Some(pidfd) = &burial.remains.pidfd {
        wait_for_end(pidfd, Duration::from_secs(10));
    }
    if let Some(group) = &burial.remains.group {
        remove(group, Duration::from_secs(10));
    }
    drop(burial.remains.workspace);
}

fn wait_for_end(pidfd: &OwnedFd, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut watched = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
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
