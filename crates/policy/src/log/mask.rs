//! Masking of log entries: parts named by `data.system.log.mask` of the rules in force are removed or
//! replaced, as in OPA.
//!
//! If the mask cannot be evaluated, the entry is logged without input and result.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::entry::{erase, list, unescaped};
use crate::{Bundle, rego::Mask};

/// Parts of an entry that may be masked.
const PARTS: [&str; 2] = ["/input", "/result"];

/// Masks of the most recently seen rules. Lives on one thread.
#[derive(Default)]
pub(super) struct Masks {
    known: Option<(Arc<Bundle>, Option<Mask>)>,
}

/// Failure to evaluate the mask; the entry was left without input and result.
#[derive(Debug)]
pub(super) struct Unmasked(pub(super) String);

/// One masking operation, in either of OPA's two forms.
#[derive(Deserialize)]
#[serde(untagged)]
enum MaskOperation {
    Path(String),
    Change(Change),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    op: Operation,
    path: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Remove,
    Upsert,
}

impl Masks {
    /// Masks an entry by the rules of this bundle.
    pub(super) fn apply(
        &mut self,
        bundle: &Arc<Bundle>,
        entry: &mut Value,
    ) -> Result<(), Unmasked> {
        let operations = match self.of(bundle) {
            Ok(None) => return Ok(()),
            Ok(Some(mask)) => mask.evaluate(entry).and_then(|mask| read(&mask)),
            Err(why) => Err(why),
        };
        operations
            .map(|operations| operations.iter().for_each(|wish| carry_out(entry, wish)))
            .map_err(|why| {
                erase(entry, &PARTS.map(str::to_owned));
                Unmasked(why)
            })
    }

    fn of(&mut self, bundle: &Arc<Bundle>) -> Result<Option<&mut Mask>, String> {
        let is_known = self.known.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, bundle));
        if !is_known {
            self.known = Some((bundle.clone(), Mask::of(bundle)?));
        }
        Ok(self.known.as_mut().and_then(|(_, mask)| mask.as_mut()))
    }
}

fn read(mask: &str) -> Result<Vec<Change>, String> {
    let operations: Vec<MaskOperation> = serde_json::from_str(mask)
        .map_err(|_| "the mask is no set of pointers and changes".to_owned())?;
    let change = |operation| match operation {
        MaskOperation::Path(path) => Change { op: Operation::Remove, path, value: Value::Null },
        MaskOperation::Change(change) => change,
    };
    let changes: Vec<_> = operations.into_iter().map(change).collect();
    let is_ours = |path: &str| {
        PARTS.iter().any(|part| {
            path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    match changes.iter().find(|change| !is_ours(&change.path)) {
        None => Ok(changes),
        Some(_) => Err("a mask begins with /input or /result".to_owned()),
    }
}

fn carry_out(entry: &mut Value, change: &Change) {
    match change.op {
        Operation::Remove => erase(entry, std::slice::from_ref(&change.path)),
        Operation::Upsert => {
            if upsert(entry, &change.path, &change.value) {
                list(entry, "masked", &change.path);
            }
        }
    }
}

/// Sets the value at a pointer and creates objects on the way, except where another kind of value is.
fn upsert(entry: &mut Value, pointer: &str, value: &Value) -> bool {
    let mut parts: Vec<_> = pointer.split('/').skip(1).map(unescaped).collect();
    let (Some(last), Some(first)) = (parts.pop(), pointer.split('/').nth(1)) else { return false };
    // As in OPA, absent parts of an entry are not created.
    if entry.get(first).is_none() {
        return false;
    }
    let mut place = entry;
    for part in parts {
        let Some(fields) = place.as_object_mut() else { return false };
        place = fields.entry(part).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(fields) = place.as_object_mut() else { return false };
    fields.insert(last, value.clone());
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(mut entry: Value, mask: &Value) -> Value {
        let changes = read(&mask.to_string()).expect("a mask");
        changes.iter().for_each(|change| carry_out(&mut entry, change));
        entry
    }

    #[test]
    fn what_a_mask_names_is_gone_or_replaced_and_listed() {
        let entry = json!({"input": {"args": {"a/b": 1, "list": [{"x": 1}, 2], "keep": 3}}});
        let mask = json!([
            "/input/args/a~1b",
            "/input/args/none",
            "/input/args/list/0/x",
            "/input/args/list/1",
            {"op": "upsert", "path": "/input/args/new/deep", "value": "**"},
            {"op": "upsert", "path": "/input/args/keep/deep", "value": "**"},
            {"op": "upsert", "path": "/result/decision", "value": "**"},
        ]);
        let expected = json!({
            "input": {"args": {"list": [{}, 2], "keep": 3, "new": {"deep": "**"}}},
            "erased": ["/input/args/a~1b", "/input/args/list/0/x"],
            "masked": ["/input/args/new/deep"],
        });
        assert_eq!(masked(entry, &mask), expected);
        let whole = masked(json!({"input": 1, "result": 2}), &json!(["/input"]));
        assert_eq!(whole, json!({"result": 2, "erased": ["/input"]}));
    }

    #[test]
    fn what_is_no_mask_is_refused() {
        for mask in [
            json!({"a": 1}),
            json!([1]),
            json!(["/labels/app"]),
            json!(["/inputs"]),
            json!([{"op": "delete", "path": "/input"}]),
            json!([{"op": "remove", "path": "/input", "more": 1}]),
            json!([{"path": "/input"}]),
        ] {
            assert!(read(&mask.to_string()).is_err(), "{mask}");
        }
    }
}
