//! What is wrong with a bundle, file by file and line by line.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, as named in the bundle.
    pub file: String,
    /// Counted from one; none if it is about the whole file.
    pub line: Option<u32>,
    /// What, and what to do about it.
    pub message: String,
}

impl Problem {
    /// About a whole file.
    pub(super) fn in_file(file: &str, message: impl Into<String>) -> Self {
        Self { file: shown(file), line: None, message: message.into() }
    }

    /// About one line.
    pub(super) fn at(file: &str, line: u32, message: impl Into<String>) -> Self {
        Self { file: shown(file), line: Some(line), message: message.into() }
    }

    /// What the Rego engine says: an excerpt headed `--> file:line:column`, then `error: …`.
    pub(super) fn from_rego(file: &str, error: &dyn fmt::Display) -> Self {
        let text = error.to_string();
        let place = text.lines().find_map(|line| line.strip_prefix("--> "));
        let mut parts = place.unwrap_or_default().rsplitn(3, ':').skip(1);
        let line = parts.next().and_then(|line| line.parse().ok());
        let named = parts.next().unwrap_or(file);
        let message = text.rsplit("error: ").next().unwrap_or_default();
        let message = message.lines().find(|line| !line.is_empty()).unwrap_or_default();
        Self { file: shown(named), line, message: shown(message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A bundle that cannot be used. All problems that were found, in order of place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy cannot be used{}", list(.0))]
pub struct InvalidBundle(pub Vec<Problem>);

impl InvalidBundle {
    /// `Ok` if nothing is wrong.
    pub(super) fn unless_none(mut problems: Vec<Problem>) -> Result<(), Self> {
        /// Enough to work on; the rest shows on the next try.
        const SHOWN: usize = 100;
        problems.sort();
        problems.dedup();
        problems.truncate(SHOWN);
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// Names and messages quote files: without control characters, and not all of it.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
