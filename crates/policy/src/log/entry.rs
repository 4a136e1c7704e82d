//! Decision log entry in OPA's format.

use serde_json::{Map, Value, json};

use super::LogConfig;
use crate::{Answer, Input, Unavailable};

pub(super) struct Entry<'a> {
    pub(super) input: &'a Input,
    pub(super) answer: &'a Result<Answer, Unavailable>,
    /// Duration of the evaluation in nanoseconds.
    pub(super) took: u128,
    pub(super) engine: String,
    /// Sequence number in this process, from one.
    pub(super) number: u64,
}

impl Entry<'_> {
    /// Entry as a JSON object.
    pub(super) fn object(&self, config: &LogConfig) -> Value {
        let labels: Map<String, Value> =
            config.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let (call, time) = (self.input.call_id, self.input.time);
        let mut entry = json!({
            "labels": labels,
            "decision_id": format!("{call}/{}", self.number),
            "path": "ringfence/decision",
            "requested_by": self.input.principal.key,
            "timestamp": time,
            "metrics": {"timer_server_handler_ns": u64::try_from(self.took).unwrap_or(u64::MAX)},
            "req_id": self.number,
        });
        if let Some(trace) = &self.input.trace {
            entry["trace_id"] = json!(trace.trace.to_string());
            entry["span_id"] = json!(trace.span.to_string());
        }
        // Exact numbers of arguments stay text in the document; log readers expect plain JSON numbers.
        entry["input"] = serde_json::from_str(&self.input.text()).unwrap_or_default();
        match self.answer {
            Ok(answer) => {
                entry["bundles"] = json!({&self.engine: {"revision": answer.policy}});
                entry["result"] = json!({
                    "decision": answer.verdict,
                    "reasons": answer.reasons,
                    "obligations": answer.obligations,
                });
            }
            Err(unavailable) => {
                entry["error"] =
                    json!({"code": "policy_unavailable", "message": unavailable.to_string()});
            }
        }
        erase(&mut entry, &config.erase);
        entry
    }
}

/// Removes what the pointers name; like OPA, lists the removed pointers in the entry.
pub(super) fn erase(entry: &mut Value, pointers: &[String]) {
    for pointer in pointers {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let fields = entry.pointer_mut(parent).and_then(Value::as_object_mut);
        if fields.and_then(|fields| fields.remove(&unescaped(name))).is_some() {
            list(entry, "erased", pointer);
        }
    }
}

/// Unescaped part of a JSON Pointer.
pub(super) fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Appends a pointer to a list of the entry.
pub(super) fn list(entry: &mut Value, name: &str, pointer: &str) {
    match &mut entry[name] {
        Value::Array(all) => all.push(json!(pointer)),
        none => *none = json!([pointer]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_erased_is_listed_and_only_if_it_was_there() {
        let mut entry = json!({"input": {"args": {"a/b": 1}, "tenant": "acme"}});
        let pointers = ["/input/args/a~1b", "/input/none", "/nowhere/x"].map(str::to_owned);
        erase(&mut entry, &pointers);
        let expected = json!({
            "input": {"args": {}, "tenant": "acme"}, "erased": ["/input/args/a~1b"],
        });
        assert_eq!(entry, expected);
    }
}
