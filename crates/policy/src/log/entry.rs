//! One decision as OPA would have logged it.

use serde_json::{Map, Value, json};

use super::LogConfig;
use crate::{Answer, Input, Unavailable};

pub(super) struct Entry<'a> {
    pub(super) input: &'a Input,
    pub(super) said: &'a Result<Answer, Unavailable>,
    /// In nanoseconds.
    pub(super) took: u128,
    pub(super) engine: String,
    /// Of this process, from one.
    pub(super) number: u64,
}

impl Entry<'_> {
    /// As an object.
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
        // Exact numbers of arguments stay text in the document; here they are read by tools of others.
        entry["input"] = serde_json::from_str(&self.input.text()).unwrap_or_default();
        match self.said {
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

/// What was there and is gone is listed, as OPA does it.
pub(super) fn erase(entry: &mut Value, pointers: &[String]) {
    for pointer in pointers {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let fields = entry.pointer_mut(parent).and_then(Value::as_object_mut);
        if fields.and_then(|fields| fields.remove(&unescaped(name))).is_some() {
            list(entry, "erased", pointer);
        }
    }
}

/// A part of a JSON pointer as the name that it stands for.
pub(super) fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Adds to a list of pointers of an entry.
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
