//! Where building a sandbox failed: one stage and one errno, small enough for any pipe.

use std::fmt;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The steps between a request and running code, in the order they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request could not be understood.
    Request,
    /// Opening the root directory the sandbox should see.
    OpenRoot,
    /// The mount namespace of a root, before the host's tree is let go.
    TemplateMounts,
    /// Letting go of the host's tree.
    PivotRoot,
    /// The first user namespace when we are not root.
    OuterUserNamespace,
    /// New namespaces and the process in them.
    Clone,
    /// Joining the cgroup.
    Cgroup,
    /// Being ended first when memory is short.
    OomScore,
    /// Own cgroup namespace.
    CgroupNamespace,
    /// A private network.
    NetworkNamespace,
    /// Loopback interface.
    Loopback,
    /// Workspace, `/tmp`, `/dev/shm`.
    Workspace,
    /// Private `/proc`.
    Proc,
    /// Private terminals.
    Terminals,
    /// Host name.
    Hostname,
    /// Resource limits.
    Rlimits,
    /// File rules, prepared while paths can still be opened.
    LandlockRules,
    /// Giving up the host's user and group.
    Ids,
    /// The inner user namespace.
    UserNamespace,
    /// Its id maps.
    IdMaps,
    /// Dropping every capability.
    Capabilities,
    /// `no_new_privs`.
    NoNewPrivs,
    /// Enforcing the file rules.
    Landlock,
    /// Enforcing the system call filter.
    Seccomp,
    /// Looking once more whether all of the above holds.
    Verify,
    /// Handing the finished sandbox over.
    HandOver,
    /// Starting the program's process.
    Fork,
    /// Its descriptors.
    Descriptors,
    /// The processors it sees.
    Affinity,
    /// Its working directory.
    WorkingDirectory,
    /// Replacing our code with the program's.
    Exec,
    /// The interpreter that others are forked from.
    Zygote,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::OpenRoot => "open root",
            Self::TemplateMounts => "template mounts",
            Self::PivotRoot => "pivot root",
            Self::OuterUserNamespace => "outer user namespace",
            Self::Clone => "clone",
            Self::Cgroup => "cgroup",
            Self::OomScore => "oom score",
            Self::CgroupNamespace => "cgroup namespace",
            Self::NetworkNamespace => "network namespace",
            Self::Loopback => "loopback",
            Self::Workspace => "workspace",
            Self::Proc => "proc",
            Self::Terminals => "terminals",
            Self::Hostname => "hostname",
            Self::Affinity => "affinity",
            Self::Rlimits => "rlimits",
            Self::LandlockRules => "landlock rules",
            Self::Ids => "ids",
            Self::UserNamespace => "user namespace",
            Self::IdMaps => "id maps",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no_new_privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Verify => "verify",
            Self::HandOver => "hand over",
            Self::Fork => "fork",
            Self::Descriptors => "descriptors",
            Self::WorkingDirectory => "working directory",
            Self::Exec => "exec",
            Self::Zygote => "zygote",
        })
    }
}

/// We failed to build the sandbox. A program that ran and failed is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("sandbox setup failed at {stage}: {}", Errno::from_raw_os_error(*errno))]
pub struct SetupError {
    /// The step that failed.
    pub stage: Stage,
    /// What the kernel said.
    pub errno: i32,
}

impl SetupError {
    /// The kernel's answer as a type.
    pub fn errno(&self) -> Errno {
        Errno::from_raw_os_error(self.errno)
    }
}

/// Names the stage of a system call's failure.
pub(crate) trait At<T> {
    fn at(self, stage: Stage) -> Result<T, SetupError>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: Stage) -> Result<T, SetupError> {
        self.map_err(|errno| SetupError { stage, errno: errno.raw_os_error() })
    }
}
