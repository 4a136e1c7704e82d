//! Program in an existing session.

use std::time::Instant;

use anyhow::{Result, bail};
use ringfence_policy::local_permit;
use ringfence_sandbox::{
    Native,
    session::{ExecRequest, Session, SessionRequest},
};
use ringfence_types::Outcome;

use crate::contender::Sample;

/// Session in which `/bin/true` runs again and again.
#[derive(Debug)]
pub(crate) struct ExecTrue {
    session: Session,
}

impl ExecTrue {
    /// Creates the session, which is not part of any sample.
    pub(crate) async fn open(native: &Native) -> Result<Self> {
        Ok(Self { session: native.session(local_permit(), SessionRequest::default()).await? })
    }

    pub(crate) async fn sample(&self) -> Result<Sample> {
        let started = Instant::now();
        let process = self.session.exec(local_permit(), ExecRequest::new(["/bin/true"])).await?;
        let has_started = started.elapsed();
        let end = process.wait().await?;
        let total = started.elapsed();
        if end.outcome != (Outcome::Exited { code: 0 }) {
            bail!("the program ended with {:?}", end.outcome);
        }
        Ok(Sample { total, split: Some((has_started, total - has_started)) })
    }

    pub(crate) async fn close(self) {
        self.session.stop().await;
    }
}
