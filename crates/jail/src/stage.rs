//! Failed stage of building a sandbox: one stage and one errno, small enough for any pipe.

use std::fmt;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Steps between a request and running code, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request could not be understood.
    Request,
    /// Opening the root directory of the sandbox.
    OpenRoot,
    /// Mounts of a root, before the host's tree is unmounted.
    TemplateMounts,
    /// Unmounting the host's tree.
    PivotRoot,
    /// The first user namespace when we are not root.
    OuterUserNamespace,
    /// New namespaces and the process in them.
    Clone,
    /// Joining the cgroup.
    Cgroup,
    /// Setting `oom_score_adj`, so that it is killed first when memory runs out.
    OomScore,
    /// Cgroup namespace of its own.
    CgroupNamespace,
    /// Private network namespace.
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
    /// Changing to the sandbox's user and group.
    Ids,
    /// The inner user namespace.
    UserNamespace,
    /// Id maps of the inner user namespace.
    IdMaps,
    /// Sockets inside that the service accepts connections on.
    Listeners,
    /// Dropping every capability.
    Capabilities,
    /// `no_new_privs`.
    NoNewPrivs,
    /// Enforcing the file rules.
    Landlock,
    /// Enforcing the system call filter.
    Seccomp,
    /// Verification of all of the above.
    Verify,
    /// Sending the finished sandbox to the service.
    HandOver,
    /// Starting the program's process.
    Fork,
    /// Descriptors of the program.
    Descriptors,
    /// Restricting the processors of the program.
    Affinity,
    /// Working directory of the program.
    WorkingDirectory,
    /// Executing the program.
    Exec,
    /// Starting the interpreter that others are forked from.
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
            Self::Listeners => "listeners",
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

/// Failure to build the sandbox. A program that ran and failed is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("sandbox setup failed at {stage}: {}", Errno::from_raw_os_error(*errno))]
pub struct SetupError {
    /// Failed step.
    pub stage: Stage,
    /// Errno of the kernel.
    pub errno: i32,
}

impl SetupError {
    /// Errno as a type.
    pub fn errno(&self) -> Errno {
        Errno::from_raw_os_error(self.errno)
    }
}

/// Adds the stage to the error of a system call.
pub(crate) trait At<T> {
    fn at(self, stage: Stage) -> Result<T, SetupError>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: Stage) -> Result<T, SetupError> {
        self.map_err(|errno| SetupError { stage, errno: errno.raw_os_error() })
    }
}
