//! The last step of a call as it is recorded: its state, its facts, its receipt.

use std::time::Duration;

use ringfence_store::{Error, SessionEvent};
use ringfence_types::{
    Call, CallId, ErrorCode, Event, FactKind, Finished, Json, Produced, Reason, ReceiptDetails,
    State, Stopper, error_chain,
};
use serde::Serialize;

use crate::{active_call::ActiveCall, obligations};

/// End of a call that was dispatched.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It ran, or failed to start.
    Finished {
        finished: Box<Finished>,
        /// Bytes that the result refers to.
        blobs: Vec<Vec<u8>>,
        /// Events that it adds to its session.
        session_events: Vec<SessionEvent>,
        /// Details for its receipt.
        details: ReceiptDetails,
    },
    /// It was stopped on request.
    Stopped {
        /// Details for its receipt.
        details: ReceiptDetails,
    },
}

impl Ended {
    /// Error of a call without a result.
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

/// Delays between the first tries to record the end of a call; the following ones are
/// [`MAX_RECORD_DELAY`] apart. A record may fail because of a full disk that an operator is
/// clearing, and the end of a recorded call cannot be produced a second time.
const RECORD_RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
];

/// Delay between further tries.
const MAX_RECORD_DELAY: Duration = Duration::from_secs(15);

impl ActiveCall {
    /// Takes the last step.
    pub(crate) fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Finished { mut finished, mut blobs, session_events, details } => {
                // The result of an earlier call was masked then, by the same obligations.
                if let Some(redact) = self.redact().filter(|_| finished.memoised.is_none()) {
                    obligations::mask(redact, &mut finished, &mut blobs);
                }
                self.details = details;
                self.inner.metrics.finished(&self.call.asked, &finished);
                self.pending.blobs = blobs;
                self.pending.session_events = session_events;
                self.leave(&finished);
                self.step(Event::Finish(finished));
            }
            Ended::Stopped { details } => {
                self.details = details;
                self.step(Event::Stopped);
            }
        }
    }

    /// Records the end, and tries again if the store fails.
    pub(crate) async fn commit_the_end(&mut self) -> Result<(), Error> {
        // An unrecorded call had no effect and its id is unknown: its caller may ask again.
        if !self.is_durable() {
            return self.commit().await;
        }
        let inner = self.inner.clone();
        // Given up only when the server stops: clients that know the call wait for its end.
        for pause in RECORD_RETRY_DELAYS.into_iter().chain(std::iter::repeat(MAX_RECORD_DELAY)) {
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

    /// Records the changes while the call goes on. If that fails and the call is on record already,
    /// the next record has them too.
    pub(crate) async fn commit_meanwhile(&mut self) -> Result<(), Error> {
        match self.is_durable() {
            true => self.try_commit().await.map(drop),
            false => self.commit().await,
        }
    }

    /// Records all changes; if the store fails, returns its error and keeps the changes.
    async fn try_commit(&mut self) -> Result<Option<Error>, Error> {
        let pending = self.pending.clone();
        match self.commit().await {
            Err(error @ (Error::Backend { .. } | Error::Busy)) => {
                let cause = error_chain(&error);
                tracing::warn!(error = cause, "what became of a call is not recorded yet");
                self.pending = pending;
                Ok(Some(error))
            }
            done => done.map(|()| None),
        }
    }
}

/// Fact of a step.
pub(crate) fn fact_of(call: &Call) -> (FactKind, Json) {
    let data = match &call.state {
        State::Held(hold) => Json::plain(&Reasons { reasons: &hold.reasons }),
        State::Denied { reasons } | State::Expired { reasons } => Json::plain(&Reasons { reasons }),
        State::Cancelling { by } | State::Cancelled { by } => Json::plain(&CancelledBy { by }),
        State::Finished(finished) => summary(finished),
        State::Accepted | State::Dispatched | State::Running | State::OutcomeUnknown => {
            Json::empty_object()
        }
    };
    (FactKind::of_state(&call.state), data)
}

/// Reasons of a held or denied call.
#[derive(Serialize)]
struct Reasons<'a> {
    reasons: &'a [Reason],
}

/// Canceller of a call.
#[derive(Serialize)]
struct CancelledBy<'a> {
    by: &'a Stopper,
}

/// Summary of a finished call.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'a>>,
    execution_time_ms: f64,
    /// The earlier call whose result it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    memoised: Option<CallId>,
    success: bool,
}

/// Error of a call without a result.
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
