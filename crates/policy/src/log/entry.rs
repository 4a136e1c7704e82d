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
    /// In one line.
    pub(super) fn line(&self, config: &LogConfig) -> String {
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
        entry.to_string()
    }
}

/// What was there and is gone is listed, as OPA does it.
fn erase(entry: &mut Value, pointers: &[String]) {
    let mut erased = Vec::new();
    for pointer in pointers {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        let fields = entry.pointer_mut(parent).and_then(Value::as_object_mut);
        if fields.and_then(|fields| fields.remove(&name)).is_some() {
            erased.push(pointer.clone());
        }
    }
    if !erased.is_empty() {
        entry["erased"] = json!(erased);
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
