//! JSON with changed white space only: numbers keep their digits and members their order.

/// Indented, on several lines.
pub(crate) fn pretty(json: &str) -> String {
    let mut writer = Writer { out: String::with_capacity(json.len() * 2), depth: 0 };
    let tokens = tokens(json);
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).copied().unwrap_or_default();
        writer.token(token, next);
    }
    writer.out
}

/// On one line, without white space.
pub(crate) fn compact(json: &str) -> String {
    tokens(json).concat()
}

struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    fn token(&mut self, token: &str, next: &str) {
        match token {
            "{" | "[" => {
                self.out += token;
                if !matches!(next, "}" | "]") {
                    self.depth += 1;
                    self.line();
                }
            }
            "}" | "]" => {
                if !self.out.ends_with(['{', '[']) {
                    self.depth = self.depth.saturating_sub(1);
                    self.line();
                }
                self.out += token;
            }
            "," => {
                self.out += token;
                self.line();
            }
            ":" => self.out += ": ",
            other => self.out += other,
        }
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
    }
}

/// Tokens: brackets, commas, colons, and values with their quotes. The text is valid JSON, so only
/// strings and white space are told apart.
fn tokens(json: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = json.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => string(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest
                .find(|c: char| "{}[],:\"".contains(c) || c.is_whitespace())
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// Length of the string at the beginning of the text.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn digits_and_order_stay_as_they_are() {
        let json = r#"{"z": 1.0e400, "a":[1, {} ,[],"x\"]}"], "n":12345678901234567890123}"#;
        let wanted = "{\n  \"z\": 1.0e400,\n  \"a\": [\n    1,\n    {},\n    [],\n    \"x\\\"]}\"\n  ],\n  \
                      \"n\": 12345678901234567890123\n}";
        assert_eq!(pretty(json), wanted);
        assert_eq!(
            compact(&pretty(json)),
            json.replace(", ", ",").replace(": ", ":").replace(" ,", ",")
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_value_is_the_same(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(&compact(&pretty(&text)), &text);
            let read: Value = serde_json::from_str(&pretty(&text)).unwrap();
            prop_assert_eq!(read, value);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = (pretty(&text), compact(&text));
        }
    }
}
