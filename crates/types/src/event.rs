//! Facts about calls, in the order in which they became true.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{CallId, Json, State, Timestamp};

/// One fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Kind of the fact.
    #[serde(rename = "type")]
    pub kind: FactKind,
    /// Call of the fact.
    pub call: CallId,
    /// Time of the fact.
    pub at: Timestamp,
    /// Details by kind.
    pub data: Json,
}

/// Kind of a fact: a thing that became true of a call. The text of each is part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// The call was accepted.
    Accepted,
    /// Policy decided about the call.
    Decided,
    /// The call waits for a person.
    Held,
    /// A person approved the call.
    Approval,
    /// A person changed the arguments of the call.
    Edited,
    /// A person decided about the hold.
    Resolved,
    /// The call may run, and is about to.
    Dispatched,
    /// The tool runs.
    Started,
    /// The sandbox of the tool failed, and the call is tried again.
    Retried,
    /// The tool is being stopped.
    Cancelling,
    /// The tool ended, with a result or an error.
    Finished,
    /// The call was denied.
    Denied,
    /// The call was held until its hold expired.
    Expired,
    /// The call was cancelled.
    Cancelled,
    /// The server stopped while the call had an effect that cannot be repeated.
    OutcomeUnknown,
}

impl FactKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Accepted,
        Self::Decided,
        Self::Held,
        Self::Approval,
        Self::Edited,
        Self::Resolved,
        Self::Dispatched,
        Self::Started,
        Self::Retried,
        Self::Cancelling,
        Self::Finished,
        Self::Denied,
        Self::Expired,
        Self::Cancelled,
        Self::OutcomeUnknown,
    ];

    /// The text of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "call.accepted",
            Self::Decided => "call.decided",
            Self::Held => "call.held",
            Self::Approval => "call.approval",
            Self::Edited => "call.edited",
            Self::Resolved => "call.resolved",
            Self::Dispatched => "call.dispatched",
            Self::Started => "call.started",
            Self::Retried => "call.retried",
            Self::Cancelling => "call.cancelling",
            Self::Finished => "call.finished",
            Self::Denied => "call.denied",
            Self::Expired => "call.expired",
            Self::Cancelled => "call.cancelled",
            Self::OutcomeUnknown => "call.outcome_unknown",
        }
    }

    /// The fact that a step to this state makes true.
    pub const fn of_state(state: &State) -> Self {
        match state {
            State::Accepted => Self::Accepted,
            State::Held(_) => Self::Held,
            State::Dispatched => Self::Dispatched,
            State::Running => Self::Started,
            State::Cancelling { .. } => Self::Cancelling,
            State::Finished(_) => Self::Finished,
            State::Denied { .. } => Self::Denied,
            State::Expired { .. } => Self::Expired,
            State::Cancelled { .. } => Self::Cancelled,
            State::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }

    /// Whether nothing follows it: the call is in a final state.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Finished | Self::Denied | Self::Expired | Self::Cancelled | Self::OutcomeUnknown
        )
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FactKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FactKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or_else(|| de::Error::custom(format!("unknown kind of fact `{text}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back_and_end_with_the_states_of_their_names() {
        for kind in FactKind::ALL {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(serde_json::from_str::<FactKind>(&text).unwrap(), kind);
            let state = kind.as_str().strip_prefix("call.").unwrap();
            assert_eq!(kind.is_final(), State::is_final_name(state), "{kind}");
        }
        assert!(serde_json::from_str::<FactKind>("\"call.no_such\"").is_err());
    }
}
