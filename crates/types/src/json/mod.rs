//! JSON that crosses a boundary: checked once, kept exactly.
//!
//! Arguments and results are kept as text, not as a tree of floating point numbers: an identifier
//! of twenty digits must reach a tool, a digest and a person as the same twenty digits.
//!
//! Invariant: a [`Json`] is well formed, at most [`DEPTH`] deep, without repeated keys and without
//! lone surrogates. Parsers disagree about the meaning of a repeated key, so policy could judge one
//! value while the tool gets another; here it is refused.

pub mod canonical;
mod mask;
mod node;
mod number;
mod parse;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

pub use self::parse::{Malformed, Problem, parses};
use crate::Digest;

/// Nesting limit.
pub const DEPTH: usize = 64;

/// JSON value as compact text, in a type that serializes without being parsed again.
#[derive(Clone)]
pub struct Json {
    text: Arc<RawValue>,
    /// Made when it is first asked for, and shared by clones that are made after that.
    canonical: OnceLock<Arc<Canonical>>,
}

/// The canonical form of a value and its digest.
#[derive(Debug)]
struct Canonical {
    /// None if it is the text of the value itself.
    text: Option<String>,
    digest: Digest,
}

impl Json {
    /// Checks and compacts untrusted text.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let node = parse::parse(text)?;
        let mut out = String::with_capacity(text.len());
        node.write_compact(&mut out);
        Ok(Self::checked(out))
    }

    fn checked(text: String) -> Self {
        Self::kept(RawValue::from_string(text).expect("the text of a checked value"))
    }

    fn kept(text: Box<RawValue>) -> Self {
        Self { text: text.into(), canonical: OnceLock::new() }
    }

    /// A part of this value, as a value of its own: what was checked is not checked again. `None` if
    /// `raw` is not within the text of this value.
    pub fn part(&self, raw: &RawValue) -> Option<Self> {
        let whole = self.as_str().as_bytes().as_ptr_range();
        whole.contains(&raw.get().as_ptr()).then(|| Self::kept(raw.to_owned()))
    }

    /// Serializes a trusted value and checks the result.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Self::parse(text.as_bytes()).map_err(ser::Error::custom)
    }

    /// Serializes trusted plain data: structures and lists without repeated keys, a few levels deep,
    /// without untrusted values inside. Needs no check.
    pub fn plain<T: Serialize>(value: &T) -> Self {
        let text = serde_json::value::to_raw_value(value);
        Self::kept(text.expect("plain data with text keys can be written"))
    }

    /// Text of a tree; `None` if it is too deep. A tree has no repeated keys.
    pub fn from_value(value: &serde_json::Value) -> Option<Self> {
        fits(value, DEPTH).then(|| Self::checked(value.to_string()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        static EMPTY: LazyLock<Json> = LazyLock::new(|| {
            let empty = Json::checked("{}".to_owned());
            // Clones share what is made before.
            empty.canonical_form();
            empty
        });
        EMPTY.clone()
    }

    /// `null`.
    pub fn null() -> Self {
        Self::checked("null".to_owned())
    }

    /// Text without insignificant whitespace.
    pub fn as_str(&self) -> &str {
        self.text.get()
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// The canonical form: see [`canonical::jcs`].
    pub fn canonical(&self) -> &str {
        self.canonical_form().text.as_deref().unwrap_or(self.as_str())
    }

    /// Digest of the canonical form.
    pub fn digest(&self) -> Digest {
        self.canonical_form().digest
    }

    fn canonical_form(&self) -> &Canonical {
        self.canonical.get_or_init(|| self.make_canonical(&mut self.parsed()))
    }

    fn make_canonical(&self, node: &mut node::Node<'_>) -> Arc<Canonical> {
        let text = canonical::written(node);
        let digest = Digest::of(text.as_bytes());
        let text = (text != self.as_str()).then_some(text);
        Arc::new(Canonical { text, digest })
    }

    /// The digest, and the hash of the skills API (see [`canonical::python_hash`]), by reading once.
    pub fn hashes(&self) -> (Digest, String) {
        let mut node = self.parsed();
        let hash = canonical::python_hash_of(&mut node);
        let canonical = self.canonical.get_or_init(|| self.make_canonical(&mut node));
        (canonical.digest, hash)
    }

    fn parsed(&self) -> node::Node<'_> {
        parse::parse(self.as_str().as_bytes()).expect("checked when it was made")
    }

    /// As a tree. Integers beyond 64 bits become floating point there.
    pub fn to_value(&self) -> serde_json::Value {
        parse::count();
        serde_json::from_str(self.as_str()).expect("checked when it was made")
    }

    /// Deserialized value.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

fn fits(value: &serde_json::Value, depth: usize) -> bool {
    depth > 0
        && match value {
            serde_json::Value::Array(items) => items.iter().all(|item| fits(item, depth - 1)),
            serde_json::Value::Object(fields) => fields.values().all(|item| fits(item, depth - 1)),
            _ => true,
        }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl Hash for Json {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get().as_bytes()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_digit_by_digit() {
        let text = r#"{"id":123456789012345678901234567890,"x":1.10}"#;
        let json = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(json.as_str(), text);
        let within = serde_json::to_string(&vec![json.clone()]).unwrap();
        assert_eq!(within, format!("[{text}]"));
        let back: Vec<Json> = serde_json::from_str(&within).unwrap();
        assert_eq!(back, [json]);
    }

    #[test]
    fn trees_that_are_too_deep_have_no_text() {
        let nested = |depth| (1..depth).fold(serde_json::json!(1), |v, _| serde_json::json!([v]));
        let deepest = Json::from_value(&nested(DEPTH)).unwrap();
        assert_eq!(Json::parse(deepest.as_str().as_bytes()), Ok(deepest));
        assert_eq!(Json::from_value(&nested(DEPTH + 1)), None);
    }

    #[test]
    fn the_canonical_form_is_made_once_and_shared_by_clones() {
        let json = Json::parse(br#"{"b": 1.0, "a": 2}"#).unwrap();
        let before = parses();
        let (digest, hash) = json.hashes();
        let clone = json.clone();
        assert_eq!(clone.canonical(), r#"{"a":2,"b":1}"#);
        assert_eq!((clone.digest(), Digest::of_json(&clone)), (digest, digest));
        assert_eq!(parses() - before, 1, "read once for all of these");
        assert_eq!(hash, canonical::python_hash(&json));
    }

    #[test]
    fn whitespace_goes_and_strings_stay() {
        let json = Json::parse(b" { \"a b\" : [ 1 , \"\\u00e9 \\n\" , null ] } ").unwrap();
        assert_eq!(json.as_str(), "{\"a b\":[1,\"é \\n\",null]}");
    }
}
