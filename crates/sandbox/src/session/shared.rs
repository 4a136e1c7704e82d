//! State behind all handles of one session, and its end.
//!
//! Invariant: the sandbox's parts exist exactly as long as the state is not `Ended`; both change
//! under one lock, and the state never leaves `Ended`.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::sync::{Notify, RwLock, Semaphore, watch};

use super::{
    Ending, Error, Process, SessionId, SessionRequest,
    clock::Clock,
    dispatch::{self, Route},
    family::Families,
    request::time_problem,
};
use crate::{
    files::{FileLimits, Workspace},
    jailed::Jailed,
    native::Inner,
    supervisor::owner,
};

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Programs run.
    Running,
    /// Nothing inside runs until it is resumed.
    Paused,
    /// The session has ended.
    Ended(Ending),
}

/// Largest number of programs and interpreters of a session, including those whose background
/// children still hold their output: each costs us a handful of descriptors.
pub(super) const MAX_PROGRAMS: usize = 256;
/// Largest number of interpreters of a session: each may make us hold a frame of many megabytes.
pub(super) const MAX_INTERPRETERS: usize = 8;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) id: SessionId,
    pub(super) request: SessionRequest,
    /// Lock held for reading by changes of the inside, and for writing while the session is frozen.
    pub(super) gate: Arc<RwLock<()>>,
    pub(super) programs: Arc<Semaphore>,
    pub(super) interpreters: Arc<Semaphore>,
    pub(super) families: Families,
    /// Notified when the deadlines of the clock changed.
    pub(super) rescheduled: Notify,
    state: watch::Sender<State>,
    gone: watch::Sender<bool>,
    core: Mutex<Core>,
    native: Weak<Inner>,
}

#[derive(Debug)]
struct Core {
    parts: Option<Parts>,
    /// Listening sockets that the caller has not taken yet.
    listeners: Vec<OwnedFd>,
    clock: Clock,
    routes: HashMap<u32, Route>,
    processes: HashMap<u32, Process>,
    next_program: u32,
    refusals: Refusals,
}

/// Parts that exist only while the session lives.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) jailed: Arc<Jailed>,
    pub(super) workspace: Arc<Workspace>,
}

/// Counters of the kernel's refusals at the last check.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Refusals {
    pub(super) oom_kills: u64,
    pub(super) pids_refused: u64,
}

impl Refusals {
    pub(super) fn of(jailed: &Jailed) -> Self {
        let stats = jailed.group.as_ref().and_then(|group| group.stats().ok()).unwrap_or_default();
        Self {
            oom_kills: stats.oom_kills.unwrap_or_default(),
            pids_refused: stats.pids_refused.unwrap_or_default(),
        }
    }
}

impl Shared {
    /// Takes over a sandbox that is ready and starts the task that reads its init's messages.
    pub(super) fn open(
        mut jailed: Jailed,
        request: SessionRequest,
        native: &Arc<Inner>,
    ) -> Result<Arc<Self>, Error> {
        let id = SessionId::random().map_err(Error::io("make an id"))?;
        let workspace = Arc::new(workspace(&jailed)?);
        let listeners = std::mem::take(&mut jailed.listeners);
        let parts = Parts { jailed: Arc::new(jailed), workspace };
        let core = Core {
            parts: Some(parts.clone()),
            listeners,
            clock: Clock::new(Instant::now(), request.idle, request.lifetime),
            routes: HashMap::new(),
            processes: HashMap::new(),
            next_program: 1,
            refusals: Refusals::default(),
        };
        let shared = Arc::new(Self {
            id,
            request,
            gate: Arc::new(RwLock::new(())),
            programs: Arc::new(Semaphore::new(MAX_PROGRAMS)),
            interpreters: Arc::new(Semaphore::new(MAX_INTERPRETERS)),
            families: Families::default(),
            rescheduled: Notify::new(),
            state: watch::Sender::new(State::Running),
            gone: watch::Sender::new(false),
            core: Mutex::new(core),
            native: Arc::downgrade(native),
        });
        tokio::spawn(dispatch::listen(shared.clone(), parts.jailed));
        Ok(shared)
    }

    /// Ends the session unless it has ended. Everything inside is killed at once; see
    /// [`Shared::gone`].
    pub(super) fn end(&self, why: Ending) {
        let (parts, routes, _processes) = {
            let mut core = self.core();
            let Some(parts) = core.parts.take() else { return };
            self.state.send_replace(State::Ended(why));
            (parts, std::mem::take(&mut core.routes), std::mem::take(&mut core.processes))
        };
        parts.jailed.kill();
        // Programs that wait for a message see the end of the channel; the state says why.
        drop(routes);
        // Frozen processes cannot die.
        if let Some(group) = &parts.jailed.group {
            let _ = group.thaw();
        }
        self.rescheduled.notify_one();
        if let Some(native) = self.native.upgrade() {
            native.sessions.forget(&self.id);
        }
    }

    pub(super) fn take_listeners(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.core().listeners)
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    pub(super) fn watch_state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Cause of the end; only called after the end was seen.
    pub(super) fn ending(&self) -> Ending {
        match self.state() {
            State::Ended(why) => why,
            _ => Ending::Crashed,
        }
    }

    pub(super) async fn ended(&self) -> Ending {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| matches!(state, State::Ended(_))).await;
        self.ending()
    }

    /// Waits until the last process of an ended session is dead.
    pub(super) async fn gone(&self) {
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    pub(super) fn set_gone(&self) {
        self.gone.send_replace(true);
    }

    /// Parts of the sandbox, while it lives.
    pub(super) fn parts(&self) -> Result<Parts, Error> {
        self.core().parts.clone().ok_or_else(|| Error::Ended(self.ending()))
    }

    /// Records that it is paused or runs, unless it ended meanwhile.
    pub(super) fn set_state(&self, state: State) -> Result<(), Error> {
        let mut core = self.core();
        if core.parts.is_none() {
            return Err(Error::Ended(self.ending()));
        }
        core.clock.set_paused(state == State::Paused, Instant::now());
        self.state.send_replace(state);
        drop(core);
        self.rescheduled.notify_one();
        Ok(())
    }

    pub(super) fn with_clock<R>(&self, change: impl FnOnce(&mut Clock) -> R) -> R {
        change(&mut self.core().clock)
    }

    pub(super) fn set_times(
        self: &Arc<Self>,
        idle: Option<Duration>,
        lifetime: Option<Duration>,
    ) -> Result<(), Error> {
        let problem = idle.and_then(|time| time_problem("idle", time));
        let problem = problem.or(lifetime.and_then(|time| time_problem("lifetime", time)));
        if let Some(problem) = problem {
            return Err(Error::Invalid(problem));
        }
        let _used = self.look()?;
        self.with_clock(|clock| {
            clock.idle = idle.unwrap_or(clock.idle);
            clock.lifetime = lifetime.unwrap_or(clock.lifetime);
        });
        self.rescheduled.notify_one();
        Ok(())
    }

    pub(super) fn native(&self) -> Result<Arc<Inner>, Error> {
        self.native.upgrade().ok_or(Error::Ended(Ending::Closed))
    }

    /// Registers a program's message channel; returns its number.
    pub(super) fn add_route(&self, route: Route) -> Result<u32, Error> {
        let mut core = self.core();
        if core.parts.is_none() {
            return Err(Error::Ended(self.ending()));
        }
        let id = core.next_program;
        core.next_program = id.wrapping_add(1);
        core.routes.insert(id, route);
        Ok(id)
    }

    pub(super) fn route(&self, id: u32) -> Option<Route> {
        self.core().routes.get(&id).cloned()
    }

    pub(super) fn remove_route(&self, id: u32) {
        self.core().routes.remove(&id);
    }

    pub(super) fn add_process(&self, process: Process) {
        let mut core = self.core();
        if core.parts.is_some() {
            core.processes.insert(process.id(), process);
        }
    }

    pub(super) fn remove_process(&self, id: u32) {
        self.core().processes.remove(&id);
    }

    pub(super) fn processes(&self) -> Vec<Process> {
        let mut all: Vec<_> = self.core().processes.values().cloned().collect();
        all.sort_by_key(Process::id);
        all
    }

    /// Refusals of the kernel since the last call.
    pub(super) fn new_refusals(&self, now: Refusals) -> Refusals {
        let before = std::mem::replace(&mut self.core().refusals, now);
        Refusals {
            oom_kills: now.oom_kills.saturating_sub(before.oom_kills),
            pids_refused: now.pids_refused.saturating_sub(before.pids_refused),
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn workspace(jailed: &Jailed) -> Result<Workspace, Error> {
    let dir = jailed.workspace.as_ref().ok_or(crate::Error::Gone("workspace"))?;
    let dir = rustix::io::fcntl_dupfd_cloexec(dir, 3).map_err(std::io::Error::from);
    let dir = dir.map_err(Error::io("hold the workspace"))?;
    Ok(Workspace::new(dir, owner(jailed), FileLimits::default()))
}
