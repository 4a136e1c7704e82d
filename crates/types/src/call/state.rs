//! A call's life: an enum with data and one pure function.

use serde::{Deserialize, Serialize};

use super::Finished;
use crate::{CallId, Hold, KeyId, Reason};

/// Where a call stands. Each state carries exactly the data that exists in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", content = "data", rename_all = "snake_case")]
pub enum State {
    /// Checked and known; policy has not spoken.
    Accepted,
    /// Parked until a person decides or policy changes.
    Held(Box<Hold>),
    /// Allowed; the intent to run it is on record.
    Dispatched,
    /// Its program was started.
    Running,
    /// Somebody asked for its end while it ran.
    Cancelling {
        /// Who.
        by: Stopper,
    },
    /// It ran, or failed to, and this is what came of it.
    Finished(Box<Finished>),
    /// Policy or a person said no.
    Denied {
        /// Why.
        reasons: Vec<Reason>,
    },
    /// Nobody decided about it in time.
    Expired {
        /// Why it waited.
        reasons: Vec<Reason>,
    },
    /// It was ended on request.
    Cancelled {
        /// By whom.
        by: Stopper,
    },
    /// It may have had its effect or part of it; nobody can tell.
    OutcomeUnknown,
}

/// Who ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopper {
    /// The holder of this key.
    Key(KeyId),
    /// The server, because it was told to stop.
    Shutdown,
    /// The call that made it, because that ended first.
    Parent(CallId),
}

/// What can happen to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Policy allows it.
    Allow,
    /// Policy parks it.
    Hold(Box<Hold>),
    /// Policy or a person refuses it.
    Deny(Vec<Reason>),
    /// Its program was started.
    Start,
    /// It ended.
    Finish(Box<Finished>),
    /// Nobody decided about it in time.
    Expire,
    /// Somebody asked for its end.
    Cancel(Stopper),
    /// Its sandbox is gone, as somebody asked.
    Stopped,
    /// The server came back and found it like this.
    Recover {
        /// Whether it can simply run again.
        pure: bool,
    },
}

/// What is to be done after the new state is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Ask policy.
    Decide,
    /// Show it to whoever may approve.
    Ask,
    /// Run it.
    Run,
    /// End its sandbox.
    Stop,
    /// Tell everybody how it ended.
    Publish,
}

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call that is {state} cannot take `{event}`")]
pub struct Illegal {
    /// The state's name.
    pub state: &'static str,
    /// The event's name.
    pub event: &'static str,
}

impl State {
    /// Decides; does not act. The engine performs the effect after the commit.
    pub fn on(self, event: Event) -> Result<(State, Effect), Illegal> {
        use State as S;
        Ok(match (self, event) {
            (S::Accepted | S::Held { .. }, Event::Allow) => (S::Dispatched, Effect::Run),
            (S::Accepted | S::Held { .. }, Event::Hold(hold)) => (S::Held(hold), Effect::Ask),
            (S::Accepted | S::Held { .. }, Event::Deny(reasons)) => {
                (S::Denied { reasons }, Effect::Publish)
            }
            (S::Held(hold), Event::Expire) => {
                (S::Expired { reasons: hold.reasons }, Effect::Publish)
            }
            (S::Dispatched, Event::Start) => (S::Running, Effect::Nothing),
            (S::Dispatched | S::Running | S::Cancelling { .. }, Event::Finish(finished)) => {
                (S::Finished(finished), Effect::Publish)
            }
            (S::Accepted | S::Held { .. } | S::Dispatched, Event::Cancel(by)) => {
                (S::Cancelled { by }, Effect::Publish)
            }
            (S::Running, Event::Cancel(by)) => (S::Cancelling { by }, Effect::Stop),
            // A second wish changes nothing, and the first to ask stays on record.
            (S::Cancelling { by }, Event::Cancel(_)) => (S::Cancelling { by }, Effect::Nothing),
            (S::Cancelling { by }, Event::Stopped) => (S::Cancelled { by }, Effect::Publish),
            (state, Event::Recover { pure }) => return state.recover(pure),
            (state, event) => return Err(Illegal { state: state.name(), event: event.name() }),
        })
    }

    /// A pure call is run again; any other that may have begun is unknown, never repeated.
    fn recover(self, pure: bool) -> Result<(State, Effect), Illegal> {
        use State as S;
        Ok(match (self, pure) {
            (S::Accepted, _) => (S::Accepted, Effect::Decide),
            (S::Held(hold), _) => (S::Held(hold), Effect::Ask),
            // From the beginning: a permit does not outlive its process, and policy may have changed.
            (S::Dispatched | S::Running, true) => (S::Accepted, Effect::Decide),
            (S::Cancelling { by }, true) => (S::Cancelled { by }, Effect::Publish),
            (S::Dispatched | S::Running | S::Cancelling { .. }, false) => {
                (S::OutcomeUnknown, Effect::Publish)
            }
            (state, _) => return Err(Illegal { state: state.name(), event: "recover" }),
        })
    }

    /// Whether nothing can happen to it any more.
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

    /// Its name on every wire.
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

    /// Names of all states, in the order of a life.
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

    /// Whether nothing more happens to a call in the state of this name.
    pub fn is_final_name(name: &str) -> bool {
        Self::NAMES[5..].contains(&name)
    }
}

impl Event {
    /// Its name in logs.
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
            started_at: Timestamp::from_micros(0),
            duration: Duration::ZERO,
            memoised: None,
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
                Ok((after, effect)) => format!("{}, {effect:?}", after.name()),
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
        let first = State::Running.on(Event::Cancel(Stopper::Shutdown)).unwrap().0;
        let second = first.on(Event::Cancel(Stopper::Key(KeyId(Uuid::nil())))).unwrap().0;
        assert_eq!(second, State::Cancelling { by: Stopper::Shutdown });
    }

    #[test]
    fn a_refusal_names_both_sides() {
        let refused = State::Running.on(Event::Allow).unwrap_err();
        expect!["a call that is running cannot take `allow`"].assert_eq(&refused.to_string());
    }
}
