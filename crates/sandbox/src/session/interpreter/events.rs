//! What can happen during an execution.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened during an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The code runs.
    Started {
        /// In an interpreter that executed nothing before: earlier variables are gone.
        fresh: bool,
    },
    /// Bytes it wrote to its standard output.
    Stdout(Vec<u8>),
    /// Bytes it wrote to its standard error.
    Stderr(Vec<u8>),
    /// Bytes that were not kept.
    Gap {
        /// Of which stream.
        stream: Stream,
        /// How many.
        dropped: u64,
    },
    /// A value that was shown, or the one the code came to.
    Result(Rich),
    /// What it raised.
    Error(Raised),
    /// Values that were shown faster than anybody took them.
    Dropped {
        /// How many.
        events: u64,
    },
    /// The last event.
    Done {
        /// How it ended.
        status: Status,
        /// How many executions there were since the interpreter started or was reset.
        count: u64,
    },
}

/// One of the output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A value in as many representations as it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rich {
    /// Whether it is what the code came to.
    pub main: bool,
    /// By media type: text as a string, images in base64, JSON as itself.
    pub data: BTreeMap<String, Value>,
}

/// An error of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The name of its type.
    pub name: String,
    /// Its message.
    pub value: String,
    /// Where it was raised, in lines.
    pub traceback: Vec<String>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It came to its end.
    Ok,
    /// It raised an error.
    Error,
    /// It was interrupted.
    Interrupted,
    /// Its time was over.
    TimedOut,
    /// Its interpreter died.
    Died,
}
