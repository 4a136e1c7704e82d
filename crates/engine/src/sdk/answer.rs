//! Answers to programs: a result, or the kind of an error with what is known about it.

use ringfence_types::{Call, CallId, Hold, Json, Produced, Reason, State};
use serde::Serialize;

use crate::Refused;

/// Answer to one request.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The call that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<SdkError>,
}

/// Reason why there is no result.
#[derive(Debug, Serialize)]
struct SdkError {
    /// Kind by which a program tells errors apart.
    kind: &'static str,
    /// Stable code of the server.
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u128>,
}

impl Answer {
    pub(super) fn done() -> Self {
        Self { call_id: None, result: Some(Json::null()), error: None }
    }

    pub(super) fn error(kind: &'static str, message: impl Into<String>) -> Self {
        let (code, message) = (kind.to_owned(), message.into());
        let error = SdkError { kind, code, message, details: None, retry_after_ms: None };
        Self { call_id: None, result: None, error: Some(error) }
    }

    /// The call that the program runs for has ended, or never was one of this sandbox.
    pub(super) fn ended() -> Self {
        Self::error("ended", "the call that this program runs for has ended")
    }

    /// Label of the answer for metrics.
    pub(super) fn outcome(&self) -> &'static str {
        self.error.as_ref().map_or("ok", |error| error.kind)
    }

    pub(super) fn body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data with text keys can be written")
    }

    fn with(mut self, code: &str, details: Option<Json>) -> Self {
        if let Some(error) = &mut self.error {
            (error.code, error.details) = (code.to_owned(), details);
        }
        self
    }

    /// Answer about a call that has ended or is held.
    pub(super) fn of_call(call: &Call) -> Self {
        let answer = match &call.state {
            State::Finished(finished) => match &finished.produced {
                Produced::Result(result) => {
                    Self { call_id: None, result: Some(result.clone()), error: None }
                }
                Produced::Error(error) => Self::error("failed", &error.message)
                    .with(error.code.as_str(), error.details.clone()),
            },
            State::Denied { reasons } => {
                let message = words("policy does not allow this call", reasons);
                Self::error("denied", message).with("policy_denied", details(reasons))
            }
            State::Expired { reasons } => {
                let message = words("the call was not approved in time", reasons);
                Self::error("denied", message).with("hold_expired", details(reasons))
            }
            State::Held(hold) => held(hold),
            State::Cancelled { .. } => Self::error("cancelled", "the call was cancelled"),
            State::OutcomeUnknown => Self::error(
                "outcome_unknown",
                "the server stopped while the call ran: its effect may have happened in full, in part \
                 or not at all",
            ),
            State::Accepted | State::Dispatched | State::Running | State::Cancelling { .. } => {
                Self::error("unavailable", "the call has not ended")
            }
        };
        Self { call_id: Some(call.asked.id), ..answer }
    }

    /// Answer about a request that did not become a call.
    pub(super) fn of_refusal(refused: &Refused) -> Self {
        let kind = match refused {
            Refused::UnknownTool { .. } | Refused::UnknownVersion { .. } => "not_found",
            Refused::NotActive { .. } | Refused::BrokenTool { .. } => "not_active",
            Refused::InvalidArguments { .. } => "invalid_arguments",
            Refused::Busy { .. } | Refused::CircuitOpen { .. } => "busy",
            Refused::ParentNotRunning(_) => return Self::ended(),
            Refused::TooDeep => "denied",
            Refused::ForeignPersona(_)
            | Refused::InvalidIdempotencyKey
            | Refused::KeyReused(_)
            | Refused::StillRunning(_)
            | Refused::Erased(_)
            | Refused::NoSandbox
            | Refused::Stopping
            | Refused::Store(_) => "unavailable",
        };
        let mut answer = Self::error(kind, refused.to_string());
        let Some(error) = &mut answer.error else { return answer };
        match refused {
            Refused::InvalidArguments { violations, .. } => {
                let list: Vec<_> = violations
                    .iter()
                    .map(|one| serde_json::json!({"pointer": one.pointer, "message": one.message}))
                    .collect();
                error.details = Json::of(&serde_json::json!({"violations": list})).ok();
            }
            Refused::Busy { retry_after } | Refused::CircuitOpen { retry_after, .. } => {
                error.retry_after_ms = Some(retry_after.as_millis());
            }
            _ => {}
        }
        answer
    }
}

fn held(hold: &Hold) -> Answer {
    let message = words("the call waits for the approval of a person", &hold.reasons);
    Answer::error("held", message).with("call_held", details(&hold.reasons))
}

fn words(sentence: &str, reasons: &[Reason]) -> String {
    let reasons: Vec<_> =
        reasons.iter().map(|reason| format!("{} ({})", reason.message, reason.rule)).collect();
    if reasons.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}: {}", reasons.join("; "))
    }
}

fn details(reasons: &[Reason]) -> Option<Json> {
    Json::of(&serde_json::json!({"reasons": reasons})).ok()
}
