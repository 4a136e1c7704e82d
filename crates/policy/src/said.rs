//! What rules said, whichever engine carried it here: a decision, an abstention, or neither.

use ringfence_types::{Digest, Obligations, Reason, Verdict};
use serde::Deserialize;
use serde_json::Value;

use crate::{Answer, Trouble, Unavailable, document};

/// No opinion, perhaps with reasons. Anything else with it would be a condition nobody keeps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Abstention {
    decision: Abstain,
    #[serde(default, rename = "reasons")]
    _reasons: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Abstain {
    Abstain,
}

/// Reads what rules with digest `policy` said.
pub(crate) fn read(value: Value, policy: Digest) -> Result<Answer, Unavailable> {
    // Asked first, because most answers are something else, and to be told what costs time.
    let may_abstain = value.get("decision").is_some_and(|decision| decision == "abstain");
    if may_abstain
        && let Ok(Abstention { decision: Abstain::Abstain, .. }) = Abstention::deserialize(&value)
    {
        return Err(Unavailable::new(Trouble::Abstained));
    }
    document::read(value, policy)
        .map_err(|malformed| Unavailable::because(Trouble::Malformed, malformed))
}

/// An answer for one reason and without conditions.
pub(crate) fn plain(verdict: Verdict, reason: Reason, policy: Digest) -> Answer {
    let obligations = Obligations::default();
    Answer { verdict, reasons: vec![reason], obligations, approvals: None, policy }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trouble(value: Value) -> Option<Trouble> {
        read(value, Digest::of(b"rules")).err().map(|unavailable| unavailable.trouble)
    }

    #[test]
    fn an_abstention_is_no_answer_and_no_mistake() {
        assert_eq!(trouble(json!({"decision": "abstain"})), Some(Trouble::Abstained));
        let reasons = json!([{"rule": "r", "message": "m"}]);
        let with = json!({"decision": "abstain", "reasons": reasons});
        assert_eq!(trouble(with), Some(Trouble::Abstained));
        assert_eq!(trouble(json!({"decision": "allow"})), None);
    }

    #[test]
    fn an_abstention_with_conditions_is_a_mistake() {
        let with = json!({"decision": "abstain", "obligations": {}});
        assert_eq!(trouble(with), Some(Trouble::Malformed));
        assert_eq!(trouble(json!("abstain")), Some(Trouble::Malformed));
    }
}
