//! Fields of a mapping, read one by one, with every problem under its path.

use std::{ops::RangeInclusive, str::FromStr};

use serde_json::{Map, Value};

use crate::text::shown;

/// Prefix of keys for authors' own use.
const OWN_PREFIX: &str = "x-";

/// Fields that have not been read yet, and the problems found so far.
#[derive(Debug)]
pub(super) struct Fields {
    at: String,
    left: Map<String, Value>,
    problems: Vec<String>,
}

impl Fields {
    pub(super) fn new(at: &str, left: Map<String, Value>) -> Self {
        Self { at: at.to_owned(), left, problems: Vec::new() }
    }

    /// Fields of a mapping within; give them back with [`Fields::merge`].
    pub(super) fn within(&self, name: &str, left: Map<String, Value>) -> Self {
        Self::new(&self.path(name), left)
    }

    pub(super) fn merge(&mut self, inner: Self) {
        self.problems.extend(inner.finish());
    }

    fn path(&self, name: &str) -> String {
        match self.at.as_str() {
            "" => name.to_owned(),
            at => format!("{at}.{name}"),
        }
    }

    pub(super) fn problem(&mut self, name: &str, words: &str) {
        let path = shown(&self.path(name));
        self.problems.push(format!("{path}: {words}"));
    }

    /// All problems; a key that was not read is one.
    pub(super) fn finish(mut self) -> Vec<String> {
        let left: Vec<_> =
            self.left.keys().filter(|key| !key.starts_with(OWN_PREFIX)).cloned().collect();
        for key in left {
            self.problem(&key, "is not a known key; keys of your own begin with `x-`");
        }
        self.problems
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    pub(super) fn ignore(&mut self, name: &str) {
        self.left.remove(name);
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name)
    }

    fn given(&mut self, name: &str) -> Option<Value> {
        self.take(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.given(name)? {
            Value::String(text) => Some(text),
            // YAML reads `version: 1.0` as a number.
            Value::Number(number) => Some(number.to_string()),
            _ => {
                self.problem(name, "must be text");
                None
            }
        }
    }

    pub(super) fn required_text(&mut self, name: &str) -> Option<String> {
        if !self.has(name) {
            self.problem(name, "is missing");
        }
        self.text(name)
    }

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, text: &str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        text.parse().map_err(|error: T::Err| self.problem(name, &error.to_string())).ok()
    }

    pub(super) fn truth(&mut self, name: &str) -> Option<bool> {
        match self.given(name)? {
            Value::Bool(value) => Some(value),
            // As Slovo's tables have it.
            Value::String(text) if text == "true" || text == "false" => Some(text == "true"),
            _ => {
                self.problem(name, "must be true or false");
                None
            }
        }
    }

    pub(super) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.given(name)?;
        let number = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let words = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.problem(name, &words);
        }
        number
    }

    pub(super) fn object(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.given(name)? {
            Value::Object(map) => Some(map),
            _ => {
                self.problem(name, "must be a mapping");
                None
            }
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Vec<Value> {
        match self.given(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.problem(name, "must be a list");
                Vec::new()
            }
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, item) in self.list(name).into_iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text),
                _ => self.problem(&format!("{name}[{index}]"), "must be text"),
            }
        }
        texts
    }
}
