//! What became of a program that did run. Every variant is a successful observation:
//! a program that failed is a result, not an error of ours.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The program ended by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended the program, and no limit of ours explains it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// The program met a limit and was stopped, or failed because of it.
    OverLimit(Hit),
    /// Somebody asked for the end.
    Cancelled,
}

/// Which of the [`crate::Limits`] was met, or that the host ran short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall-clock time.
    Wall,
    /// CPU time.
    CpuTime,
    /// Memory.
    Memory,
    /// Processes and threads.
    Processes,
    /// Workspace bytes.
    Disk,
    /// Workspace files.
    Inodes,
    /// Open descriptors.
    OpenFiles,
    /// Output bytes.
    Output,
    /// A resource of the whole host that no limit of a sandbox counts: the watchdog ended the
    /// program.
    Host,
}

/// A limit that was met, what shows it, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The limit.
    pub limit: Limit,
    /// What was allowed, as people write it.
    pub allowed: String,
    /// What shows that it was met.
    pub evidence: Vec<Evidence>,
    /// What to change, naming the flag.
    pub hint: String,
}

/// One observation: where it was read and what it said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// For example `memory.oom_control oom_kill`.
    pub source: String,
    /// For example `1`.
    pub value: String,
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// From hand-over of the program to its end.
    pub wall: Duration,
    /// User CPU time of the whole sandbox.
    pub cpu_user: Duration,
    /// System CPU time of the whole sandbox.
    pub cpu_system: Duration,
    /// Highest memory of the whole sandbox, if the host can tell.
    pub memory_peak: Option<Bytes>,
    /// Bytes read from storage.
    pub io_read: Bytes,
    /// Bytes written to storage.
    pub io_written: Bytes,
    /// Most processes and threads at one time if the kernel counts it, else those that ended.
    pub processes: u32,
}

/// What is missing from a captured stream: the middle, between its kept head and tail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Offset at which the gap begins.
    pub at: u64,
    /// Exact number of bytes dropped there.
    pub dropped: u64,
}

/// How a sandbox comes about. Every one is used by exactly one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Built when asked for; nothing was started ahead.
    Cold,
    /// Forked from an interpreter that had its libraries loaded.
    Zygote,
    /// An interpreter started ahead in its own sandbox, waiting for its one program.
    Warm,
}

/// One wall of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Own user namespace, unprivileged outside.
    UserNamespace,
    /// Own mounts; the host's tree is not among them.
    MountNamespace,
    /// Own process ids.
    PidNamespace,
    /// Own network: nothing in it, or a loopback interface of its own.
    NetworkNamespace,
    /// Own System V and POSIX message queues.
    IpcNamespace,
    /// Own host name.
    UtsNamespace,
    /// Own view of cgroups.
    CgroupNamespace,
    /// A uid of its own on the host.
    OwnUid,
    /// No capability in any set, and no way to get one.
    NoCapabilities,
    /// Default-deny system call filter.
    Seccomp,
    /// File access rules beside the mounts.
    Landlock,
    /// Memory, swap included.
    CgroupMemory,
    /// CPU share.
    CgroupCpu,
    /// Number of processes.
    CgroupPids,
    /// Private `/proc` that shows processes of the sandbox only.
    PrivateProc,
    /// POSIX resource limits.
    Rlimits,
}

/// Whether a layer stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It stands; the text tells its kind where there are several (`abi 7`, `v2`).
    Active(String),
    /// It does not, and why.
    Absent(String),
}

/// The walls that actually stood around a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layers(pub BTreeMap<Layer, LayerState>);

/// Layers that may be missing; policy's word for "run all the same".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Absent(pub Vec<Layer>);
