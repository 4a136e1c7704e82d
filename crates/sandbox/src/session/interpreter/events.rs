//! Events of an execution.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The code runs.
    Started {
        /// Whether the interpreter executed nothing before: earlier variables are gone.
        fresh: bool,
    },
    /// Bytes it wrote to its standard output.
    Stdout(Vec<u8>),
    /// Bytes it wrote to its standard error.
    Stderr(Vec<u8>),
    /// Bytes that were not kept.
    Gap {
        /// Stream of the bytes.
        stream: Stream,
        /// Number of bytes.
        dropped: u64,
    },
    /// A displayed value, or the result of the code.
    Result(Rich),
    /// Error that the code raised.
    Error(Raised),
    /// Values that were displayed faster than they were read.
    Dropped {
        /// Number of values.
        events: u64,
    },
    /// The last event.
    Done {
        /// End of the execution.
        status: Status,
        /// Number of executions since the interpreter started or was reset.
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

/// A value in all its representations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rich {
    /// Whether it is the result of the code.
    pub main: bool,
    /// Representations by media type: text as a string, images in base64, JSON as itself.
    pub data: BTreeMap<String, Value>,
}

/// An error of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The name of its type.
    pub name: String,
    /// Its message.
    pub value: String,
    /// Lines of the traceback.
    pub traceback: Vec<String>,
}

/// End of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ended normally.
    Ok,
    /// It raised an error.
    Error,
    /// It was interrupted.
    Interrupted,
    /// Its time limit was reached.
    TimedOut,
    /// Its interpreter died.
    Died,
}
