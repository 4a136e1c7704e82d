//! The port: what a backend that runs programs in sandboxes offers.

use std::fmt;

use async_trait::async_trait;
use ringfence_policy::Permit;
use ringfence_types::{Digest, Layer};

use crate::{
    Error, Native, PoolKey, PoolStatus, Request, Running, Unavailable,
    session::{self, Session, SessionId, SessionInfo, SessionRequest, Snapshot},
};

/// A way to run programs in sandboxes.
///
/// Contract:
/// - whatever runs user code, or changes what user code will find, takes a [`Permit`] by value and
///   uses it up: here, and in [`Session`], its interpreters and its files. Looking, pausing and
///   ending take none;
/// - a sandbox that ran one program never sees another, except in a session, which is its one program;
/// - a wall that is demanded and missing refuses the run ([`Error::Missing`]); one that may be missing
///   and is, is named in the report;
/// - a program that failed is a report, never an [`Error`].
///
/// The program of any backend is a [`Running`], made by [`Running::new`].
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it is called in settings and records.
    fn name(&self) -> &'static str;

    /// Starts a program in a fresh sandbox.
    async fn run(&self, permit: Permit, request: Request) -> Result<Running, Error>;

    /// Refuses if a sandbox of this host would stand without one of these walls.
    fn check(&self, walls: &[Layer]) -> Result<(), Error>;

    /// Why no sandboxes are made at the moment, if so.
    fn available(&self) -> Result<(), Unavailable>;

    /// Like [`Backend::available`], and tells as well if the last set-ups all failed.
    fn readiness(&self) -> Result<(), Unavailable>;

    /// Layers that its sandboxes lack because the operator allowed that; none before the first trial.
    fn missing_layers(&self) -> &[Layer];

    /// Of what programs find installed; none if that changed since the start. May read files.
    fn runtime(&self) -> Option<Digest>;

    /// What every pool of prepared interpreters holds and has done.
    fn pools(&self) -> Vec<(PoolKey, PoolStatus)>;

    /// Programs that were ended for using up the host.
    fn watchdog_kills(&self) -> u64;

    /// Makes a sandbox that is kept; its workspace is empty, or that of the snapshot.
    async fn session(
        &self,
        permit: Permit,
        request: SessionRequest,
        snapshot: Option<&Snapshot>,
    ) -> Result<Session, session::Error>;

    /// All sessions that have not ended, oldest first.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// The session with this id, unless it has ended.
    fn session_by_id(&self, id: &SessionId) -> Option<Session>;

    /// Ends every sandbox and helper, and waits until nothing of them is left.
    async fn close(&self);
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn run(&self, permit: Permit, request: Request) -> Result<Running, Error> {
        Native::run(self, permit, request).await
    }

    fn check(&self, walls: &[Layer]) -> Result<(), Error> {
        Native::check(self, walls)
    }

    fn available(&self) -> Result<(), Unavailable> {
        Native::available(self)
    }

    fn readiness(&self) -> Result<(), Unavailable> {
        Native::readiness(self)
    }

    fn missing_layers(&self) -> &[Layer] {
        Native::missing_layers(self)
    }

    fn runtime(&self) -> Option<Digest> {
        Native::runtime(self)
    }

    fn pools(&self) -> Vec<(PoolKey, PoolStatus)> {
        Native::pools(self)
    }

    fn watchdog_kills(&self) -> u64 {
        Native::watchdog_kills(self)
    }

    async fn session(
        &self,
        permit: Permit,
        request: SessionRequest,
        snapshot: Option<&Snapshot>,
    ) -> Result<Session, session::Error> {
        match snapshot {
            Some(snapshot) => Native::restore(self, permit, request, snapshot).await,
            None => Native::session(self, permit, request).await,
        }
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        Native::sessions(self)
    }

    fn session_by_id(&self, id: &SessionId) -> Option<Session> {
        Native::session_by_id(self, id)
    }

    async fn close(&self) {
        Native::close(self.clone()).await;
    }
}
