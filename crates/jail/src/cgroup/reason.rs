//! Reason why something is missing, with a fix.

use std::fmt;
use std::path::{Path, PathBuf};

/// Sentence for the operator, with the exact command or setting if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Problem, without paths of this host: clients see it on results.
    pub what: String,
    /// Directory of the problem.
    pub place: Option<PathBuf>,
    /// Command to run or setting to change.
    pub fix: Option<String>,
}

impl Reason {
    /// A reason without a place or a fix.
    pub fn new(what: impl Into<String>) -> Reason {
        Reason { what: what.into(), place: None, fix: None }
    }

    pub(super) fn with_fix(what: impl Into<String>, fix: impl Into<String>) -> Reason {
        Reason { fix: Some(fix.into()), ..Reason::new(what) }
    }

    pub(super) fn at(self, place: &Path) -> Reason {
        Reason { place: Some(place.to_owned()), ..self }
    }

    /// Problem and directory, for the operator of this host.
    pub fn detail(&self) -> String {
        match &self.place {
            Some(place) => format!("{} ({})", self.what, place.display()),
            None => self.what.clone(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail())?;
        self.fix.iter().try_for_each(|fix| write!(f, ": {fix}"))
    }
}
