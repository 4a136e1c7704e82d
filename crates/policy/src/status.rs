//! How engines are, for those who run them.

use std::fmt;

use ringfence_types::Digest;
use serde::Serialize;

/// How one engine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Which one.
    pub engine: String,
    /// Of its rules, as far as known.
    pub revision: Digest,
    /// How it is.
    pub state: State,
    /// What is wrong, in words; it may quote rules, so it is for operators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// How an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It answers.
    Well,
    /// It answers by older rules, because the newer ones cannot be used.
    Stale,
    /// Some of what it said lately was no answer.
    Troubled,
    /// It cannot be reached, and is not asked until it is back.
    Down,
}

impl State {
    /// Its name on every wire.
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
    /// Nothing is wrong.
    pub fn well(engine: &str, revision: Digest) -> Self {
        Self { engine: engine.to_owned(), revision, state: State::Well, problems: Vec::new() }
    }
}
