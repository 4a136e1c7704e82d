//! Why something is missing, and what would bring it.

use std::fmt;

/// A sentence for the operator, with the exact command or setting where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What is wrong.
    pub what: String,
    /// The command to run or the setting to change.
    pub fix: Option<String>,
}

impl Reason {
    pub(super) fn new(what: impl Into<String>) -> Reason {
        Reason { what: what.into(), fix: None }
    }

    pub(super) fn with_fix(what: impl Into<String>, fix: impl Into<String>) -> Reason {
        Reason { what: what.into(), fix: Some(fix.into()) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fix {
            Some(fix) => write!(f, "{}: {fix}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
