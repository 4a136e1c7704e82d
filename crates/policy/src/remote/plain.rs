//! Engines that are asked with one body at one address, and that have no revision of their own to ask
//! for: what they have in common. What differs is the [`Protocol`].

use std::{fmt::Debug, marker::PhantomData};

use async_trait::async_trait;
use reqwest::Url;
use ringfence_types::Digest;
use tokio::sync::watch;

use super::{Line, Remote, SetupError, below, line};
use crate::{Answer, Engine, Input, Status, Trouble, Unavailable};

/// What such an engine is asked, and how its answer is read.
pub trait Protocol: Debug + Send + Sync + 'static {
    /// Part of the revision that stands for its rules.
    const NAME: &'static str;
    /// Where it is asked.
    const PATH: &'static str;
    /// Where it says that it is well.
    const HEALTH: &'static str;

    /// The body of a question.
    fn question(input: &Input) -> serde_json::Result<String>;

    /// The answer in a body; under `revision`, if it does not say under what.
    fn read(body: &[u8], revision: Digest) -> Result<Answer, Unavailable>;
}

/// An engine elsewhere that speaks a protocol.
#[derive(Debug)]
pub struct Plain<P> {
    line: Line,
    url: Url,
    /// Of the address: the protocol has no revision. An answer may carry one.
    revision: Digest,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Plain<P> {
    /// Needs a runtime.
    pub fn open(remote: Remote) -> Result<Self, SetupError> {
        let url = below(&remote.url, P::PATH);
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
