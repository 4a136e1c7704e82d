//! Requests to run a program, and their reports.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use ringfence_types::{
    ContainerRecord, Digest, Isolation, Json, Layer, Layers, Limits, Outcome, Truncated, Usage,
};
use serde::Serialize;

use crate::{
    Hint, Listener,
    files::{BoxPath, Workspace, put::DIRECTORY_TYPE},
    output::Output,
};

/// Request to run one program in one sandbox.
#[derive(Debug, Clone)]
pub struct Request {
    /// Program to run.
    pub program: Program,
    /// Root file system.
    pub root: Root,
    /// Limits of the program.
    pub limits: Limits,
    /// Variables added to the base environment; they replace variables of the same name.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: String,
    /// Files of the program, in its workspace before it starts.
    pub files: Vec<InputFile>,
    /// Files for this run alone, put there after those of the program. An interpreter that loads the
    /// program for several runs never sees them.
    pub inputs: Vec<InputFile>,
    /// Standard input.
    pub stdin: Stdin,
    /// Tier of the sandbox; `None` takes the fastest one available.
    pub isolation: Option<Isolation>,
    /// Layers that may be missing on the host.
    pub may_miss: Vec<Layer>,
    /// Container runtime that the program must run under, such as `runsc`; any without one.
    pub runtime: Option<String>,
    /// Sockets inside that the caller accepts connections on: see [`crate::Running::listeners`].
    pub listeners: Vec<Listener>,
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
            inputs: Vec::new(),
            stdin: Stdin::Empty,
            isolation: None,
            may_miss: Vec::new(),
            runtime: None,
            listeners: Vec::new(),
        }
    }
}

/// Root file system of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// The host's programs and libraries, read-only.
    Host,
    /// Like [`Root::Host`], with our own binary as `/.ringfence/attack`.
    HostWithAttack,
    /// A directory with a root filesystem. Must be absolute and free of symlinks.
    Directory(PathBuf),
    /// Like [`Root::Host`], with a directory of Python packages that interpreters import from. Must be
    /// absolute and free of symlinks.
    HostWithPackages(PathBuf),
    /// An image of a container engine, by name. Only containers have it.
    Image(String),
}

/// Program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Source text in a language.
    Code {
        /// The language.
        language: Language,
        /// Source text.
        code: String,
        /// Arguments, passed as they are.
        args: Vec<String>,
    },
    /// A function of source text, called with JSON and answering with JSON on the result channel.
    Call {
        /// Python or JavaScript.
        language: Language,
        /// Source text.
        code: Arc<str>,
        /// File name of the code, in the workspace unless the path is absolute; its stem is the
        /// module's name.
        file: String,
        /// Name of the function; without one the usual names are tried.
        function: Option<String>,
        /// Keyword arguments: an object, passed on as text. Python reads an integer of any length
        /// exactly; JavaScript reads an integer beyond 2^53 as the nearest number it has.
        args: Json,
        /// Digest of this code with its files, if an interpreter may execute the code once and be
        /// forked for each call. The author of the code can then affect all its calls: only for
        /// code that is trusted like the libraries it imports.
        ahead: Option<Digest>,
    },
    /// Any program of the root, its arguments passed as they are.
    Command(Vec<Vec<u8>>),
}

/// A supported language.
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

/// A file for the workspace, or an empty directory: see [`InputFile::directory`].
#[derive(Debug, Clone)]
pub struct InputFile {
    /// Path in the workspace.
    pub path: BoxPath,
    /// Permission bits, with the type bits of a directory if it is one.
    pub mode: u32,
    /// Content.
    pub content: Arc<[u8]>,
}

impl InputFile {
    /// A directory, made with its parents; files may be put into it as well.
    pub fn directory(path: BoxPath, permissions: u32) -> Self {
        Self { path, mode: DIRECTORY_TYPE | permissions & 0o777, content: [].into() }
    }
}

/// Standard input of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// The standard input of this process.
    Inherit,
}

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    /// End of the program.
    pub outcome: Outcome,
    /// Guesses from its error text if it failed and no limit explains it; never evidence.
    pub hints: Vec<Hint>,
    /// Exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended it, from any sender.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Content of the result channel.
    pub result: Vec<u8>,
    /// Bytes beyond the limit of a result, if any.
    pub result_truncated: Option<Truncated>,
    /// Resources used.
    pub usage: Usage,
    /// Layers that were active.
    pub layers: Layers,
    /// Tier of its sandbox.
    pub isolation: Isolation,
    /// Durations of the phases.
    pub timings: Timings,
    /// Files of the sandbox, readable after its end.
    pub workspace: Option<Arc<Workspace>>,
    /// Its container, if it ran in one.
    pub container: Option<Box<ContainerRecord>>,
}

/// Durations of the phases of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// Time from the request to the end of the lock-down.
    pub setup: Duration,
    /// Time from there to the end of the program.
    pub run: Duration,
    /// Time from the request to this report.
    pub total: Duration,
}
