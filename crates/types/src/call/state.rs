//! States of a call: an enum with data and one pure transition function.

use serde::{Deserialize, Serialize};

use super::Finished;
use crate::{CallId, Hold, KeyId, Reason};

/// State of a call. Each state carries exactly the data that exists in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", content = "data", rename_all = "snake_case")]
pub enum State {
    /// Accepted; policy has not decided yet.
    Accepted,
    /// Held until a person decides or policy changes.
    Held(Box<Hold>),
    /// Allowed; the intent to run is on record.
    Dispatched,
    /// Its program was started.
    Running,
    /// Cancelled while it ran; the sandbox is being stopped.
    Cancelling {
        /// Canceller.
        by: Stopper,
    },
    /// The call ran, or failed to start.
    Finished(Box<Finished>),
    /// Denied by policy or by a person.
    Denied {
        /// Reasons of the denial.
        reasons: Vec<Reason>,
    },
    /// The hold expired without a decision.
    Expired {
        /// Reasons of the hold.
        reasons: Vec<Reason>,
    },
    /// The call was cancelled.
    Cancelled {
        /// Canceller.
        by: Stopper,
    },
    /// The server stopped while the call ran: its effect may have happened in full, in part or not
    /// at all.
    OutcomeUnknown,
}

/// Canceller of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopper {
    /// The holder of this key.
    Key(KeyId),
    /// The server, because it was shutting down.
    Shutdown,
    /// The parent call, because it ended first.
    Parent(CallId),
}

/// Event of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Policy allows it.
    Allow,
    /// Policy holds it.
    Hold(Box<Hold>),
    /// Policy or a person denies it.
    Deny(Vec<Reason>),
    /// Its program was started.
    Start,
    /// The run ended.
    Finish(Box<Finished>),
    /// The hold expired.
    Expire,
    /// Cancellation was requested.
    Cancel(Stopper),
    /// The sandbox was stopped after a cancellation.
    Stopped,
    /// A new server process found the call unfinished.
    Recover {
        /// Whether it can be run again without harm.
        pure: bool,
    },
}

/// An event that is invalid in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call that is {state} cannot take `{event}`")]
pub struct Illegal {
    /// The state's name.
    pub state: &'static str,
    /// The event's name.
    pub event: &'static str,
}

impl State {
    /// The next state. Pure: the engine records it before acting on it.
    pub fn on(self, event: Event) -> Result<State, Illegal> {
        use State as S;
        Ok(match (self, event) {
            (S::Accepted | S::Held { .. }, Event::Allow) => S::Dispatched,
            (S::Accepted | S::Held { .. }, Event::Hold(hold)) => S::Held(hold),
            (S::Accepted | S::Held { .. }, Event::Deny(reasons)) => S::Denied { reasons },
            (S::Held(hold), Event::Expire) => S::Expired { reasons: hold.reasons },
            (S::Dispatched, Event::Start) => S::Running,
            (S::Dispatched | S::Running | S::Cancelling { .. }, Event::Finish(finished)) => {
                S::Finished(finished)
            }
            (S::Accepted | S::Held { .. } | S::Dispatched, Event::Cancel(by)) => {
                S::Cancelled { by }
            }
            (S::Running, Event::Cancel(by)) => S::Cancelling { by },
            // A second cancellation changes nothing: the first canceller stays on record.
            (S::Cancelling { by }, Event::Cancel(_)) => S::Cancelling { by },
            (S::Cancelling { by }, Event::Stopped) => S::Cancelled { by },
            (state, Event::Recover { pure }) => return state.recover(pure),
            (state, event) => return Err(Illegal { state: state.name(), event: event.name() }),
        })
    }

    /// State after a restart: a pure call is decided and run again; any other that may have begun is
    /// unknown.
    fn recover(self, pure: bool) -> Result<State, Illegal> {
        use State as S;
        Ok(match (self, pure) {
            (S::Accepted, _) => S::Accepted,
            (S::Held(hold), _) => S::Held(hold),
            // From the beginning: a permit does not outlive its process, and policy may have changed.
            (S::Dispatched | S::Running, true) => S::Accepted,
            (S::Cancelling { by }, true) => S::Cancelled { by },
            (S::Dispatched | S::Running | S::Cancelling { .. }, false) => S::OutcomeUnknown,
            (state, _) => return Err(Illegal { state: state.name(), event: "recover" }),
        })
    }

    /// Whether the state is final.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            State::Finished(_)
                | State::Denied { .. }
                | State::Expired { .. }
                | State::Cancelled { .. }
                | State::OutcomeUnknown
        )
    }

    /// Name on every wire.
    pub const fn name(&self) -> &'static str {
        match self {
            State::Accepted => "accepted",
            State::Held { .. } => "held",
            State::Dispatched => "dispatched",
            State::Running => "running",
            State::Cancelling { .. } => "cancelling",
            State::Finished(_) => "finished",
            State::Denied { .. } => "denied",
            State::Expired { .. } => "expired",
            State::Cancelled { .. } => "cancelled",
            State::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// Names of all states, final ones last.
    pub const NAMES: [&'static str; 10] = [
        "accepted",
        "held",
        "dispatched",
        "running",
        "cancelling",
        "finished",
        "denied",
        "expired",
        "cancelled",
        "outcome_unknown",
    ];

    /// Whether the state with this name is final.
    pub fn is_final_name(name: &str) -> bool {
        Self::NAMES[5..].contains(&name)
    }
}

impl Event {
    /// Name in logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Event::Allow => "allow",
            Event::Hold(_) => "hold",
            Event::Deny(_) => "deny",
            Event::Expire => "expire",
            Event::Start => "start",
            Event::Finish(_) => "finish",
            Event::Cancel(_) => "cancel",
            Event::Stopped => "stopped",
            Event::Recover { .. } => "recover",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use uuid::Uuid;

    use super::*;
    use crate::{Json, Produced, Stream, Timestamp};

    fn finished() -> Box<Finished> {
        Box::new(Finished {
            produced: Produced::Result(Json::empty_object()),
            true_result: None,
            outputs_hash: String::new(),
            outcome: None,
            stdout: Stream::default(),
            stderr: Stream::default(),
            usage: None,
            isolation: None,
            layers: None,
            files: None,
            started_at: Timestamp::from_micros(0),
            duration: Duration::ZERO,
            memoised: None,
            tokens: None,
        })
    }

    fn hold() -> Box<Hold> {
        let at = Timestamp::from_micros(0);
        Box::new(Hold::new(Vec::new(), at, at, 1))
    }

    fn states() -> Vec<State> {
        let by = Stopper::Shutdown;
        vec![
            State::Accepted,
            State::Held(hold()),
            State::Dispatched,
            State::Running,
            State::Cancelling { by },
            State::Finished(finished()),
            State::Denied { reasons: Vec::new() },
            State::Expired { reasons: Vec::new() },
            State::Cancelled { by },
            State::OutcomeUnknown,
        ]
    }

    fn events() -> Vec<(&'static str, Event)> {
        vec![
            ("allow", Event::Allow),
            ("hold", Event::Hold(hold())),
            ("deny", Event::Deny(Vec::new())),
            ("expire", Event::Expire),
            ("start", Event::Start),
            ("finish", Event::Finish(finished())),
            ("cancel", Event::Cancel(Stopper::Key(KeyId(Uuid::nil())))),
            ("stopped", Event::Stopped),
            ("recover pure", Event::Recover { pure: true }),
            ("recover other", Event::Recover { pure: false }),
        ]
    }

    fn row(name: &str, event: &Event) -> String {
        let mut row = format!("{name}\n");
        for state in states() {
            let before = state.name();
            let after = match state.on(event.clone()) {
                Ok(after) => after.name().to_owned(),
                Err(_) => "-".to_owned(),
            };
            row += &format!("  {before:<15} -> {after}\n");
        }
        row
    }

    #[test]
    fn names_are_those_of_the_states_and_the_final_ones_are_last() {
        let names: Vec<_> = states().iter().map(State::name).collect();
        assert_eq!(names, State::NAMES);
        for state in states() {
            assert_eq!(State::is_final_name(state.name()), state.is_final(), "{}", state.name());
        }
        assert!(!State::is_final_name("decided"));
    }

    #[test]
    fn the_matrix_of_states_and_events() {
        let matrix: String = events().iter().map(|(name, event)| row(name, event)).collect();
        expect_test::expect_file!["matrix.txt"].assert_eq(&matrix);
    }

    #[test]
    fn names_are_those_of_the_states() {
        let names: Vec<_> = states().iter().map(State::name).collect();
        assert_eq!(names, State::NAMES);
    }

    #[test]
    fn nothing_happens_after_the_end() {
        for state in states().into_iter().filter(State::is_final) {
            for (name, event) in events() {
                assert!(state.clone().on(event).is_err(), "{} took {name}", state.name());
            }
        }
    }

    #[test]
    fn the_first_to_cancel_stays_on_record() {
        let first = State::Running.on(Event::Cancel(Stopper::Shutdown)).unwrap();
        let second = first.on(Event::Cancel(Stopper::Key(KeyId(Uuid::nil())))).unwrap();
        assert_eq!(second, State::Cancelling { by: Stopper::Shutdown });
    }

    #[test]
    fn a_refusal_names_both_sides() {
        let refused = State::Running.on(Event::Allow).unwrap_err();
        expect!["a call that is running cannot take `allow`"].assert_eq(&refused.to_string());
    }
}
