//! Remote engines with one question body, one URL and no revision of their own. The [`Protocol`]
//! supplies the differences.

use std::{fmt::Debug, marker::PhantomData};

use async_trait::async_trait;
use ringfence_egress::Target;
use ringfence_types::Digest;
use tokio::sync::watch;

use super::{Line, Remote, SetupError, line, target};
use crate::{Answer, Engine, Input, Status, Trouble, Unavailable};

/// Question and answer format of such an engine.
pub trait Protocol: Debug + Send + Sync + 'static {
    /// Name of the protocol, part of the revision that stands for its rules.
    const NAME: &'static str;
    /// Path of the question.
    const PATH: &'static str;
    /// Path of the health check.
    const HEALTH: &'static str;

    /// Body of a question.
    fn question(input: &Input) -> serde_json::Result<String>;

    /// Answer in a body; under `revision` if the body names none.
    fn read(body: &[u8], revision: Digest) -> Result<Answer, Unavailable>;
}

/// Remote engine that speaks a protocol.
#[derive(Debug)]
pub struct Plain<P> {
    line: Line,
    url: Target,
    /// Digest of the address: the protocol has no revision. An answer may carry one.
    revision: Digest,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Plain<P> {
    /// Opens the connection. Needs a runtime.
    pub fn open(remote: Remote) -> Result<Self, SetupError> {
        let url = target(&remote.url, P::PATH, None)?;
        let revision = Digest::of(format!("{} {url}", P::NAME).as_bytes());
        let line = Line::open(remote, P::HEALTH)?;
        Ok(Self { line, url, revision, protocol: PhantomData })
    }
}

#[async_trait]
impl<P: Protocol> Engine for Plain<P> {
    fn name(&self) -> &str {
        &self.line.remote.name
    }

    fn revision(&self) -> Digest {
        self.revision
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let body = P::question(input).map_err(|e| Unavailable::because(Trouble::Failed, e))?;
        let read = |status, body: &[u8]| {
            line::expect_ok(status, body)?;
            P::read(body, self.revision)
        };
        self.line.ask(self.url.clone(), body, read).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.line.changed()
    }

    fn status(&self) -> Vec<Status> {
        vec![self.line.status(self.revision)]
    }
}
