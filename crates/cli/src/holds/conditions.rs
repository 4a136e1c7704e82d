//! Conditions on the command line: `/to suffix @example.com`.

use serde_json::{Value, json};

/// A condition in the form of the API.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut words = text.splitn(3, ' ');
    let (Some(path), Some(test), Some(value)) = (words.next(), words.next(), words.next()) else {
        return Err(format!("`{text}` is not PATH TEST VALUE, such as `/to suffix @example.com`"));
    };
    let as_json = || {
        let read = serde_json::from_str::<Value>(value);
        read.map_err(|error| format!("`{text}`: `{value}` is not JSON: {error}"))
    };
    Ok(match test {
        "=" => json!({"path": path, "equals": as_json()?}),
        "in" => json!({"path": path, "one_of": as_json()?}),
        "<=" => json!({"path": path, "at_most": as_json()?}),
        ">=" => json!({"path": path, "at_least": as_json()?}),
        "prefix" => json!({"path": path, "prefix": value}),
        "suffix" => json!({"path": path, "suffix": value}),
        other => {
            return Err(format!("`{other}` is none of =, in, <=, >=, prefix and suffix"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_conditions() {
        let cases = [
            ("/to suffix @example.com", json!({"path": "/to", "suffix": "@example.com"})),
            ("/n <= 5", json!({"path": "/n", "at_most": 5})),
            ("/a in [\"x\", 1]", json!({"path": "/a", "one_of": ["x", 1]})),
            ("/s = \"a b\"", json!({"path": "/s", "equals": "a b"})),
            ("/s prefix a b", json!({"path": "/s", "prefix": "a b"})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected));
        }
        for bad in ["", "/to", "/to suffix", "/to = nope", "/to like x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
