//! Why something is missing, and what would bring it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A sentence for the operator, with the exact command or setting where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What is wrong, without paths of this host: clients see it on results.
    pub what: String,
    /// The directory it was found at.
    pub place: Option<PathBuf>,
    /// The command to run or the setting to change.
    pub fix: Option<String>,
}

impl Reason {
    /// A reason that nothing more is known of.
    pub fn new(what: impl Into<String>) -> Reason {
        Reason { what: what.into(), place: None, fix: None }
    }

    pub(super) fn with_fix(what: impl Into<String>, fix: impl Into<String>) -> Reason {
        Reason { fix: Some(fix.into()), ..Reason::new(what) }
    }

    pub(super) fn at(self, place: &Path) -> Reason {
        Reason { place: Some(place.to_owned()), ..self }
    }

    /// What is wrong and where, for the operator of this host.
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
