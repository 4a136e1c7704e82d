//! Readable bounds on arguments: a list of conditions, all of which must hold.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Json;

/// Conditions in one predicate.
pub const MAX_CONDITIONS: usize = 32;
/// Length limit of a path.
const MAX_PATH_BYTES: usize = 512;

/// Conditions on arguments. An empty list permits any arguments, and is shown as that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Condition>")]
pub struct Predicate(
    /// Kept by the constructor: at most [`MAX_CONDITIONS`].
    Vec<Condition>,
);

/// Condition on one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Condition {
    /// JSON Pointer of the argument (RFC 6901).
    path: String,
    test: Test,
}

/// Comparison with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Equal value.
    Equals(Json),
    /// One of these values.
    OneOf(Vec<Json>),
    /// Text with this prefix.
    Prefix(String),
    /// Text with this suffix.
    Suffix(String),
    /// Number that is not larger.
    AtMost(Json),
    /// Number that is not smaller.
    AtLeast(Json),
}

/// Condition as written: a path and exactly one test.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    equals: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suffix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<Json>,
}

/// Invalid predicate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPredicate {
    /// Too many conditions.
    #[error("more than {MAX_CONDITIONS} conditions")]
    TooMany,
    /// Invalid JSON Pointer.
    #[error("`path` is a JSON Pointer of at most {MAX_PATH_BYTES} bytes, such as `/to`")]
    Path,
    /// No test, or several.
    #[error("a condition has one of `equals`, `one_of`, `prefix`, `suffix`, `at_most`, `at_least`")]
    Tests,
    /// Bound that is not a number.
    #[error("`at_most` and `at_least` take a number")]
    Number,
    /// Test that everything or nothing passes.
    #[error("`prefix`, `suffix` and `one_of` are not empty")]
    Empty,
}

impl Predicate {
    /// Predicate of these conditions.
    pub fn new(conditions: Vec<Condition>) -> Result<Self, InvalidPredicate> {
        if conditions.len() > MAX_CONDITIONS {
            return Err(InvalidPredicate::TooMany);
        }
        Ok(Self(conditions))
    }

    /// Whether all conditions hold. A missing argument fulfils none.
    pub fn holds(&self, args: &Json) -> bool {
        let args = args.to_value();
        self.0.iter().all(|condition| condition.holds(&args))
    }
}

impl TryFrom<Vec<Condition>> for Predicate {
    type Error = InvalidPredicate;

    fn try_from(conditions: Vec<Condition>) -> Result<Self, InvalidPredicate> {
        Self::new(conditions)
    }
}

impl Condition {
    /// Condition on the argument at `path`.
    pub fn new(path: String, test: Test) -> Result<Self, InvalidPredicate> {
        if !is_pointer(&path) {
            return Err(InvalidPredicate::Path);
        }
        test.check()?;
        Ok(Self { path, test })
    }

    fn holds(&self, args: &Value) -> bool {
        args.pointer(&self.path).is_some_and(|value| self.test.passes(value))
    }
}

/// Whether a path is a JSON Pointer (RFC 6901): empty, or parts that each begin with a slash; `~` only as
/// `~0` and `~1`.
fn is_pointer(path: &str) -> bool {
    let escapes = path.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    path.len() <= MAX_PATH_BYTES && escapes && (path.is_empty() || path.starts_with('/'))
}

impl Test {
    fn check(&self) -> Result<(), InvalidPredicate> {
        match self {
            Test::AtMost(bound) | Test::AtLeast(bound) if !bound.to_value().is_number() => {
                Err(InvalidPredicate::Number)
            }
            Test::Prefix(text) | Test::Suffix(text) if text.is_empty() => {
                Err(InvalidPredicate::Empty)
            }
            Test::OneOf(values) if values.is_empty() => Err(InvalidPredicate::Empty),
            _ => Ok(()),
        }
    }

    fn passes(&self, value: &Value) -> bool {
        let is = |wanted: &Json| Json::from_value(value).is_some_and(|value| same(&value, wanted));
        match self {
            Test::Equals(wanted) => is(wanted),
            Test::OneOf(wanted) => wanted.iter().any(is),
            Test::Prefix(prefix) => value.as_str().is_some_and(|text| text.starts_with(prefix)),
            Test::Suffix(suffix) => value.as_str().is_some_and(|text| text.ends_with(suffix)),
            Test::AtMost(bound) => compared(value, bound).is_some_and(std::cmp::Ordering::is_le),
            Test::AtLeast(bound) => compared(value, bound).is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

fn same(value: &Json, wanted: &Json) -> bool {
    crate::Digest::of_json(value) == crate::Digest::of_json(wanted)
}

/// Comparison of numbers: integers exactly, others as doubles.
fn compared(value: &Value, bound: &Json) -> Option<std::cmp::Ordering> {
    let bound = bound.to_value();
    let whole = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    match (whole(value), whole(&bound)) {
        (Some(value), Some(bound)) => Some(value.cmp(&bound)),
        _ => value.as_number()?.as_f64()?.partial_cmp(&bound.as_number()?.as_f64()?),
    }
}

impl TryFrom<Fields> for Condition {
    type Error = InvalidPredicate;

    fn try_from(fields: Fields) -> Result<Self, InvalidPredicate> {
        let tests = [
            fields.equals.map(Test::Equals),
            fields.one_of.map(Test::OneOf),
            fields.prefix.map(Test::Prefix),
            fields.suffix.map(Test::Suffix),
            fields.at_most.map(Test::AtMost),
            fields.at_least.map(Test::AtLeast),
        ];
        let mut tests = tests.into_iter().flatten();
        match (tests.next(), tests.next()) {
            (Some(test), None) => Self::new(fields.path, test),
            _ => Err(InvalidPredicate::Tests),
        }
    }
}

impl From<Condition> for Fields {
    fn from(Condition { path, test }: Condition) -> Self {
        let mut fields = Fields { path, ..Fields::default() };
        match test {
            Test::Equals(value) => fields.equals = Some(value),
            Test::OneOf(values) => fields.one_of = Some(values),
            Test::Prefix(text) => fields.prefix = Some(text),
            Test::Suffix(text) => fields.suffix = Some(text),
            Test::AtMost(bound) => fields.at_most = Some(bound),
            Test::AtLeast(bound) => fields.at_least = Some(bound),
        }
        fields
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("any arguments");
        }
        for (index, condition) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " and " })?;
            write!(f, "{condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the whole" } else { &self.path };
        match &self.test {
            Test::Equals(value) => write!(f, "{path} is {value}"),
            Test::OneOf(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "{path} is one of {}", values.join(", "))
            }
            Test::Prefix(text) => write!(f, "{path} begins with {text:?}"),
            Test::Suffix(text) => write!(f, "{path} ends with {text:?}"),
            Test::AtMost(bound) => write!(f, "{path} is at most {bound}"),
            Test::AtLeast(bound) => write!(f, "{path} is at least {bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(predicate: &str, args: &str, expected: bool) {
        let predicate: Predicate = serde_json::from_str(predicate).unwrap();
        let args = Json::parse(args.as_bytes()).unwrap();
        assert_eq!(predicate.holds(&args), expected, "{predicate} of {args}");
    }

    #[test]
    fn all_conditions_must_hold() {
        let to = r#"[{"path":"/to","suffix":"@example.com"},{"path":"/n","at_most":3}]"#;
        check(to, r#"{"to":"a@example.com","n":3,"body":"x"}"#, true);
        check(to, r#"{"to":"a@example.com","n":4}"#, false);
        check(to, r#"{"to":"a@example.com.evil.org","n":1}"#, false);
        check(to, r#"{"to":["a@example.com"],"n":1}"#, false);
        check(to, r#"{"n":1}"#, false);
        check("[]", r#"{"anything":1}"#, true);
    }

    #[test]
    fn values_are_compared_as_json_not_as_text() {
        check(r#"[{"path":"/a","equals":{"x":1,"y":2}}]"#, r#"{"a":{"y":2,"x":1}}"#, true);
        check(r#"[{"path":"/a","equals":1}]"#, r#"{"a":"1"}"#, false);
        check(r#"[{"path":"/a","one_of":["b",null]}]"#, r#"{"a":null}"#, true);
        check(r#"[{"path":"/a","one_of":["b",null]}]"#, "{}", false);
        let near = r#"{"a":9007199254740993}"#;
        check(r#"[{"path":"/a","at_most":9007199254740992}]"#, near, false);
        check(r#"[{"path":"/a","at_least":1.5}]"#, r#"{"a":2}"#, true);
        check(r#"[{"path":"/a","at_least":1.5}]"#, r#"{"a":"2"}"#, false);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            r#"[{"path":"/a"}]"#,
            r#"[{"path":"/a","prefix":"x","suffix":"y"}]"#,
            r#"[{"path":"/a","prefix":""}]"#,
            r#"[{"path":"a","equals":1}]"#,
            r#"[{"path":"/~2","equals":1}]"#,
            r#"[{"path":"/a","at_most":"9"}]"#,
            r#"[{"path":"/a","equals":1,"or":2}]"#,
            r#"[{"path":"/a","one_of":[]}]"#,
        ] {
            assert!(serde_json::from_str::<Predicate>(text).is_err(), "{text}");
        }
        let many = vec![Condition::new("/a".into(), Test::Prefix("x".into())).unwrap(); 33];
        assert_eq!(Predicate::new(many), Err(InvalidPredicate::TooMany));
    }

    #[test]
    fn it_reads_back_and_is_shown_in_words() {
        let text = r#"[{"path":"/to","suffix":"@example.com"},{"path":"/n","one_of":[1,2]}]"#;
        let predicate: Predicate = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&predicate).unwrap(), text);
        assert_eq!(predicate.to_string(), r#"/to ends with "@example.com" and /n is one of 1, 2"#);
        assert_eq!(Predicate::new(Vec::new()).unwrap().to_string(), "any arguments");
    }
}
