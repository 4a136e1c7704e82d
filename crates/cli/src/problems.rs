//! Collected problems of a request, reported at once.

use std::ffi::OsString;

use crate::failure::Failure;

/// Problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<String>,
    hint: Option<String>,
}

impl Problems {
    pub(crate) fn add(&mut self, problem: impl Into<String>) {
        self.found.push(problem.into());
    }

    /// Sets the hint; the last one counts.
    pub(crate) fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }

    /// Fails if there are problems.
    pub(crate) fn none(self) -> Result<(), Failure> {
        if self.found.is_empty() {
            return Ok(());
        }
        let failure = Failure::misuse(self.found);
        Err(match self.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }

    /// The value, or `None` and another problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.add(problem)).ok()
    }

    /// The values that can be parsed; the others are problems.
    pub(crate) fn all<T>(
        &mut self,
        texts: &[OsString],
        parse: impl Fn(&OsString) -> Result<T, String>,
    ) -> Vec<T> {
        texts.iter().filter_map(|text| self.keep(parse(text))).collect()
    }

    /// Sets a value from a flag, if it was given.
    pub(crate) fn set<T, E: std::fmt::Display>(
        &mut self,
        value: &mut T,
        flag: &str,
        text: &Option<String>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) {
        let parsed = text.as_deref().map(|text| parse(text).map_err(|e| format!("{flag}: {e}")));
        if let Some(given) = parsed.and_then(|parsed| self.keep(parsed)) {
            *value = given;
        }
    }

    /// Sets an optional value from a flag, if it was given.
    pub(crate) fn set_some<T, E: std::fmt::Display>(
        &mut self,
        value: &mut Option<T>,
        flag: &str,
        text: &Option<String>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) {
        self.set(value, flag, text, |text| parse(text).map(Some));
    }
}
