//! Connection to a remote engine, with bounds on time, size and concurrency.

use std::{error::Error as _, sync::Arc};

use ringfence_egress::{
    Error, Exchange, GuardedClient, HeaderName, HeaderValue, Method, Payload, Roots, StatusCode,
    Target, Timeouts,
};
use ringfence_types::{Bytes, Digest, Json};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
};

use super::{Health, MAX_REMOTE_TIMEOUT, Remote, SetupError, probe};
use crate::{Answer, Status, Trouble, Unavailable};

/// Size limit of an answer: larger than any valid decision.
const MAX_ANSWER_BYTES: Bytes = Bytes(256 << 10);
/// Concurrent questions.
const MAX_IN_FLIGHT: usize = 256;

/// Connection to one engine.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) remote: Remote,
    client: GuardedClient,
    places: Semaphore,
    health: Arc<Health>,
    /// Probe task; aborted when this is dropped.
    probing: AbortHandle,
}

impl Line {
    /// Opens the connection lazily: an unreachable engine shows with the first question. Needs a runtime.
    pub(super) fn open(remote: Remote, health_path: &str) -> Result<Self, SetupError> {
        // The operator chose the address, so internal ones are allowed.
        let client = GuardedClient::configured(Roots::System);
        let health = Arc::new(Health::default());
        let probe = probe::Probe {
            client: client.clone(),
            url: super::target(&remote.url, health_path, None)?,
            timeouts: timeouts(&remote),
            health: health.clone(),
        };
        let probing = tokio::spawn(probe.run()).abort_handle();
        Ok(Self { remote, client, places: Semaphore::new(MAX_IN_FLIGHT), health, probing })
    }

    /// Sends a question and reads the answer with `read`. Failures are recorded in the health.
    pub(super) async fn ask(
        &self,
        url: Target,
        body: String,
        read: impl FnOnce(StatusCode, &[u8]) -> Result<Answer, Unavailable>,
    ) -> Result<Answer, Unavailable> {
        if self.health.is_down() {
            return Err(Unavailable::new(Trouble::Down));
        }
        let Ok(_place) = self.places.try_acquire() else {
            return Err(Unavailable::new(Trouble::Busy));
        };
        let (status, body) = match self.send(url, body).await {
            Ok(answered) => answered,
            Err(unavailable) => {
                match unavailable.trouble {
                    Trouble::Malformed => self.health.not_understood(&unavailable),
                    _ => self.health.line_failed(&unavailable),
                }
                return Err(unavailable);
            }
        };
        let answer = read(status, &body);
        match &answer {
            Err(unavailable) if unavailable.trouble != Trouble::Abstained => {
                self.health.not_understood(unavailable);
            }
            _ => self.health.answered(),
        }
        answer
    }

    async fn send(&self, url: Target, body: String) -> Result<(StatusCode, Vec<u8>), Unavailable> {
        let mut request = Exchange::new(Method::POST, url);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.remote.authorization {
            request.headers.insert(AUTHORIZATION, authorization.clone());
        }
        request.body = Payload::Whole(body.into());
        request.timeouts = timeouts(&self.remote);
        request.max_body = MAX_ANSWER_BYTES;
        let answer = self.client.send(request).await.map_err(unreachable)?;
        let status = answer.status;
        Ok((status, answer.bytes().await.map_err(unreachable)?.to_vec()))
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.health.changed()
    }

    /// Records that the remote rules changed.
    pub(super) fn rules_changed(&self) {
        self.health.other_rules.notify_one();
    }

    pub(super) fn status(&self, revision: Digest) -> Status {
        let (state, problem) = self.health.state();
        let problems = problem.into_iter().collect();
        Status { engine: self.remote.name.clone(), revision, state, problems }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.probing.abort();
    }
}

const AUTHORIZATION: HeaderName = HeaderName::from_static("authorization");
const CONTENT_TYPE: HeaderName = HeaderName::from_static("content-type");

fn timeouts(remote: &Remote) -> Timeouts {
    Timeouts::within(remote.timeout.min(MAX_REMOTE_TIMEOUT))
}

/// Failure without the address, which may be internal.
fn unreachable(error: Error) -> Unavailable {
    let trouble = match &error {
        Error::Timeout { .. } => Trouble::Slow,
        Error::TooLarge { .. } => Trouble::Malformed,
        _ => Trouble::Down,
    };
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        words += &format!(": {next}");
        cause = next.source();
    }
    Unavailable::because(trouble, words)
}

/// Error for any other status: the engine failed on this document.
pub(super) fn expect_ok(status: StatusCode, body: &[u8]) -> Result<(), Unavailable> {
    if status == StatusCode::OK {
        return Ok(());
    }
    let excerpt: String = String::from_utf8_lossy(body).chars().take(200).collect();
    let words = format!("status {}: {}", status.as_u16(), excerpt.replace(char::is_control, " "));
    Err(Unavailable::because(Trouble::Failed, words))
}

/// Fields that report a failed decision, whatever else is in the body.
const ERROR_FIELDS: [&str; 2] = ["error", "errors"];

/// Parses an answer of a known shape. JSON with repeated keys is refused, because parsers disagree
/// about which one counts; so is an answer that reports errors beside its decision.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unavailable> {
    let json =
        Json::parse(body).map_err(|error| Unavailable::because(Trouble::Malformed, error))?;
    let answer = json.to_value();
    if let Some(name) = ERROR_FIELDS.into_iter().find(|name| answer.get(name).is_some()) {
        return Err(Unavailable::because(Trouble::Failed, format!("an answer with `{name}`")));
    }
    T::deserialize(answer).map_err(|error| Unavailable::because(Trouble::Malformed, error))
}
