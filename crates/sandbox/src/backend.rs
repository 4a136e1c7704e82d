//! The ports of sandboxes: [`Backend`] runs programs, and [`Sessions`] keeps sandboxes as well.

use std::fmt;

use async_trait::async_trait;
use ringfence_policy::Permit;
use ringfence_types::{Digest, Layer};

use crate::{
    Error, Native, PoolKey, PoolStatus, Request, Running, Unavailable,
    session::{self, Session, SessionId, SessionInfo, SessionRequest, Snapshot},
};

/// Implementation that runs programs in sandboxes.
///
/// Contract:
/// - a method that runs user code takes a [`Permit`] by value;
/// - a sandbox that ran one program never runs another;
/// - a required layer that is missing refuses the run ([`Error::Missing`]); an optional layer that
///   is missing is named in the report;
/// - a program that failed is a report, never an [`Error`].
///
/// Programs of all backends are a [`Running`], made by [`Running::new`].
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Name in settings and records.
    fn name(&self) -> &'static str;

    /// Starts a program in a fresh sandbox.
    async fn run(&self, permit: Permit, request: Request) -> Result<Running, Error>;

    /// Refuses if sandboxes of this host lack one of these layers.
    fn check(&self, layers: &[Layer]) -> Result<(), Error>;

    /// Reason why no sandboxes are made at the moment, if so.
    fn available(&self) -> Result<(), Unavailable>;

    /// Like [`Backend::available`], and also an error if the last set-ups all failed.
    fn readiness(&self) -> Result<(), Unavailable>;

    /// Layers that its sandboxes lack with the operator's consent; empty before the first trial.
    fn missing_layers(&self) -> Vec<Layer>;

    /// Ends all sandboxes and helper processes, and waits until they are gone.
    async fn close(&self);
}

/// Backend that also keeps sandboxes as sessions, and interpreters that are started ahead.
///
/// Contract, beside that of [`Backend`]: methods that run user code, or change what user code will
/// find, take a [`Permit`] by value, here and in [`Session`], its interpreters and its files. Reading,
/// pausing and ending need none. The programs of a session share its sandbox.
#[async_trait]
pub trait Sessions: Backend {
    /// Digest of the installed interpreters and libraries; `None` if they changed since the start.
    /// May read files.
    fn runtime(&self) -> Option<Digest>;

    /// Status of every pool of prepared interpreters.
    fn pools(&self) -> Vec<(PoolKey, PoolStatus)>;

    /// Number of programs that were ended for exhausting the host.
    fn watchdog_kills(&self) -> u64;

    /// Makes a session sandbox; its workspace is empty, or that of the snapshot.
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
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn run(&self, permit: Permit, request: Request) -> Result<Running, Error> {
        Native::run(self, permit, request).await
    }

    fn check(&self, layers: &[Layer]) -> Result<(), Error> {
        Native::check(self, layers)
    }

    fn available(&self) -> Result<(), Unavailable> {
        Native::available(self)
    }

    fn readiness(&self) -> Result<(), Unavailable> {
        Native::readiness(self)
    }

    fn missing_layers(&self) -> Vec<Layer> {
        Native::missing_layers(self).to_vec()
    }

    async fn close(&self) {
        Native::close(self.clone()).await;
    }
}

#[async_trait]
impl Sessions for Native {
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
}
