//! What can be asked of a sandbox, and what comes back.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use ringfence_types::{Digest, Isolation, Json, Layer, Layers, Limits, Outcome, Truncated, Usage};
use serde::Serialize;

use crate::{
    Hint,
    files::{BoxPath, Workspace, put::DIRECTORY_TYPE},
    output::Output,
};

/// One program, one sandbox.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to run.
    pub program: Program,
    /// What it sees as its root.
    pub root: Root,
    /// What it may use.
    pub limits: Limits,
    /// Added to the base environment, or replacing parts of it.
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    pub cwd: String,
    /// Files in its workspace before it starts.
    pub files: Vec<InputFile>,
    /// What it can read.
    pub stdin: Stdin,
    /// How its sandbox comes about; `None` takes the fastest there is.
    pub isolation: Option<Isolation>,
    /// Walls it may run without if the host lacks them.
    pub may_miss: Vec<Layer>,
}

impl Request {
    /// A request for `program` with everything else at its default.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            root: Root::Host,
            limits: Limits::default(),
            env: BTreeMap::new(),
            cwd: "/workspace".to_owned(),
            files: Vec::new(),
            stdin: Stdin::Empty,
            isolation: None,
            may_miss: Vec::new(),
        }
    }
}

/// What a sandbox sees as its root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// The host's programs and libraries, read-only.
    Host,
    /// The same, with our own binary as `/.ringfence/attack`.
    HostWithAttack,
    /// A directory with a root filesystem. Must be absolute and free of symlinks.
    Directory(PathBuf),
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Source text in a language.
    Code {
        /// The language.
        language: Language,
        /// The text.
        code: String,
        /// Arguments, passed as they are.
        args: Vec<String>,
    },
    /// A function of source text, called with JSON and answering with JSON on the result channel.
    Call {
        /// Python or JavaScript.
        language: Language,
        /// The text.
        code: Arc<str>,
        /// The file that it is said to be, in the workspace unless the path is absolute; its stem is
        /// the module's name.
        file: String,
        /// The function's name; the usual names are tried without one.
        function: Option<String>,
        /// Keyword arguments: an object, handed over as the text it is. Python reads an integer of
        /// any length exactly; JavaScript has no other numbers than its own, so there an integer
        /// beyond 2^53 is read as the nearest one.
        args: Json,
        /// Names this code with its files, if an interpreter may execute the code once and be
        /// forked for each call. Whoever wrote the code can then do to all its calls what it can do
        /// to one: only for code that is trusted like the libraries it imports.
        ahead: Option<Digest>,
    },
    /// Any program of the root, its arguments passed as they are.
    Command(Vec<Vec<u8>>),
}

/// A language we know how to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// CPython.
    Python,
    /// Node.
    Javascript,
    /// Bash.
    Bash,
}

/// A file to put into the workspace, or an empty directory: see [`InputFile::directory`].
#[derive(Debug, Clone)]
pub struct InputFile {
    /// Where.
    pub path: BoxPath,
    /// Permission bits, with those of a directory's type if it is one.
    pub mode: u32,
    /// What.
    pub content: Arc<[u8]>,
}

impl InputFile {
    /// A directory, made with its parents; files may be put into it as well.
    pub fn directory(path: BoxPath, permissions: u32) -> Self {
        Self { path, mode: DIRECTORY_TYPE | permissions & 0o777, content: [].into() }
    }
}

/// What a program can read from its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// Whatever comes from our own standard input.
    Inherit,
}

/// How a run ended and everything it left.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What its own words suggest if it failed and no limit explains it. Guesses, never evidence.
    pub hints: Vec<Hint>,
    /// The exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it, whoever sent it.
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
    /// What it wrote to the result channel.
    pub result: Vec<u8>,
    /// More was written there than a result may have.
    pub result_truncated: Option<Truncated>,
    /// What it used.
    pub usage: Usage,
    /// The walls that stood.
    pub layers: Layers,
    /// How its sandbox came about.
    pub isolation: Isolation,
    /// Where the time went.
    pub timings: Timings,
    /// Its files, readable after its end.
    pub workspace: Option<Arc<Workspace>>,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// From the request to a sandbox that is locked in.
    pub setup: Duration,
    /// From there to the end of the program.
    pub run: Duration,
    /// From the request to this report.
    pub total: Duration,
}
