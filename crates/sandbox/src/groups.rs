//! Cgroups for sandboxes, and the thread that buries the dead.
//!
//! Teardown is off every caller's path: a sandbox that is done is killed at once and handed to the
//! reaper, which waits for its end and removes its cgroup. How many may live or die at one time is
//! bounded by permits, so a flood waits at the door instead of piling up corpses.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ringfence_jail::cgroup::{Base, Group, Host, Removal, remove_trees};
use ringfence_types::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, clerk::Clerk, prepared::group_limits};

/// The cgroups of this service.
#[derive(Debug)]
pub(crate) struct Groups {
    base: Option<Base>,
    /// In words, why there is no base or which controllers it lacks.
    pub(crate) absent: Vec<(&'static str, String)>,
    pub(crate) version: &'static str,
    next: AtomicU64,
    permits: Arc<Semaphore>,
    burials: Mutex<Option<mpsc::Sender<Burial>>>,
    reaper: Mutex<Option<JoinHandle<()>>>,
    pub(crate) clerk: Clerk,
}

/// The remains of one sandbox.
#[derive(Debug)]
struct Burial {
    pidfd: Option<OwnedFd>,
    group: Option<Group>,
    _permit: OwnedSemaphorePermit,
}

/// A place among the living and the dying, to be had before a sandbox is made.
#[derive(Debug)]
pub(crate) struct Place(OwnedSemaphorePermit);

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

    /// The sandbox is there and takes both over.
    pub(crate) fn hand_over(mut self) -> (Option<Place>, Option<Group>) {
        (self.place.take(), self.group.take())
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.groups.bury(place, None, self.group.take());
        }
    }
}

impl Groups {
    /// Sweeps what dead instances left, then makes our own base.
    pub(crate) fn open(most: usize) -> Self {
        let host = Host::detect();
        let _ = Base::sweep(&host);
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
        let (burials, orders) = mpsc::channel();
        let reaper = std::thread::Builder::new().name("reaper".into()).spawn(move || reap(&orders));
        Self {
            base,
            absent,
            version,
            next: AtomicU64::new(1),
            permits: Arc::new(Semaphore::new(most)),
            burials: Mutex::new(Some(burials)),
            reaper: Mutex::new(reaper.ok()),
            clerk: Clerk::start(),
        }
    }

    /// Directories to be removed by somebody else should we die.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.base.as_ref().map(Base::paths).unwrap_or_default()
    }

    /// Why the controller is missing, if it is.
    pub(crate) fn missing(&self, controller: &str) -> Option<&str> {
        self.absent.iter().find(|(name, _)| *name == controller).map(|(_, why)| why.as_str())
    }

    /// Waits until there is room for one more sandbox.
    async fn place(&self) -> Result<Place, Error> {
        let permit = self.permits.clone().acquire_owned().await;
        permit.map(Place).map_err(|_| Error::Gone("service"))
    }

    /// A cgroup with these limits; `None` where the host has none to give.
    fn make(&self, limits: &Limits, freezer: bool) -> Result<Option<Group>, Error> {
        let Some(base) = &self.base else { return Ok(None) };
        let name = format!("box-{}", self.next.fetch_add(1, Ordering::Relaxed));
        Ok(Some(base.new_group(&name, &group_limits(limits), freezer)?))
    }

    /// Takes over a sandbox that was killed, or one that never came to be.
    pub(crate) fn bury(&self, place: Place, pidfd: Option<OwnedFd>, group: Option<Group>) {
        let burial = Burial { pidfd, group, _permit: place.0 };
        let sender = self.burials.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let _ = sender.send(burial);
        }
    }

    /// Waits for the last burial, then removes the base.
    pub(crate) fn close(&self) {
        self.burials.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reaper = self.reaper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reaper) = reaper {
            let _ = reaper.join();
        }
        // The spawner does this too, but there may never have been one.
        let _ = remove_trees(&self.paths(), Duration::from_secs(5));
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

fn reap(orders: &mpsc::Receiver<Burial>) {
    while let Ok(burial) = orders.recv() {
        if let Some(pidfd) = &burial.pidfd {
            wait_for_end(pidfd, Duration::from_secs(10));
        }
        if let Some(group) = &burial.group {
            remove(group, Duration::from_secs(10));
        }
    }
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
