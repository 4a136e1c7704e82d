//! Sandboxes that are kept: create, exec many times, files in and out, stateful interpreters,
//! terminal, pause, resume, snapshot, fork, stop.
//!
//! Contract:
//! - A session is one sandbox with the layers of any other. Its programs share a workspace and can
//!   see and signal each other; sessions share nothing.
//! - A [`Session`] is a handle: cloning it is cheap, dropping it ends nothing. The session ends by
//!   [`Session::stop`], after its idle time without use, at the end of its lifetime, when its init
//!   dies, or with the last [`Native`]. Then it is in no list, its processes are dead, and every
//!   call on a handle fails with [`Error::Ended`] and the [`Ending`].
//! - Use is a running program that was started by [`Session::exec`], an execution in an
//!   interpreter, or a call on the session. Background processes do not count as use.
//! - While paused nothing inside runs and no idle time or timeout passes, but the lifetime does.
//!   Changes are refused with [`Error::Paused`]; reading files is not.
//! - A timeout ends a program and, where the host has control groups, everything it started;
//!   without them, the processes that did not leave its session. [`Process::reach`] says which.
//! - A program that failed is a result ([`ProcessEnd`]), never an [`Error`].
//!
//! One task per session owns the connection to the init and routes messages to programs; one task
//! per program moves its output and determines its end. No task waits for a reader.

mod access;
mod clock;
mod dispatch;
mod error;
mod exec;
mod family;
mod files;
mod id;
pub mod interpreter;
mod metrics;
mod pause;
mod process;
mod registry;
mod request;
mod restored;
mod runner;
mod shared;
mod snapshot;
mod start;
mod terminal;
mod watcher;

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use ringfence_jail::wire::Mode;
use ringfence_policy::Permit;

pub(crate) use self::registry::Registry;
use self::shared::Shared;
pub use self::{
    error::{Ending, Error},
    exec::{ExecRequest, Input, Size},
    family::Reach,
    files::{FileChanges, Files},
    id::{InvalidId, SessionId},
    interpreter::Interpreter,
    metrics::Metrics,
    process::{Process, ProcessEnd, ProcessUsage},
    registry::SessionInfo,
    request::{SESSION_TERMINALS, SessionRequest},
    shared::State,
    snapshot::{Manifest, Snapshot, SnapshotProblem},
    watcher::Watcher,
};
use crate::{Language, Native, jailed::Shape};

/// A sandbox that is kept. See the [module](self) for its contract.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

impl Native {
    /// Makes a session: a fresh sandbox with an empty workspace and nothing running in it.
    pub async fn session(
        &self,
        _permit: Permit,
        request: SessionRequest,
    ) -> Result<Session, Error> {
        self.make_session(request).await
    }

    async fn make_session(&self, request: SessionRequest) -> Result<Session, Error> {
        request.check()?;
        let shape = Shape {
            limits: request.limits.clone(),
            may_miss: self.inner.may_miss(&request.may_miss),
            freezer: true,
            listeners: request.listeners.clone(),
        };
        let mut jailed = self.inner.cold_sandbox(&request.root, &shape).await?;
        jailed.ready().await?;
        let session = Session { shared: Shared::open(jailed, request, &self.inner)? };
        self.inner.sessions.add(session.clone());
        Ok(session)
    }

    /// Makes a session with the workspace of the snapshot.
    pub async fn restore(
        &self,
        _permit: Permit,
        request: SessionRequest,
        snapshot: &Snapshot,
    ) -> Result<Session, Error> {
        self.make_restored(request, snapshot).await
    }

    pub(super) async fn make_restored(
        &self,
        request: SessionRequest,
        snapshot: &Snapshot,
    ) -> Result<Session, Error> {
        let session = self.make_session(request).await?;
        match session.unpack_snapshot(snapshot).await {
            Ok(()) => Ok(session),
            Err(error) => {
                session.stop().await;
                Err(error)
            }
        }
    }

    /// All sessions that have not ended, oldest first.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut all: Vec<_> = self.inner.sessions.all().iter().map(Session::info).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.age));
        all
    }

    /// The session with this id, unless it has ended.
    pub fn session_by_id(&self, id: &SessionId) -> Option<Session> {
        self.inner.sessions.get(id)
    }
}

impl Session {
    /// Public id; random, so that one id says nothing about another.
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// State: running, paused, or ended and why.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Information for lists.
    pub fn info(&self) -> SessionInfo {
        SessionInfo::of(&self.shared)
    }

    /// Whether its uid outside is that of the service's user instead of its own.
    pub fn is_rootless(&self) -> Result<bool, Error> {
        Ok(self.shared.look()?.jailed.mode == Mode::Rootless)
    }

    /// Sockets of [`SessionRequest::listeners`], in order; empty if they were taken before.
    pub fn take_listeners(&self) -> Vec<OwnedFd> {
        self.shared.take_listeners()
    }

    /// Starts a program. Returns when it runs; if it cannot be started, [`Error::NotStarted`].
    pub async fn exec(&self, _permit: Permit, request: ExecRequest) -> Result<Process, Error> {
        exec::exec(&self.shared, request).await
    }

    /// Programs started by [`Session::exec`] that have not ended.
    pub fn processes(&self) -> Vec<Process> {
        self.shared.processes()
    }

    /// Starts a stateful interpreter, by default in `/workspace`.
    pub async fn interpreter(
        &self,
        _permit: Permit,
        language: Language,
        options: interpreter::Options,
    ) -> Result<Interpreter, Error> {
        Interpreter::start(&self.shared, language, options).await
    }

    /// Read access to its workspace.
    pub fn files(&self) -> Files {
        Files::new(self.shared.clone())
    }

    /// Write access to its workspace: one permit is for all changes of one request.
    pub fn change_files(&self, permit: Permit) -> FileChanges {
        FileChanges::new(self.shared.clone(), permit)
    }

    /// Freezes every process inside until [`Session::resume`]. Waits for writes into the workspace
    /// that are in progress. Does nothing if it is paused already.
    pub async fn pause(&self) -> Result<(), Error> {
        pause::pause(&self.shared).await
    }

    /// Lets it run again. Does nothing if it runs already.
    pub async fn resume(&self) -> Result<(), Error> {
        pause::resume(&self.shared).await
    }

    /// Resource usage.
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        metrics::metrics(&self.shared)
    }

    /// Changes its idle time.
    pub fn set_idle(&self, idle: Duration) -> Result<(), Error> {
        self.shared.set_times(Some(idle), None)
    }

    /// Changes its lifetime, counted from its creation.
    pub fn set_lifetime(&self, lifetime: Duration) -> Result<(), Error> {
        self.shared.set_times(None, Some(lifetime))
    }

    /// Marks it as used now, as any call does.
    pub fn touch(&self) -> Result<(), Error> {
        self.shared.look().map(drop)
    }

    /// Ends it and returns when its last process is dead. Does nothing if it has ended already.
    pub async fn stop(&self) {
        self.shared.end(Ending::Stopped);
        self.shared.gone().await;
    }

    /// Waits until it has ended, and returns the cause.
    pub async fn ended(&self) -> Ending {
        self.shared.ended().await
    }
}
