//! Reading an object field by field, naming every fault at once.

use std::collections::BTreeMap;

use ringfence_types::Json;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    problem::{Fault, Problem, pointer},
    problem_codes,
};

/// The fields of an object that have not been read yet, and what was wrong with the others.
#[derive(Debug)]
pub struct Fields<'a> {
    left: BTreeMap<String, &'a RawValue>,
    /// The value that the object is, or is a part of.
    whole: &'a Json,
    /// Where the object is within the body.
    base: String,
    faults: Vec<Fault>,
}

/// Up to here every whole number is a floating point number.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl<'a> Fields<'a> {
    /// The fields of a body, which must be an object.
    pub fn of(body: &'a Json) -> Result<Self, Problem> {
        Self::within("", body, body.as_str()).map_err(|fault| invalid(vec![fault]))
    }

    /// The same of a part of a body, by the pointer to it.
    pub fn at(base: &str, part: &'a Json) -> Result<Self, Problem> {
        Self::within(base, part, part.as_str()).map_err(|fault| invalid(vec![fault]))
    }

    fn within(base: &str, whole: &'a Json, text: &'a str) -> Result<Self, Fault> {
        let object = || Fault { pointer: base.to_owned(), detail: "must be an object".to_owned() };
        let left = serde_json::from_str(text).map_err(|_| object())?;
        Ok(Self { left, whole, base: base.to_owned(), faults: Vec::new() })
    }

    /// A field that must be there. `None` means that a fault was noted.
    pub fn required<T: Deserialize<'a>>(&mut self, name: &str) -> Option<T> {
        if !self.left.contains_key(name) {
            self.fault(name, "is required");
        }
        self.read(name)
    }

    /// A field that may be missing or null.
    pub fn optional<T: Deserialize<'a>>(&mut self, name: &str) -> Option<T> {
        if self.left.get(name).is_some_and(|raw| raw.get() == "null") {
            self.left.remove(name);
        }
        self.read(name)
    }

    /// A whole number that may be missing or null. `1.0` is one: JSON has one kind of number, and so
    /// has JSON Schema.
    pub fn whole(&mut self, name: &str) -> Option<u64> {
        let raw = self.left.get(name).map(|raw| raw.get())?;
        let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..=EXACT).contains(number);
        match raw.parse::<f64>().ok().filter(is_whole) {
            // Digits alone are read as digits: beyond 2^53 the other way would lose some.
            Some(number) if raw.parse::<u64>().is_err() => {
                self.left.remove(name);
                Some(number as u64)
            }
            _ => self.optional(name),
        }
    }

    /// A field that must be there and be an object, kept exactly.
    pub fn required_object(&mut self, name: &str) -> Option<Json> {
        let raw = self.required(name)?;
        self.object(name, raw)
    }

    /// A field that must be an object if it is there.
    pub fn optional_object(&mut self, name: &str) -> Option<Json> {
        let raw = self.optional(name)?;
        self.object(name, raw)
    }

    /// The body was checked, so a part of it is not checked again.
    fn object(&mut self, name: &str, raw: &RawValue) -> Option<Json> {
        let object = self.whole.part(raw).filter(Json::is_object);
        if object.is_none() {
            self.fault(name, "must be an object");
        }
        object
    }

    /// An object within, read by `read`.
    pub fn inner<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'a>) -> T) -> Option<T> {
        let raw = self.left.remove(name).filter(|raw| raw.get() != "null")?;
        match Fields::within(&pointer(&self.base, name), self.whole, raw.get()) {
            Ok(mut inner) => {
                let value = read(&mut inner);
                inner.refuse_the_rest();
                self.faults.append(&mut inner.faults);
                Some(value)
            }
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// Notes that a field is wrong.
    pub fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.faults.push(Fault { pointer: pointer(&self.base, name), detail: detail.into() });
    }

    /// Whether a field is there and has not been read.
    pub fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    /// Ignores unknown fields, for bodies whose clients have always sent them.
    pub fn ignore_the_rest(&mut self) {
        self.left.clear();
    }

    /// The value that was read, unless something was wrong. Unknown fields are wrong.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, Problem> {
        self.refuse_the_rest();
        match value {
            Some(value) if self.faults.is_empty() => Ok(value),
            _ => Err(invalid(self.faults)),
        }
    }

    fn read<T: Deserialize<'a>>(&mut self, name: &str) -> Option<T> {
        let raw = self.left.remove(name)?;
        match serde_json::from_str(raw.get()) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, without_place(&error));
                None
            }
        }
    }

    fn refuse_the_rest(&mut self) {
        // A body can hold a great many unknown names; a few of them are enough to find the mistake.
        let unknown: Vec<String> = std::mem::take(&mut self.left).into_keys().take(50).collect();
        for name in unknown {
            let name: String = name.chars().take(100).collect();
            self.fault(&name, "is not known here");
        }
    }
}

/// A body with these faults.
pub fn invalid(faults: Vec<Fault>) -> Problem {
    let detail = match faults.as_slice() {
        [one] => format!("`{}` {}", one.pointer, one.detail),
        several => format!("{} fields are not valid", several.len()),
    };
    Problem::new(&problem_codes::BODY_INVALID, detail).faults(faults)
}

/// The place is the pointer's business; line and column of a value alone would mislead.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use ringfence_types::ToolName;

    use super::*;

    #[test]
    fn every_fault_is_named_at_once() {
        let body = Json::parse(br#"{"tool": 5, "args": [], "a/b": 1, "in": {"x": true, "y": 2}}"#)
            .unwrap();
        let mut fields = Fields::of(&body).unwrap();
        let tool: Option<ToolName> = fields.required("tool");
        let args = fields.required_object("args");
        let name: Option<String> = fields.required("name");
        fields.inner("in", |inner| inner.optional::<u32>("x"));
        let refused = fields.finish(tool.zip(args).zip(name)).unwrap_err();
        let faults: Vec<_> = refused.all_faults().iter().map(|f| f.pointer.as_str()).collect();
        assert_eq!(faults, ["/tool", "/args", "/name", "/in/x", "/in/y", "/a~1b"]);
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        let read = |text: &str| {
            let body = Json::parse(format!("{{\"n\": {text}}}").as_bytes()).unwrap();
            let mut fields = Fields::of(&body).unwrap();
            let number = fields.whole("n");
            fields.finish(Some(())).map(|()| number).ok()
        };
        for (text, expected) in [
            ("7", Some(Some(7))),
            ("7.0", Some(Some(7))),
            ("7e2", Some(Some(700))),
            ("18446744073709551615", Some(Some(u64::MAX))),
            ("null", Some(None)),
            ("7.5", None),
            ("-7", None),
            ("-7.0", None),
            ("1e300", None),
            ("18446744073709551616", None),
            ("\"7\"", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        for text in ["[]", "1", "null", "\"x\""] {
            let body = Json::parse(text.as_bytes()).unwrap();
            assert!(Fields::of(&body).is_err(), "{text}");
        }
    }
}
