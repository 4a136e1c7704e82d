//! Finding of one attack, as it travels from the attack's process to the evaluation.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Result of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The isolation held.
    Held,
    /// The attack reached what it wanted.
    Escaped,
    /// The attack could not be carried out, so it shows nothing.
    Error,
    /// This user or kernel cannot do it even without isolation; from controls only.
    NotApplicable,
    /// The attack was not held, but that is not promised without a layer which this host lacks;
    /// from the suite only.
    NotPromised,
}

/// A verdict with the observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Observation in a few words.
    pub observed: String,
}

pub(crate) fn held(observed: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Held, observed: observed.into() }
}

pub(crate) fn escaped(observed: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Escaped, observed: observed.into() }
}

pub(crate) fn broken(observed: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Error, observed: observed.into() }
}

pub(crate) fn not_applicable(observed: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::NotApplicable, observed: observed.into() }
}

/// Whether the error is a refusal of the call itself, by filter or by permission, rather than an
/// answer of the code behind it.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    // NODEV: a file system this kernel does not have.
    let refusals = [Errno::PERM, Errno::NOSYS, Errno::ACCESS, Errno::ROFS, Errno::NODEV];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// The line that an attack prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

/// Report of a case in a stream; floods may precede it, so the last one counts.
pub(crate) fn find_report(id: &str, stream: &[u8]) -> Option<Finding> {
    stream
        .rsplit(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Report>(line).ok())
        .find(|report| report.id == id)
        .map(|report| report.finding)
}
