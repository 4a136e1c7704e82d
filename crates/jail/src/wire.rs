//! What the processes of the sandbox say to each other.
//!
//! Service → spawner: make a template. Service → template: make a sandbox or a zygote. Service ⇄
//! init: what happens inside. Each pair has its own socket, so a sandbox can only speak as itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::SetupError;

/// To the spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSpawner {
    /// Directories to sweep when the service dies: the cgroups of this instance.
    Own(Vec<PathBuf>),
    /// Sweep nothing: the service lives on, or removes its cgroups itself. The socket closes next.
    Release,
    /// Make a template; its socket comes along and answers [`FromTemplate::Ready`].
    Template(RootSpec),
}

/// What the inside of a sandbox sees as its root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootSpec {
    /// Where it comes from.
    pub source: RootSource,
    /// Bind our own executable at `/.ringfence/attack`, for the attack suite.
    pub with_attack: bool,
    /// Provide what a zygote loads.
    pub with_zygote: bool,
}

/// Where a root comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RootSource {
    /// `/usr`, `/bin`, `/lib*` of the host and a curated `/etc`.
    HostView,
    /// A directory holding a root filesystem.
    Directory(PathBuf),
}

/// To a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Make a sandbox. Descriptors: the init's control socket, then what [`Join`] asks for.
    Spawn {
        /// The number to answer with.
        id: u64,
        /// How it is confined.
        confine: Confine,
        /// How it gets into its cgroup.
        join: Join,
    },
    /// Start an interpreter to fork from. Descriptors: its control socket, its standard input and
    /// error, then what [`Join`] asks for.
    Zygote {
        /// The number to answer with.
        id: u64,
        /// The uid and gid that its root is for the template.
        uid: u32,
        /// How many ids from that one on are its own: each child takes one of them.
        ids: u32,
        /// The program and its arguments.
        argv: Vec<Vec<u8>>,
        /// Its environment.
        env: Vec<Vec<u8>>,
        /// How it gets into its cgroup.
        join: Join,
    },
}

/// How a sandbox gets into its cgroup before it does anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// No cgroup at all: policy allowed that.
    None,
    /// Version 1: that many files follow, to be written by the child while it has one thread.
    Files(u32),
    /// Version 2: the cgroup's directory follows, to be born into.
    Born,
    /// The init says hello and waits until the service has put it into its cgroup.
    Service,
}

/// From a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromTemplate {
    /// It stands, and the host's tree is out of reach.
    Ready {
        /// Whether we build with the host's root rights or those of a user namespace.
        mode: Mode,
    },
    /// It does not stand.
    Failed(SetupError),
    /// A process was made; its pidfd comes along.
    Spawned {
        /// The number of the request.
        id: u64,
    },
    /// No process was made.
    Refused {
        /// The number of the request.
        id: u64,
        /// Why.
        error: SetupError,
    },
}

/// With whose rights sandboxes are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As root: every sandbox has its own uid.
    Root,
    /// In a user namespace of an unprivileged user.
    Rootless,
}

/// How one sandbox is confined, apart from its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confine {
    /// Uid and gid as the sandbox's maker numbers them, the template or the zygote; 0 is the
    /// maker's own, for where there are no others.
    pub uid: u32,
    /// Host name inside.
    pub hostname: String,
    /// Bytes of the workspace.
    pub disk: u64,
    /// Files of the workspace.
    pub inodes: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Memory per process where no cgroup bounds it.
    pub data: Option<u64>,
    /// Processes per user where no cgroup bounds it.
    pub processes: Option<u64>,
    /// CPU seconds per process.
    pub cpu_secs: Option<u64>,
    /// How many processors its programs see; 0 leaves them all.
    pub cpus: u32,
    /// Raise a loopback interface and allow IPv4 and IPv6 sockets.
    pub loopback: bool,
    /// Terminals at one time; without any there is no `/dev/pts`.
    pub terminals: u32,
    /// Walls that may be missing.
    pub may_miss: MayMiss,
}

/// Walls that policy lets a sandbox do without when the kernel lacks them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayMiss {
    /// Landlock.
    pub landlock: bool,
    /// The inner user namespace.
    pub user_namespace: bool,
}

/// Which walls stand, as observed by the child after locking itself in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Landlock ABI in force; 0 for none.
    pub landlock_abi: u32,
    /// Inner user namespace.
    pub user_namespace: bool,
    /// `/proc` shows processes only (`subset=pid`).
    pub proc_subset: bool,
}

/// To an init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToInit {
    /// It is in its cgroup now.
    Go,
    /// Run a program. Descriptors: standard input, output, error and further ones from 3 on;
    /// with a terminal none of the first three.
    Exec(Exec),
    /// Send a signal to a running program.
    Signal {
        /// The program.
        id: u32,
        /// The signal.
        signal: i32,
        /// How much of it.
        whom: Whom,
    },
}

/// How much of a program a signal is for. Every program leads a session and a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whom {
    /// The process that was started, alone.
    Process,
    /// Its process group: what a terminal would signal.
    Group,
    /// Its session: every process it started, in whichever group, that did not leave with `setsid`.
    Session,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// The number to answer with.
    pub id: u32,
    /// Program and arguments.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, `KEY=value`.
    pub env: Vec<Vec<u8>>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Content of `/box/<name>` to be written before the program starts.
    pub files: Vec<(String, Vec<u8>)>,
    /// Give it a terminal of this many rows and columns.
    pub terminal: Option<(u16, u16)>,
    /// One more descriptor comes along, the last: of the part of the cgroup that the program is to
    /// join before it starts.
    pub joins: bool,
}

/// From an init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromInit {
    /// Alive, not yet confined: please put me into my cgroup.
    Hello,
    /// Confined. The workspace's directory comes along, and the descriptor on which calls wait
    /// that the service answers.
    Ready(Standing),
    /// Not confined, and nothing was run.
    Failed(SetupError),
    /// The program runs; with a terminal, its other end comes along.
    Started {
        /// The program.
        id: u32,
        /// Its pid inside.
        pid: i32,
    },
    /// The program could not be started.
    NotStarted {
        /// The program.
        id: u32,
        /// Why.
        error: SetupError,
    },
    /// The program ended.
    Ended(Ended),
    /// The signal was sent, if the program was still there.
    Signalled {
        /// The program.
        id: u32,
    },
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The program.
    pub id: u32,
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// User CPU time in microseconds, of it and all ended children of the sandbox.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
    /// Bytes read from storage.
    pub io_read: u64,
    /// Bytes written to storage.
    pub io_written: u64,
    /// Processes that ended so far.
    pub processes: u32,
    /// The part of this program and the children it waited for.
    pub own: Spent,
}

/// What one program used, as told by `wait4`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// User CPU time in microseconds.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
    /// Bytes read from storage.
    pub io_read: u64,
    /// Bytes written to storage.
    pub io_written: u64,
}

/// To a zygote: make a child. Descriptors: the init's control socket, standard input, output,
/// error, result channel, job channel, then those by which the child joins its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRequest {
    /// How the child is confined.
    pub confine: Confine,
    /// How many descriptors it joins by. Whether it did is the service's to see: a child that did
    /// not is moved.
    pub join: u32,
    /// Its job waits already, so there is no time for it to prepare itself.
    pub at_once: bool,
}
