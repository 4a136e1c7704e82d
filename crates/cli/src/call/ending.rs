//! End of a call as an exit code and as text.

use std::fmt::Write;

use ringfence_types::State;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{exit, failure::Failure, table::plain};

/// A call that has ended or is held.
#[derive(Debug, Deserialize)]
pub(super) struct Ended {
    id: String,
    state: String,
    tool: String,
    result: Option<Box<RawValue>>,
    error: Option<CallError>,
    #[serde(default)]
    reasons: Vec<Reason>,
    memoised: Option<Memoised>,
}

/// The earlier call whose result was reused.
#[derive(Debug, Deserialize)]
struct Memoised {
    call_id: String,
    ended_at: String,
}

#[derive(Debug, Deserialize)]
struct CallError {
    code: String,
    message: String,
    details: Option<Details>,
}

/// Error details for people.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    traceback: Option<String>,
    hint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    rule: String,
    message: String,
}

/// Whether a call in this state has ended or is held.
pub(crate) fn is_still(state: &str) -> bool {
    state == "held" || State::is_final_name(state)
}

impl Memoised {
    fn words(&self) -> String {
        let (call, at) = (plain(&self.call_id), plain(&self.ended_at));
        format!("memoised: the result of call {call}, which ended at {at}; --fresh runs it anew\n")
    }
}

impl Ended {
    pub(super) fn read(text: &str) -> Result<Self, Failure> {
        serde_json::from_str(text)
            .map_err(|error| Failure::because("the server's answer is not understood", &error))
    }

    /// Result of the tool.
    pub(super) fn result(&self) -> Option<&str> {
        self.result.as_ref().map(|result| result.get())
    }

    pub(super) fn code(&self) -> u8 {
        match (self.state.as_str(), &self.error) {
            ("finished", None) => exit::DONE,
            ("finished", Some(error)) if error.code == "timeout" => exit::TIMED_OUT,
            // No sandbox could be made: the server failed, and the tool never ran.
            ("finished", Some(error)) if error.code.starts_with("sandbox_") => exit::OURS,
            ("finished" | "cancelled", _) => exit::FAILED,
            ("denied", _) => exit::DENIED,
            ("held" | "expired", _) => exit::HELD,
            _ => exit::OURS,
        }
    }

    /// Whether policy gave no answer: then no person can approve it either.
    fn is_undecided(&self) -> bool {
        self.reasons.iter().any(|reason| reason.rule == "policy_unavailable")
    }

    /// Text beside the result, for people. The traceback is included only if it was not shown
    /// already.
    pub(super) fn words(&self, with_traceback: bool) -> String {
        let (id, tool) = (plain(&self.id), plain(&self.tool));
        let mut text = match (self.state.as_str(), &self.error) {
            ("finished", None) => {
                return self.memoised.as_ref().map_or(String::new(), Memoised::words);
            }
            ("held", _) if self.is_undecided() => {
                format!("held: call {id} of `{tool}` waits until policy answers\n")
            }
            ("held", _) => format!("held: call {id} of `{tool}` waits for approval\n"),
            ("denied", _) => format!("denied: call {id} of `{tool}` is not allowed\n"),
            (_, Some(error)) => {
                format!("error: {} ({}, call {id})\n", plain(&error.message), plain(&error.code))
            }
            (state, None) => format!("error: call {id} is {}\n", plain(state)),
        };
        for Reason { rule, message } in &self.reasons {
            let _ = writeln!(text, "  {}: {}", plain(rule), plain(message));
        }
        let details = self.error.as_ref().and_then(|error| error.details.as_ref());
        if let Some(Details { traceback, hint }) = details {
            // Line by line, so that it stays readable and cannot move the cursor.
            let traceback = traceback.iter().filter(|_| with_traceback);
            for line in traceback.flat_map(|traceback| traceback.lines()) {
                let _ = writeln!(text, "  {}", plain(line));
            }
            if let Some(hint) = hint {
                let _ = writeln!(text, "hint: {}", plain(hint));
            }
        }
        if self.state == "held" {
            let look = match self.is_undecided() {
                true => "how policy is: ringfence policy status".to_owned(),
                false => format!("to see and approve it: ringfence holds {id}"),
            };
            let _ = writeln!(text, "hint: {look}");
            let _ = writeln!(text, "hint: withdraw it with: ringfence cancel {id}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(state: &str, error: Option<&str>) -> u8 {
        let error = error.map(|code| serde_json::json!({"code": code, "message": "m"}));
        let call = serde_json::json!({"id": "i", "state": state, "tool": "t", "error": error});
        Ended::read(&call.to_string()).unwrap().code()
    }

    #[test]
    fn a_call_without_an_answer_of_policy_is_not_said_to_wait_for_approval() {
        let words = |rule: &str| {
            let reasons = serde_json::json!([{"rule": rule, "message": "m"}]);
            let call =
                serde_json::json!({"id": "i", "state": "held", "tool": "t", "reasons": reasons});
            Ended::read(&call.to_string()).unwrap().words(false)
        };
        assert!(words("policy_unavailable").contains("waits until policy answers"));
        assert!(!words("policy_unavailable").contains("ringfence holds"));
        assert!(words("ask").contains("waits for approval"));
    }

    #[test]
    fn every_end_has_its_code() {
        for (state, error, wanted) in [
            ("finished", None, 0),
            ("finished", Some("handler_failed"), 1),
            ("finished", Some("timeout"), 124),
            ("finished", Some("sandbox_failed"), 2),
            ("cancelled", Some("cancelled"), 1),
            ("outcome_unknown", Some("outcome_unknown"), 2),
            ("denied", Some("denied"), 3),
            ("held", None, 4),
        ] {
            assert_eq!(code(state, error), wanted, "{state} {error:?}");
        }
    }
}
