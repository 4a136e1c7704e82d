//! Problems of a bundle, by file and line.

use std::fmt;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// File, as named in the bundle.
    pub file: String,
    /// Line, from one; `None` if the problem concerns the whole file.
    pub line: Option<u32>,
    /// Description and remedy.
    pub message: String,
}

impl Problem {
    /// Problem of a whole file.
    pub(super) fn in_file(file: &str, message: impl Into<String>) -> Self {
        Self { file: shown(file), line: None, message: message.into() }
    }

    /// Problem on one line.
    pub(super) fn at(file: &str, line: u32, message: impl Into<String>) -> Self {
        Self { file: shown(file), line: Some(line), message: message.into() }
    }

    /// Problem from a Rego engine error: an excerpt headed `--> file:line:column`, then `error: …`.
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

/// Invalid bundle, with all problems found, by file and line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy cannot be used{}", list(.0))]
pub struct InvalidBundle(pub Vec<Problem>);

impl InvalidBundle {
    /// `Ok` if there are no problems.
    pub(super) fn unless_none(mut problems: Vec<Problem>) -> Result<(), Self> {
        /// Problems listed; the rest shows on the next try.
        const MAX_PROBLEMS: usize = 100;
        problems.sort();
        problems.dedup();
        problems.truncate(MAX_PROBLEMS);
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// Quoted text of a file, without control characters and shortened.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
