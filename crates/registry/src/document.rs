//! Documents of others in YAML or JSON, as a bounded tree.

use ringfence_types::Json;
use serde_json::{Map, Value};

use crate::skill::yaml::{self, Yaml};

/// Bounds of a document.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Size as text.
    pub bytes: usize,
    /// Values, after aliases are expanded.
    pub values: usize,
}

/// Reads a document. What begins with a brace is JSON.
pub fn read(bytes: &[u8], bounds: &Bounds) -> Result<Value, String> {
    if bytes.len() > bounds.bytes {
        return Err(format!("larger than {} KiB", bounds.bytes >> 10));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return read_json(text, bounds);
    }
    let limits = yaml::Bounds { values: bounds.values, text: bounds.bytes * 4, depth: 64 };
    let tree = yaml::parse_within(text, &limits).map_err(|error| format!("not YAML: {error}"))?;
    Ok(value(tree))
}

/// Reads JSON as strictly as YAML: a repeated key is refused, because the approver and another parser could see
/// different documents.
fn read_json(text: &str, bounds: &Bounds) -> Result<Value, String> {
    let strict = Json::parse(text.as_bytes()).map_err(|error| format!("not JSON: {error}"))?;
    let tree =
        serde_json::from_str(strict.as_str()).map_err(|error| format!("not JSON: {error}"))?;
    match count(&tree) > bounds.values {
        true => Err(format!("not JSON: too many values (at most {})", bounds.values)),
        false => Ok(tree),
    }
}

/// Number of values in a tree, which is at most [`ringfence_types::json::DEPTH`] deep.
fn count(tree: &Value) -> usize {
    let inner: usize = match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    };
    inner + 1
}

fn value(tree: Yaml) -> Value {
    match tree {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(number) => number_value(number),
        Yaml::Text(text) => Value::String(text),
        Yaml::List(items) => items.into_iter().map(value).collect(),
        Yaml::Map(entries) => Value::Object(
            entries.into_iter().map(|(name, tree)| (name, value(tree))).collect::<Map<_, _>>(),
        ),
    }
}

/// Largest whole number that a floating point number holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Value::from(number as i64);
    }
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SMALL: Bounds = Bounds { bytes: 64 << 10, values: 1_000 };

    #[test]
    fn yaml_and_json_are_the_same_tree() {
        let yaml = b"a: 1\nb: [x, 1.5, true, null]\nc: {d: '1'}\n";
        let json = br#"{"a": 1, "b": ["x", 1.5, true, null], "c": {"d": "1"}}"#;
        assert_eq!(read(yaml, &SMALL).unwrap(), read(json, &SMALL).unwrap());
        assert_eq!(read(yaml, &SMALL).unwrap()["a"], json!(1));
    }

    #[test]
    fn a_billion_laughs_end_soon() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (before, after) in ('a'..'i').zip('b'..='i') {
            text += &format!("{after}: &{after} [{}]\n", vec![format!("*{before}"); 10].join(", "));
        }
        let problem = read(text.as_bytes(), &SMALL).unwrap_err();
        assert!(problem.contains("too many values"), "{problem}");
    }

    #[test]
    fn what_is_no_document_is_named() {
        for (bytes, part) in [
            (&b"\xff"[..], "UTF-8"),
            (b"{\"a\": }", "not JSON: expected a value at byte 6"),
            (b"{\"a\": {\"b\": 1, \"b\": 2}}", "the key `b` appears twice"),
            (b"a: [1", "not YAML"),
            (b"a: 1\na: 2", "twice"),
        ] {
            let problem = read(bytes, &SMALL).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
        let many = format!("{{\"a\": [{}0]}}", "0,".repeat(SMALL.values));
        assert!(read(many.as_bytes(), &SMALL).unwrap_err().contains("too many values"));
        let large = vec![b' '; SMALL.bytes + 1];
        assert_eq!(read(&large, &SMALL).unwrap_err(), "larger than 64 KiB");
        let deep = "[".repeat(100_000);
        assert!(read(deep.as_bytes(), &Bounds { bytes: 1 << 20, values: 1_000 }).is_err());
        let deep = format!("{}{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        assert!(read(deep.as_bytes(), &Bounds { bytes: 1 << 20, values: 1_000 }).is_err());
    }
}
