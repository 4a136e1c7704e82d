//! Status of engines, for operators.

use std::fmt;

use ringfence_types::Digest;
use serde::Serialize;

/// Status of one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Name of the engine.
    pub engine: String,
    /// Revision of its rules, as far as known.
    pub revision: Digest,
    /// State of the engine.
    pub state: State,
    /// Problems in words, for operators; they may quote rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// State of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The engine answers.
    Well,
    /// The engine answers by older rules, because the newer ones are invalid.
    Stale,
    /// Some recent answers were malformed or failed.
    Troubled,
    /// The engine is unreachable and is not asked until it recovers.
    Down,
}

impl State {
    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            State::Well => "well",
            State::Stale => "stale",
            State::Troubled => "troubled",
            State::Down => "down",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Status {
    /// Status without problems.
    pub fn well(engine: &str, revision: Digest) -> Self {
        Self { engine: engine.to_owned(), revision, state: State::Well, problems: Vec::new() }
    }
}
