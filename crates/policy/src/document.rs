//! The document that rules answer with, whichever engine carried it here.

use ringfence_types::{Digest, Obligations, Reason, Verdict};
use serde::Deserialize;
use serde_json::Value;

use crate::Answer;

/// Most reasons of one answer.
pub(crate) const REASONS: usize = 64;
/// Most bytes of a rule's name.
pub(crate) const RULE_BYTES: usize = 128;
/// Most bytes of a message.
pub(crate) const MESSAGE_BYTES: usize = 1024;

/// Most people that one call may need.
pub(crate) const APPROVALS: u32 = 16;

/// An answer that is not a decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("expected true, false or an object with `decision`")]
    Shape,
    #[error("cannot read the decision")]
    Fields(#[source] serde_json::Error),
    #[error("more than {REASONS} reasons")]
    Reasons,
    #[error("a reason without a rule, or longer than {RULE_BYTES} and {MESSAGE_BYTES} bytes")]
    Reason,
    #[error("`approvals` is 1 to {APPROVALS} people")]
    Approvals,
    #[error("more than {0} values or bytes")]
    Size(usize),
    #[error("a key that is not text, or a number that JSON cannot write")]
    Json,
}

/// A field that we do not know may be a condition that we would not keep: no unknown fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    decision: Verdict,
    #[serde(default)]
    reasons: Vec<Reason>,
    #[serde(default)]
    obligations: Obligations,
    /// Of a hold: how many different people must approve.
    #[serde(default)]
    approvals: Option<u32>,
}

/// Reads an answer of the rules with digest `policy`.
pub(crate) fn read(value: Value, policy: Digest) -> Result<Answer, Malformed> {
    let document = match value {
        Value::Bool(allowed) => bare(allowed),
        Value::Object(_) => serde_json::from_value(value).map_err(Malformed::Fields)?,
        _ => return Err(Malformed::Shape),
    };
    check(&document.reasons)?;
    let Document { decision, reasons, obligations, approvals } = document;
    if approvals.is_some_and(|needed| !(1..=APPROVALS).contains(&needed)) {
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
    if reasons.len() > REASONS {
        return Err(Malformed::Reasons);
    }
    let fits = |reason: &Reason| {
        !reason.rule.is_empty()
            && reason.rule.len() <= RULE_BYTES
            && reason.message.len() <= MESSAGE_BYTES
    };
    if reasons.iter().all(fits) { Ok(()) } else { Err(Malformed::Reason) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            json!({"decision": "allow", "reasons": vec![reason; REASONS + 1]}),
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
