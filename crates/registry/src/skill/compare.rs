//! Comparison of an example's result with the expected one.

use serde_json::Value;

/// Differences that are listed.
const MAX_DIFFERENCES: usize = 10;

/// Differences by JSON Pointer. With a subset, objects may have more members.
pub(super) fn differences(expected: &Value, found: &Value, is_subset: bool) -> Vec<String> {
    let mut all = Vec::new();
    add(&mut all, "", expected, found, is_subset);
    all.truncate(MAX_DIFFERENCES);
    all
}

fn add(all: &mut Vec<String>, at: &str, expected: &Value, found: &Value, is_subset: bool) {
    match (expected, found) {
        (Value::Object(wanted), Value::Object(members)) => {
            for (name, value) in wanted {
                let at = format!("{at}/{}", escaped(name));
                match members.get(name) {
                    Some(member) => add(all, &at, value, member, is_subset),
                    None => all.push(format!("{at}: expected {value}, is missing")),
                }
            }
            let more = members.iter().filter(|(name, _)| !is_subset && !wanted.contains_key(*name));
            all.extend(more.map(|(name, value)| {
                format!("{at}/{}: not expected, found {value}", escaped(name))
            }));
        }
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
            for (index, (value, item)) in wanted.iter().zip(items).enumerate() {
                add(all, &format!("{at}/{index}"), value, item, is_subset);
            }
        }
        _ if is_same(expected, found) => {}
        _ => {
            let at = if at.is_empty() { "result" } else { at };
            all.push(format!("{at}: expected {expected}, found {found}"));
        }
    }
}

/// Whether two numbers are equal however they are written: 1 and 1.0.
fn is_same(expected: &Value, found: &Value) -> bool {
    let numbers = expected.is_number() && found.is_number();
    expected == found || (numbers && expected.as_f64() == found.as_f64())
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_difference_has_its_place() {
        let expected = json!({"a": {"b/c": [1, 2]}, "gone": true, "n": 1});
        let found = json!({"a": {"b/c": [1, 3]}, "more": 0, "n": 1.0});
        assert_eq!(
            differences(&expected, &found, false),
            [
                "/a/b~1c/1: expected 2, found 3",
                "/gone: expected true, is missing",
                "/more: not expected, found 0",
            ]
        );
        assert_eq!(differences(&json!(1), &json!("1"), false), ["result: expected 1, found \"1\""]);
        assert_eq!(differences(&json!([1]), &json!([1, 2]), true).len(), 1, "lists are whole");
    }

    #[test]
    fn a_subset_allows_more_members_and_nothing_else() {
        let found = json!({"a": 1, "b": {"c": 2, "d": 3}});
        assert_eq!(differences(&json!({"b": {"c": 2}}), &found, true), [""; 0]);
        assert_eq!(differences(&json!({"b": {"c": 4}}), &found, true).len(), 1);
        assert_eq!(differences(&json!({"b": {"c": 2}}), &found, false).len(), 2);
    }
}
