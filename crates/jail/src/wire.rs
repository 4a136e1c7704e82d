//! Messages between the service and the processes of sandboxes.
//!
//! Service → spawner: make a template. Service → template: make a sandbox or a zygote. Service ⇄
//! init: run programs inside. Each pair has its own socket, so a sandbox can only speak for itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::SetupError;

/// Messages to the spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSpawner {
    /// Directories to sweep when the service dies: the cgroups of this instance.
    Own(Vec<PathBuf>),
    /// Sweep nothing: the service goes on, or removes its cgroups itself. The socket closes next.
    Release,
    /// Make a template; its socket is attached and answers [`FromTemplate::Ready`].
    Template(RootSpec),
}

/// Root file system of a template.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootSpec {
    /// Source of the files.
    pub source: RootSource,
    /// Bind our own executable at `/.ringfence/attack`, for the attack suite.
    pub with_attack: bool,
    /// Provide what a zygote loads.
    pub with_zygote: bool,
    /// Directory that is mounted at `/.ringfence/packages`.
    pub packages: Option<PathBuf>,
}

/// Source of a root file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RootSource {
    /// `/usr`, `/bin`, `/lib*` of the host and a curated `/etc`.
    HostView,
    /// A directory holding a root filesystem.
    Directory(PathBuf),
}

/// Messages to a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Make a sandbox. Descriptors: the init's control socket, then those of [`Join`].
    Spawn {
        /// Number of the request.
        id: u64,
        /// Confinement of the sandbox.
        confine: Confine,
        /// Way into its cgroup.
        join: Join,
    },
    /// Start an interpreter to fork from. Descriptors: its control socket, its standard input and
    /// error, then those of [`Join`].
    Zygote {
        /// Number of the request.
        id: u64,
        /// Uid and gid of its root, in the template's numbering.
        uid: u32,
        /// Number of its ids, from that one on: each child takes one of them.
        ids: u32,
        /// The program and its arguments.
        argv: Vec<Vec<u8>>,
        /// Its environment.
        env: Vec<Vec<u8>>,
        /// Way into its cgroup.
        join: Join,
    },
}

/// Way of a sandbox into its cgroup, before it does anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// No cgroup, which policy allowed.
    None,
    /// Version 1: that many files follow, to be written by the child while it has one thread.
    Files(u32),
    /// Version 2: the cgroup's directory follows, to be cloned into.
    Born,
    /// The init sends [`FromInit::Hello`] and waits until the service has put it into its cgroup.
    Service,
}

/// Messages from a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromTemplate {
    /// It is ready, and the host's tree is unreachable.
    Ready {
        /// Rights with which it builds.
        mode: Mode,
    },
    /// It could not be made.
    Failed(SetupError),
    /// A process was made; its pidfd is attached.
    Spawned {
        /// Number of the request.
        id: u64,
    },
    /// No process was made.
    Refused {
        /// Number of the request.
        id: u64,
        /// Cause.
        error: SetupError,
    },
}

/// Rights with which sandboxes are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As root: every sandbox has its own uid.
    Root,
    /// In a user namespace of an unprivileged user.
    Rootless,
}

/// Confinement of one sandbox, apart from its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confine {
    /// Uid and gid in the numbering of the sandbox's parent, the template or the zygote; 0 is the
    /// parent's own, where there are no others.
    pub uid: u32,
    /// Host name inside.
    pub hostname: String,
    /// Bytes of the workspace.
    pub disk: u64,
    /// Files of the workspace.
    pub inodes: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Memory per process if no cgroup limits it.
    pub data: Option<u64>,
    /// Processes per user if no cgroup limits them.
    pub processes: Option<u64>,
    /// CPU seconds per process.
    pub cpu_secs: Option<u64>,
    /// Number of processors that its programs see; 0 for all.
    pub cpus: u32,
    /// Raise a loopback interface and allow IPv4 and IPv6 sockets.
    pub loopback: bool,
    /// Number of terminals; with zero there is no `/dev/pts`.
    pub terminals: u32,
    /// Sockets that the init listens on for the service.
    pub listeners: Vec<Listener>,
    /// Layers that may be missing.
    pub may_miss: MayMiss,
}

/// Socket inside a sandbox that the service accepts connections on: made in the sandbox's own
/// namespaces before any user code runs, and handed to the service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Listener {
    /// TCP on [`PROXY_PORT`] of the sandbox's own loopback interface.
    Proxy,
    /// Unix stream socket of this name in `/box`.
    Unix(String),
}

/// Port of [`Listener::Proxy`]. The network namespace is fresh, so the port is free.
pub const PROXY_PORT: u16 = 3128;

/// Layers that policy lets a sandbox run without if the kernel lacks them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayMiss {
    /// Landlock.
    pub landlock: bool,
    /// The inner user namespace.
    pub user_namespace: bool,
}

/// Active layers, as observed by the child after its lock-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveLayers {
    /// Landlock ABI in use; 0 for none.
    pub landlock_abi: u32,
    /// Inner user namespace.
    pub user_namespace: bool,
    /// `/proc` shows processes only (`subset=pid`).
    pub proc_subset: bool,
}

/// Messages to an init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToInit {
    /// The init is in its cgroup and may go on.
    Go,
    /// Run a program. Descriptors: standard input, output, error and further ones from 3 on; with a
    /// terminal the first three are left out.
    Exec(Exec),
    /// Send a signal to a running program.
    Signal {
        /// Number of the program.
        id: u32,
        /// The signal.
        signal: i32,
        /// Processes that get the signal.
        scope: SignalScope,
    },
}

/// Target of a signal. Every program leads a session and a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalScope {
    /// The process that was started, alone.
    Process,
    /// Its process group, as a terminal would signal.
    Group,
    /// Its session: every process it started, in any group, that did not leave with `setsid`.
    Session,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Number of the program.
    pub id: u32,
    /// Program and arguments.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, `KEY=value`.
    pub env: Vec<Vec<u8>>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Names and contents of files in `/box`, written before the program starts.
    pub files: Vec<(String, Vec<u8>)>,
    /// Rows and columns of its terminal, if it gets one.
    pub terminal: Option<(u16, u16)>,
    /// Whether one more descriptor is attached, the last: that of the part of the cgroup that the
    /// program joins before it starts.
    pub joins: bool,
}

/// Messages from an init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromInit {
    /// Started, not yet confined: waits to be put into its cgroup.
    Hello,
    /// Confined. The workspace's directory is attached, the descriptor of the calls that the service
    /// answers, and the sockets of [`Confine::listeners`] in order.
    Ready(ActiveLayers),
    /// Not confined; nothing was run.
    Failed(SetupError),
    /// The program runs; with a terminal, its other end is attached.
    Started {
        /// Number of the program.
        id: u32,
        /// Its pid inside.
        pid: i32,
    },
    /// The program could not be started.
    NotStarted {
        /// Number of the program.
        id: u32,
        /// Cause.
        error: SetupError,
    },
    /// The program ended.
    Ended(Ended),
    /// The signal was sent, if the program was still running.
    Signalled {
        /// Number of the program.
        id: u32,
    },
}

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Number of the program.
    pub id: u32,
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// User cpu time in microseconds, of it and all ended children of the sandbox.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
    /// Bytes read from storage.
    pub io_read: u64,
    /// Bytes written to storage.
    pub io_written: u64,
    /// Number of processes that ended so far.
    pub processes: u32,
    /// Share of this program and the children it waited for.
    pub own: Spent,
}

/// Usage of one program, from `wait4`.
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

/// Request to a zygote for a child. Descriptors: the init's control socket, standard input, output,
/// error, result channel, job channel, then those by which the child joins its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRequest {
    /// Confinement of the child.
    pub confine: Confine,
    /// Number of descriptors it joins by. The service checks the result: a child that did not join
    /// is moved.
    pub join: u32,
    /// Whether its job waits already, so that it does not warm up.
    pub at_once: bool,
}
