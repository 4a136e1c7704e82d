//! Answers of rules, as any engine carries them: a decision, an abstention, or a malformed value.

use ringfence_types::{Digest, Obligations, Reason, Verdict};
use serde::Deserialize;
use serde_json::Value;

use crate::{Answer, Trouble, Unavailable};

/// Reasons allowed in one answer.
pub(crate) const MAX_REASONS: usize = 64;
/// Length limit of a rule name.
pub(crate) const MAX_RULE_BYTES: usize = 128;
/// Length limit of a message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024;

/// Approvals that one call may require.
pub(crate) const MAX_APPROVALS: u32 = 16;

/// Value that is not a decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("expected true, false or an object with `decision`")]
    Shape,
    #[error("cannot read the decision")]
    Fields(#[source] serde_json::Error),
    #[error("more than {MAX_REASONS} reasons")]
    Reasons,
    #[error(
        "a reason without a rule, or longer than {MAX_RULE_BYTES} and {MAX_MESSAGE_BYTES} bytes"
    )]
    Reason,
    #[error("`approvals` is 1 to {MAX_APPROVALS} people")]
    Approvals,
    #[error("more than {0} values or bytes")]
    Size(usize),
    #[error("a key that is not text, or a number that JSON cannot write")]
    Json,
}

/// Abstention, perhaps with reasons. No other fields: they would be conditions that are not kept.
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

/// Decision document. Unknown fields are refused, because they may be conditions that are not kept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    decision: Verdict,
    #[serde(default)]
    reasons: Vec<Reason>,
    #[serde(default)]
    obligations: Obligations,
    /// Number of different people who must approve a held call.
    #[serde(default)]
    approvals: Option<u32>,
}

/// Reads the answer of rules with digest `policy`.
pub(crate) fn read(value: Value, policy: Digest) -> Result<Answer, Unavailable> {
    // Checked first, because most answers are decisions and a failed deserialization is slow.
    let may_abstain = value.get("decision").is_some_and(|decision| decision == "abstain");
    if may_abstain
        && let Ok(Abstention { decision: Abstain::Abstain, .. }) = Abstention::deserialize(&value)
    {
        return Err(Unavailable::new(Trouble::Abstained));
    }
    read_decision(value, policy)
        .map_err(|malformed| Unavailable::because(Trouble::Malformed, malformed))
}

/// Answer with one reason and without conditions.
pub(crate) fn plain(verdict: Verdict, reason: Reason, policy: Digest) -> Answer {
    let obligations = Obligations::default();
    Answer { verdict, reasons: vec![reason], obligations, approvals: None, policy }
}

/// Reads a decision of rules with digest `policy`.
fn read_decision(value: Value, policy: Digest) -> Result<Answer, Malformed> {
    let document = match value {
        Value::Bool(allowed) => bare(allowed),
        Value::Object(_) => serde_json::from_value(value).map_err(Malformed::Fields)?,
        _ => return Err(Malformed::Shape),
    };
    check(&document.reasons)?;
    let Document { decision, reasons, obligations, approvals } = document;
    if approvals.is_some_and(|needed| !(1..=MAX_APPROVALS).contains(&needed)) {
        return Err(Malformed::Approvals);
    }
    Ok(Answer { verdict: decision, reasons, obligations, approvals, policy })
}

fn bare(allowed: bool) -> Document {
    let decision = if allowed { Verdict::Allow } else { Verdict::Deny };
    let message = format!("the policy answered {allowed} and gave no reason");
    let reasons = vec![Reason { rule: "decision".to_owned(), message }];
    Document { decision, reasons, obligations: Obligations::default(), approvals: None }
}

fn check(reasons: &[Reason]) -> Result<(), Malformed> {
    if reasons.len() > MAX_REASONS {
        return Err(Malformed::Reasons);
    }
    let fits = |reason: &Reason| {
        !reason.rule.is_empty()
            && reason.rule.len() <= MAX_RULE_BYTES
            && reason.message.len() <= MAX_MESSAGE_BYTES
    };
    if reasons.iter().all(fits) { Ok(()) } else { Err(Malformed::Reason) }
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

    fn verdict(value: Value) -> Option<Verdict> {
        read(value, Digest::of(b"rules")).ok().map(|answer| answer.verdict)
    }

    #[test]
    fn a_decision_or_a_bare_boolean_is_understood() {
        assert_eq!(verdict(json!(true)), Some(Verdict::Allow));
        assert_eq!(verdict(json!(false)), Some(Verdict::Deny));
        for name in [Verdict::Allow, Verdict::Hold, Verdict::Deny] {
            assert_eq!(verdict(json!({"decision": name.name()})), Some(name));
        }
    }

    #[test]
    fn anything_else_is_not() {
        let reason = json!({"rule": "r", "message": "m"});
        let garbage = [
            json!(null),
            json!(1),
            json!("allow"),
            json!([true]),
            json!({}),
            json!({"decision": true}),
            json!({"decision": "ALLOW"}),
            json!({"decision": "allow", "allow": true}),
            json!({"decision": "allow", "reasons": "because"}),
            json!({"decision": "allow", "reasons": [{"rule": "r"}]}),
            json!({"decision": "allow", "reasons": [{"rule": "", "message": "m"}]}),
            json!({"decision": "allow", "reasons": vec![reason; MAX_REASONS + 1]}),
            json!({"decision": "allow", "reasons": [{"rule": "r", "message": "m".repeat(1025)}]}),
            json!({"decision": "hold", "approvals": 0}),
            json!({"decision": "hold", "approvals": 17}),
            json!({"decision": "hold", "approvals": "two"}),
            json!({"decision": "allow", "obligations": {"limits": {"wall": 1}}}),
            json!({"decision": "allow", "obligations": {"redact": ["x"]}}),
            json!({"decision": "allow", "obligations": {"isolation": "cold"}}),
            json!({"decision": "allow", "obligations": {"network": "all"}}),
        ];
        for value in garbage {
            assert_eq!(verdict(value.clone()), None, "{value}");
        }
    }
}
