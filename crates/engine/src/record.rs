//! From what happened to what is kept: the last step, its facts, its receipt.

use std::time::Duration;

use ringfence_store::{Error, SessionEvent};
use ringfence_types::{
    Call, CallId, ErrorCode, Event, FactKind, Finished, Json, Produced, Reason, Seen, State,
    Stopper,
};
use serde::Serialize;

use crate::{active_call::ActiveCall, obligations};

/// How a call that was dispatched came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It ran, or failed to.
    Finished {
        finished: Box<Finished>,
        /// Bytes that it refers to.
        blobs: Vec<Vec<u8>>,
        /// What it adds to its session.
        session_events: Vec<SessionEvent>,
        /// What only its receipt tells.
        seen: Seen,
    },
    /// It was stopped on request.
    Stopped {
        /// What only its receipt tells.
        seen: Seen,
    },
}

impl Ended {
    /// Why there is no result, if the call ended with an error.
    pub(crate) fn error(&self) -> Option<ErrorCode> {
        match self {
            Self::Finished { finished, .. } => match &finished.produced {
                Produced::Error(error) => Some(error.code),
                Produced::Result(_) => None,
            },
            Self::Stopped { .. } => None,
        }
    }
}

/// A record that fails may be a full disk that somebody is clearing; so the end of a call that is on
/// record, which cannot be had a second time, is tried again after each of these, and then after each
/// [`LONGEST`].
const PATIENCE: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
];

/// Between further tries.
const LONGEST: Duration = Duration::from_secs(15);

impl ActiveCall {
    /// Takes the last step.
    pub(crate) fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Finished { mut finished, mut blobs, session_events, seen } => {
                // What an earlier call gave was masked then, by the same obligations.
                if let Some(redact) = self.redact().filter(|_| finished.memoised.is_none()) {
                    obligations::mask(redact, &mut finished, &mut blobs);
                }
                self.seen = seen;
                self.inner.metrics.finished(&self.call.asked, &finished);
                self.pending.blobs = blobs;
                self.pending.session_events = session_events;
                self.step(Event::Finish(finished));
            }
            Ended::Stopped { seen } => {
                self.seen = seen;
                self.step(Event::Stopped);
            }
        }
    }

    /// Puts the end on record, with patience.
    pub(crate) async fn commit_the_end(&mut self) -> Result<(), Error> {
        // One that nobody knows of had no effect: its caller may ask again, and need not wait.
        if !self.is_durable() {
            return self.commit().await;
        }
        let inner = self.inner.clone();
        // Given up when the server stops only: whoever knows of the call waits for its end.
        for pause in PATIENCE.into_iter().chain(std::iter::repeat(LONGEST)) {
            match self.try_commit().await? {
                None => return Ok(()),
                Some(error) if inner.stopping.is_cancelled() => return Err(error),
                Some(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = inner.stopping.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Puts what became true on record while the call goes on. If that cannot be done now, and the call is
    /// on record already, the next record says it too.
    pub(crate) async fn commit_meanwhile(&mut self) -> Result<(), Error> {
        match self.is_durable() {
            true => self.try_commit().await.map(drop),
            false => self.commit().await,
        }
    }

    /// Puts everything on record; if the store cannot do it now, says why and forgets nothing.
    async fn try_commit(&mut self) -> Result<Option<Error>, Error> {
        let pending = self.pending.clone();
        match self.commit().await {
            Err(error @ (Error::Backend { .. } | Error::Busy)) => {
                let cause = crate::dispatch::chain(&error);
                tracing::warn!(error = cause, "what became of a call is not recorded yet");
                self.pending = pending;
                Ok(Some(error))
            }
            done => done.map(|()| None),
        }
    }
}

/// The fact that a step makes true.
pub(crate) fn fact_of(call: &Call) -> (FactKind, Json) {
    let data = match &call.state {
        State::Held(hold) => Json::plain(&Why { reasons: &hold.reasons }),
        State::Denied { reasons } | State::Expired { reasons } => Json::plain(&Why { reasons }),
        State::Cancelling { by } | State::Cancelled { by } => Json::plain(&By { by }),
        State::Finished(finished) => summary(finished),
        State::Accepted | State::Dispatched | State::Running | State::OutcomeUnknown => {
            Json::empty_object()
        }
    };
    (FactKind::of_state(&call.state), data)
}

/// Why a call is held or denied.
#[derive(Serialize)]
struct Why<'a> {
    reasons: &'a [Reason],
}

/// Who ended a call.
#[derive(Serialize)]
struct By<'a> {
    by: &'a Stopper,
}

/// How a call finished.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'a>>,
    execution_time_ms: f64,
    /// The call that ran in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    memoised: Option<CallId>,
    success: bool,
}

/// Why it has no result.
#[derive(Serialize)]
struct Failed<'a> {
    code: ErrorCode,
    message: &'a str,
}

fn summary(finished: &Finished) -> Json {
    let error = match &finished.produced {
        Produced::Result(_) => None,
        Produced::Error(error) => Some(Failed { code: error.code, message: &error.message }),
    };
    let execution_time_ms = finished.duration.as_secs_f64() * 1_000.0;
    let memoised = finished.memoised.map(|memoised| memoised.call);
    Json::plain(&Summary { success: error.is_none(), execution_time_ms, memoised, error })
}
