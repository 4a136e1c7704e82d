//! Cgroups of sandboxes, and the reaper thread that tears sandboxes down.
//!
//! Teardown is off every caller's path: a finished sandbox is killed, at once or a moment later
//! (see `supervisor`), and handed to the reaper, which waits for its end and removes its cgroup. The
//! number of sandboxes, those being torn down included, is bounded by slots, so under a flood calls
//! wait for a slot and teardowns do not pile up.

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
    health::{SetupHealth, SetupTimer},
    ids::Ids,
    prepared::group_limits,
    spare_group::GroupMaker,
    syscall_responder::SyscallResponder,
    watchdog::Watchlist,
};

/// The cgroups of this service.
#[derive(Debug)]
pub(crate) struct Groups {
    maker: Option<Arc<GroupMaker>>,
    /// Reasons why there is no base cgroup, or why controllers are missing.
    pub(crate) absent: Vec<(&'static str, Reason)>,
    pub(crate) version: &'static str,
    permits: Arc<Semaphore>,
    /// Number of callers that wait for a slot.
    waiting: AtomicUsize,
    idle: OnceLock<Weak<dyn IdleSandboxes>>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
    /// Set when close no longer waits for the sweeper.
    closing: Arc<AtomicBool>,
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    reaper: Mutex<Option<JoinHandle<()>>>,
    pub(crate) responder: SyscallResponder,
    /// Whether sandboxes can be made.
    pub(crate) health: Arc<SetupHealth>,
    /// Programs that the watchdog may end.
    pub(crate) watchlist: Arc<Watchlist>,
}

/// Orders to the reaper.
#[derive(Debug)]
enum Order {
    TearDown(Teardown),
    /// A group was taken: make the next one once its sandbox is set up.
    MakeSpare,
}

/// Delay before the next group is made: the sandbox that is being set up needs the processors more.
/// A longer program does not notice, and after a shorter one the reaper is called anyway.
const SPARE_DELAY: Duration = Duration::from_millis(5);

/// Time that the reaper waits for one killed sandbox before it attends to others, and the interval
/// at which it checks again.
const REAP_WAIT: Duration = Duration::from_millis(200);

/// Time that closing waits for the reaper and for the sweeper of what earlier services left.
const REAPER_TIMEOUT: Duration = Duration::from_secs(5);
const SWEEPER_TIMEOUT: Duration = Duration::from_secs(2);

/// Leftovers of one sandbox or helper, to be torn down.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) group: Option<Arc<Group>>,
    /// The lock-down was complete. If it does not end, that says nothing about making others.
    pub(crate) is_set_up: bool,
    /// Last descriptor of the workspace. Closing it unmounts the workspace, for which the kernel
    /// waits, so the reaper does that unless the files are still in use.
    pub(crate) workspace: Option<OwnedFd>,
    /// Ids, given to another sandbox only once no process has them any more.
    pub(crate) ids: Option<Ids>,
}

#[derive(Debug)]
struct Teardown {
    leftovers: Leftovers,
    _slot: SandboxSlot,
}

/// Slot for one sandbox, from before it is made until it is torn down. Helper processes need none:
/// a call must never wait for a slot of its own helper.
#[derive(Debug, Default)]
pub(crate) struct SandboxSlot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Owner of idle sandboxes.
pub(crate) trait IdleSandboxes: std::fmt::Debug + Send + Sync {
    /// Ends one of them, if there is one.
    fn end_one_idle(&self) -> bool;
}

/// Slot, cgroup and ids of a sandbox that is being made. They are given back on drop unless it was
/// handed over, even if the caller gives up halfway.
#[derive(Debug)]
pub(crate) struct Reservation {
    groups: Arc<Groups>,
    slot: Option<SandboxSlot>,
    pub(crate) group: Option<Group>,
    /// Ids of the sandbox, once they are taken.
    pub(crate) ids: Option<Ids>,
}

impl Reservation {
    /// Waits for a slot, then makes the cgroup.
    pub(crate) async fn open(
        groups: &Arc<Groups>,
        limits: &Limits,
        freezer: bool,
    ) -> Result<Self, Error> {
        let timer = SetupTimer::begin("wait for a slot");
        let slot = Some(groups.slot().await?);
        drop(timer);
        let _timer = SetupTimer::begin("cgroup");
        let group = groups.make(limits, freezer)?;
        Ok(Self { groups: groups.clone(), slot, group, ids: None })
    }

    /// Reservation for a helper, which has limits but needs no slot.
    pub(crate) fn for_helper(groups: &Arc<Groups>, limits: &Limits) -> Result<Self, Error> {
        let slot = Some(SandboxSlot::default());
        let group = groups.make(limits, false)?;
        Ok(Self { groups: groups.clone(), slot, group, ids: None })
    }

    /// Passes everything on to the finished sandbox.
    pub(crate) fn hand_over(mut self) -> (Option<SandboxSlot>, Option<Group>, Option<Ids>) {
        (self.slot.take(), self.group.take(), self.ids.take())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let (group, ids) = (self.group.take().map(Arc::new), self.ids.take());
            self.groups.tear_down(slot, Leftovers { group, ids, ..Leftovers::default() });
        }
    }
}

impl Groups {
    /// Makes the base cgroup of this service; leftovers of dead instances are swept meanwhile.
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
        let maker = base.map(|base| Arc::new(GroupMaker::new(base)));
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
            responder: SyscallResponder::start(),
            health,
            watchlist: Arc::default(),
        }
    }

    /// Directories that the spawner removes if this process dies.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.maker.as_ref().map(|maker| maker.paths()).unwrap_or_default()
    }

    /// Reason why the controller is missing, if it is.
    pub(crate) fn missing(&self, controller: &str) -> Option<&Reason> {
        self.absent.iter().find(|(name, _)| *name == controller).map(|(_, why)| why)
    }

    /// Registers an owner of idle sandboxes, which ends one when there is no free slot.
    pub(crate) fn register_idle(&self, idle: Weak<dyn IdleSandboxes>) {
        let _ = self.idle.set(idle);
    }

    /// Whether a sandbox can be made ahead without taking the last slots.
    pub(crate) fn has_room(&self) -> bool {
        self.permits.available_permits() > 0
    }

    /// Whether a caller waits for a slot.
    pub(crate) fn has_waiting_callers(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Waits for a slot. A caller that has to wait first gets an idle sandbox ended; sandboxes that
    /// become idle later check whether a caller waits.
    async fn slot(&self) -> Result<SandboxSlot, Error> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(SandboxSlot { _permit: Some(permit) });
        }
        let _waiting = Waiting::new(&self.waiting);
        if let Some(idle) = self.idle.get().and_then(Weak::upgrade) {
            idle.end_one_idle();
        }
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Gone("service"))?;
        Ok(SandboxSlot { _permit: Some(permit) })
    }

    /// Cgroup with these limits; `None` if the host has no cgroups.
    fn make(&self, limits: &Limits, freezer: bool) -> Result<Option<Group>, Error> {
        let Some(maker) = &self.maker else { return Ok(None) };
        let group = maker.make(&group_limits(limits), freezer)?;
        // A service that runs one program and ends needs no second group.
        if maker.was_asked_before() {
            self.order(Order::MakeSpare);
        }
        Ok(Some(group))
    }

    /// Takes over a sandbox that was killed, or a reservation that was not used.
    pub(crate) fn tear_down(&self, slot: SandboxSlot, leftovers: Leftovers) {
        self.order(Order::TearDown(Teardown { leftovers, _slot: slot }));
    }

    fn order(&self, order: Order) {
        let sender = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let _ = sender.send(order);
        }
    }

    /// Kernel memory charged to sandboxes, if the host counts it.
    pub(crate) fn kernel_memory(&self) -> Option<u64> {
        self.maker.as_ref()?.kernel_memory()
    }

    /// Waits for the last teardown, then removes the base. The wait is bounded, so a process that
    /// hangs in the kernel, or many leftovers of others, cannot keep the service from stopping.
    pub(crate) fn close(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        join(&self.reaper, REAPER_TIMEOUT);
        join(&self.sweeper, SWEEPER_TIMEOUT);
        self.closing.store(true, Ordering::Relaxed);
        let _ = remove_trees(&self.paths(), Duration::from_secs(5));
    }
}

/// Counts a waiting caller for as long as it waits.
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

/// Reason of each controller, or the one why there is no base.
fn all_absent(host: &Host, error: &cgroup::Error) -> Vec<(&'static str, Reason)> {
    let no_base = Reason {
        what: format!("cannot {} a control group: {}", error.action, error.source),
        place: Some(error.path.clone()),
        fix: error.hint.clone(),
    };
    let reason = |available: &cgroup::Available| available.clone().err().unwrap_or(no_base.clone());
    host.controllers().into_iter().map(|(name, available)| (name, reason(available))).collect()
}

/// Waits for the end of a thread, at most `limit`.
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

/// Reaper loop: tears sandboxes down, and makes groups ahead when there is nothing to tear down.
fn reap(orders: &mpsc::Receiver<Order>, maker: Option<&GroupMaker>, health: &SetupHealth) {
    let mut due = None;
    let mut slow: Vec<SlowTeardown> = Vec::new();
    let mut look_again: Option<Instant> = None;
    while let Ok(order) = next(orders, [due, look_again].into_iter().flatten().min()) {
        let is_past = |at: &Instant| *at <= Instant::now();
        match order {
            Some(Order::TearDown(teardown)) => {
                slow.extend(tear_down(teardown));
                due = Some(Instant::now());
            }
            Some(Order::MakeSpare) => due = due.or(Some(Instant::now() + SPARE_DELAY)),
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
        look_again = look_again.or(slow.first().map(|_| Instant::now() + REAP_WAIT));
    }
}

/// A killed sandbox whose end takes long.
#[derive(Debug)]
struct SlowTeardown {
    teardown: Teardown,
    since: Instant,
    /// Pid, once it is known to hang.
    hangs: Option<i32>,
}

impl SlowTeardown {
    /// Removes the leftovers if it has ended; reports it if it hangs.
    fn has_ended(&mut self, health: &SetupHealth) -> bool {
        let Leftovers { pidfd, group, is_set_up, .. } = &self.teardown.leftovers;
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

/// Next order; `None` if none comes until `due`. An error once all senders are gone.
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

/// Tears a sandbox down; returns it if it does not end soon.
fn tear_down(teardown: Teardown) -> Option<SlowTeardown> {
    let Leftovers { pidfd, group, .. } = &teardown.leftovers;
    if pidfd.as_ref().is_some_and(|pidfd| !wait_for_end(pidfd, REAP_WAIT)) {
        // Frozen processes cannot die, so this thaws them.
        group.as_ref().inspect(|group| drop(group.kill(Duration::ZERO)));
        return Some(SlowTeardown { teardown, since: Instant::now(), hangs: None });
    }
    group.as_ref().inspect(|group| remove(group, Duration::from_secs(10)));
    drop((teardown.leftovers.workspace, teardown.leftovers.ids));
    None
}

/// Kills a process.
pub(crate) fn kill(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// Pid of a process that has not been waited for.
fn pid_of(pidfd: &OwnedFd) -> Option<i32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (pid > 0).then_some(pid)
}

/// Waits for the end of a process, at most `limit`; `true` if it has ended.
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

/// Removes a cgroup. It is busy until its last process is reaped, which other processes do; so
/// removal is retried at growing intervals, and in the end what is still in there is killed.
fn remove(group: &Group, timeout: Duration) {
    let deadline = Instant::now() + timeout;
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
