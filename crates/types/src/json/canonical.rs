//! Canonical forms of JSON, so that a digest of the text is a digest of the value.
//!
//! There are two forms: [`jcs`] for all digests of Ringfence, [`python`] for the `inputs_hash` and
//! `outputs_hash` of the skills API, which must match existing records.

use super::{
    Json,
    node::{Node, separated, write_string},
    number,
};
use crate::Digest;

/// RFC 8785. One addition: integers beyond 2^53, which that form would round, keep all of their
/// digits; two calls that differ in such an id must not share a digest.
pub fn jcs(json: &Json) -> &str {
    json.canonical()
}

pub(super) fn written(node: &mut Node<'_>) -> String {
    let mut out = String::new();
    write_jcs(node, &mut out);
    out
}

/// Text as of Python's `json.dumps(value, sort_keys=True)`.
pub fn python(json: &Json) -> String {
    let mut out = String::with_capacity(json.as_str().len() * 2);
    write_python(&mut json.parsed(), &mut out);
    out
}

/// SHA-256 of the Python form, as bare hexadecimal digits.
pub fn python_hash(json: &Json) -> String {
    Digest::of(python(json).as_bytes()).hex()
}

/// The same of a value that was read.
pub(super) fn python_hash_of(node: &mut Node<'_>) -> String {
    let mut out = String::new();
    write_python(node, &mut out);
    Digest::of(out.as_bytes()).hex()
}

fn write_jcs(node: &mut Node<'_>, out: &mut String) {
    match node {
        Node::Number(literal) => out.push_str(&number::ecmascript(literal)),
        Node::Array(items) => {
            separated(out, ('[', ']'), items, |item, out| write_jcs(item, out));
        }
        Node::Object(fields) => {
            fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            separated(out, ('{', '}'), fields, |(key, value), out| {
                write_string(key, out);
                out.push(':');
                write_jcs(value, out);
            });
        }
        plain => plain.write_compact(out),
    }
}

fn write_python(node: &mut Node<'_>, out: &mut String) {
    match node {
        Node::Number(literal) => out.push_str(&number::python(literal)),
        Node::String(text) => write_ascii(text, out),
        Node::Array(items) => {
            out.push('[');
            for (index, item) in items.iter_mut().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_python(item, out);
            }
            out.push(']');
        }
        Node::Object(fields) => {
            // Rust compares strings by bytes of UTF-8, which is the order of code points.
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push('{');
            for (index, (key, value)) in fields.iter_mut().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_ascii(key, out);
                out.push_str(": ");
                write_python(value, out);
            }
            out.push('}');
        }
        plain => plain.write_compact(out),
    }
}

/// Writes a string with all but printable ASCII as `\uXXXX`, in surrogate pairs where needed.
fn write_ascii(text: &str, out: &mut String) {
    let mut escaped = String::with_capacity(text.len() + 2);
    write_string(text, &mut escaped);
    if escaped.bytes().all(|byte| byte.is_ascii() && byte != 0x7f) {
        return out.push_str(&escaped);
    }
    for c in escaped.chars() {
        // DEL is ASCII, but Python escapes it all the same.
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_four_vectors_of_the_skills_api_hash_as_recorded() {
        let vectors = [
            ("{}", "{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
            (
                r#"{"text": "Test text", "max_sentences": 1}"#,
                r#"{"max_sentences": 1, "text": "Test text"}"#,
                "2d25110422895c6b53e1baf3396c6687556333a55108c389165879603286275a",
            ),
            (
                r#"{"a": "héllo 😀\n/\"<", "b": [1, 2.0, 1e16, true, null]}"#,
                r#"{"a": "h\u00e9llo \ud83d\ude00\n/\"<", "b": [1, 2.0, 1e+16, true, null]}"#,
                "8edb69506ab3eb9c4726a2bb1f40d0c38b769446af2590c025b0aa1fbade0670",
            ),
            (
                r#"{"z": {"y": 1, "x": -0.0}, "Z": 1e-7, "n": 12345678901234567890}"#,
                r#"{"Z": 1e-07, "n": 12345678901234567890, "z": {"x": -0.0, "y": 1}}"#,
                "35e8aa6358c60c4c7703a1c68ee67b95b493e4902163f2d12856823046b5a15e",
            ),
        ];
        for (value, canonical, hash) in vectors {
            assert_eq!(python(&json(value)), canonical);
            assert_eq!(python_hash(&json(value)), hash, "{value}");
        }
    }

    #[test]
    fn jcs_sorts_by_utf16_and_escapes_little() {
        // Example of RFC 8785, section 3.2.3.
        let value = json(
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
                "1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",
                "\u00f6":"Latin Small Letter O With Diaeresis"}"#,
        );
        assert_eq!(
            jcs(&value),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small \
             Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning \
             Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
        );
    }

    #[test]
    fn large_integers_that_differ_have_different_forms() {
        assert_ne!(jcs(&json("9007199254740993")), jcs(&json("9007199254740992")));
    }
}
