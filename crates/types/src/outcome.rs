//! Outcome of a program that ran. Every variant is a successful observation: a program that failed is
//! a result, not an error of the server.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The program ended by itself.
    Exited {
        /// Exit code.
        code: i32,
    },
    /// A signal ended the program, and no limit explains it.
    Signaled {
        /// Signal number.
        signal: i32,
    },
    /// The program met a limit and was stopped, or failed because of it.
    OverLimit(Hit),
    /// The run was cancelled on request.
    Cancelled,
}

/// Limit of [`crate::Limits`] that was met, or a shortage of the host.
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
    /// Resource of the whole host that no limit of a sandbox counts: the watchdog ended the
    /// program.
    Host,
}

/// Limit that was met, with evidence and a hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The limit.
    pub limit: Limit,
    /// Allowed amount, as people write it.
    pub allowed: String,
    /// Observations that show that the limit was met.
    pub evidence: Vec<Evidence>,
    /// Remedy, naming the flag.
    pub hint: String,
}

/// One observation: source and value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Source, for example `memory.oom_control oom_kill`.
    pub source: String,
    /// Value, for example `1`.
    pub value: String,
}

/// Resources used by a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall-clock time from hand-over of the program to its end.
    pub wall: Duration,
    /// User CPU time of the whole sandbox.
    pub cpu_user: Duration,
    /// System CPU time of the whole sandbox.
    pub cpu_system: Duration,
    /// Peak memory of the whole sandbox, if the host can tell.
    pub memory_peak: Option<Bytes>,
    /// Bytes read from storage.
    pub io_read: Bytes,
    /// Bytes written to storage.
    pub io_written: Bytes,
    /// Peak of processes and threads if the kernel counts it, else the number that ended.
    pub processes: u32,
}

/// Gap in a captured stream: the middle, between its kept head and tail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Offset at which the gap begins.
    pub at: u64,
    /// Exact number of bytes dropped there.
    pub dropped: u64,
}

/// Way in which a sandbox is started. Every sandbox is used by exactly one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Built on request; nothing was started ahead.
    Cold,
    /// Forked from an interpreter that had its libraries loaded.
    Zygote,
    /// Interpreter or container started ahead, waiting for its one program.
    Warm,
}

/// Container in which a program ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// Engine and its version.
    pub engine: String,
    /// Runtime of the engine.
    pub runtime: String,
    /// Name of the image, as the tool has it.
    pub image: String,
    /// Digest of the image.
    pub image_id: String,
    /// Id of the container.
    pub id: String,
}

/// Isolation layer of a sandbox.
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
    /// Separate uid on the host.
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

/// State of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// Active; with its kind where there are several (`abi 7`, `v2`).
    Active(String),
    /// Absent, with the reason.
    Absent(String),
}

/// Isolation layers around a run, active and absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layers(pub BTreeMap<Layer, LayerState>);

/// Layers that may be missing: the explicit permission to run without them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Absent(pub Vec<Layer>);
