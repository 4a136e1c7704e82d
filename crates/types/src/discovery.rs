//! Discovery of a tool that is missing: everything that can become of a request for one, as a table.
//!
//! A discovery is a call of the built-in tool `tool_discover`, so its status is not stored: it follows from
//! the state of that call and from the tools that it proposed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Produced, State};

/// Status of a discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscoveryStatus {
    /// Asked for; policy or a place is waited for.
    Pending,
    /// The catalogue and the directories are searched.
    Searching,
    /// Tools were found.
    Found,
    /// Nothing was found, or the search failed.
    Failed,
    /// Denied or cancelled, or all tools that it proposed were rejected.
    Rejected,
}

/// Event in the life of a discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryEvent {
    /// The search begins.
    Search,
    /// It ended with tools.
    Find,
    /// It ended without any, or could not be made.
    Fail,
    /// It was denied or cancelled, or the last of its tools was rejected.
    Reject,
}

/// Unknown name of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a status of a discovery: pending, searching, found, failed or rejected")]
pub struct UnknownDiscoveryStatus;

impl DiscoveryStatus {
    /// All statuses.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Searching, Self::Found, Self::Failed, Self::Rejected];

    /// The next status; none if the event cannot happen in this one.
    pub const fn on(self, event: DiscoveryEvent) -> Option<Self> {
        use DiscoveryEvent as E;
        use DiscoveryStatus as S;
        Some(match (self, event) {
            (S::Pending, E::Search) => S::Searching,
            (S::Searching, E::Find) => S::Found,
            (S::Pending | S::Searching, E::Fail) => S::Failed,
            (S::Pending | S::Searching | S::Found, E::Reject) => S::Rejected,
            _ => return None,
        })
    }

    /// Status of the discovery that a call is. `has_found`: whether its result has tools; `is_rejected`:
    /// whether it proposed some and all of them were rejected.
    pub fn of(call: &State, has_found: bool, is_rejected: bool) -> Self {
        use DiscoveryEvent as E;
        let events: &[E] = match call {
            State::Accepted | State::Held(_) => &[],
            State::Dispatched | State::Running | State::Cancelling { .. } => &[E::Search],
            State::Finished(finished) => match &finished.produced {
                Produced::Result(_) if has_found && is_rejected => &[E::Search, E::Find, E::Reject],
                Produced::Result(_) if has_found => &[E::Search, E::Find],
                _ => &[E::Search, E::Fail],
            },
            State::Denied { .. } | State::Cancelled { .. } => &[E::Reject],
            State::Expired { .. } => &[E::Fail],
            State::OutcomeUnknown => &[E::Search, E::Fail],
        };
        let next = |status: Self, event: &E| status.on(*event).unwrap_or(status);
        events.iter().fold(Self::Pending, next)
    }

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Searching => "searching",
            Self::Found => "found",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

impl DiscoveryEvent {
    /// All events.
    pub const ALL: [Self; 4] = [Self::Search, Self::Find, Self::Fail, Self::Reject];

    /// Name of the event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Find => "find",
            Self::Fail => "fail",
            Self::Reject => "reject",
        }
    }
}

impl fmt::Display for DiscoveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DiscoveryStatus {
    type Err = UnknownDiscoveryStatus;

    fn from_str(text: &str) -> Result<Self, UnknownDiscoveryStatus> {
        Self::ALL.into_iter().find(|status| status.name() == text).ok_or(UnknownDiscoveryStatus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyId, Stopper};

    #[test]
    fn the_matrix_of_statuses_and_events() {
        let mut matrix = String::new();
        for event in DiscoveryEvent::ALL {
            matrix += &format!("{}\n", event.name());
            for status in DiscoveryStatus::ALL {
                let after = status.on(event).map_or("-", DiscoveryStatus::name);
                matrix += &format!("  {:<9} -> {after}\n", status.name());
            }
        }
        expect_test::expect![[r#"
            search
              pending   -> searching
              searching -> -
              found     -> -
              failed    -> -
              rejected  -> -
            find
              pending   -> -
              searching -> found
              found     -> -
              failed    -> -
              rejected  -> -
            fail
              pending   -> failed
              searching -> failed
              found     -> -
              failed    -> -
              rejected  -> -
            reject
              pending   -> rejected
              searching -> rejected
              found     -> rejected
              failed    -> -
              rejected  -> -
        "#]]
        .assert_eq(&matrix);
    }

    #[test]
    fn the_state_of_the_call_is_the_status() {
        let by = Stopper::Key(KeyId(uuid::Uuid::from_u128(1)));
        let cases = [
            (State::Accepted, DiscoveryStatus::Pending),
            (State::Dispatched, DiscoveryStatus::Searching),
            (State::Running, DiscoveryStatus::Searching),
            (State::Cancelling { by }, DiscoveryStatus::Searching),
            (State::Denied { reasons: Vec::new() }, DiscoveryStatus::Rejected),
            (State::Cancelled { by }, DiscoveryStatus::Rejected),
            (State::Expired { reasons: Vec::new() }, DiscoveryStatus::Failed),
            (State::OutcomeUnknown, DiscoveryStatus::Failed),
        ];
        for (state, expected) in cases {
            assert_eq!(DiscoveryStatus::of(&state, true, true), expected, "{}", state.name());
        }
    }
}
