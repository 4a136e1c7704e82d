//! Abilities of this host, as data for `ringfence doctor`.
//!
//! One file per topic; each returns [`Finding`]s and prints nothing. Where a file in `/proc` could
//! promise what the kernel then refuses (a security module, an outer container), the ability is
//! tried, in a child that exits at once.

mod capabilities;
mod control_groups;
mod crashes;
mod filters;
mod kernel;
mod machine;
mod namespaces;
mod probe;
mod runtimes;
mod user_namespace;

#[cfg(test)]
mod tests;

use crate::cgroup::{self, Version};
use crate::{landlock, subordinate};
use rustix::io::Errno;
use serde::Serialize;

/// Result of the examination.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The kernel's release string.
    pub kernel: String,
    /// User id of this process.
    pub user: u32,
    /// Effective capabilities, by name.
    pub capabilities: Vec<&'static str>,
    /// Mounted version of control groups.
    pub control_groups: Version,
    /// Newest Landlock ABI of this kernel; zero without Landlock.
    pub landlock_abi: u32,
    /// Privileges with which sandboxes can be built.
    pub mode: Mode,
    /// Whether every required layer is available.
    pub can_run: bool,
    /// Findings by topic, in the order of presentation.
    pub findings: Vec<Finding>,
}

/// Privileges with which sandboxes can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As root, with the right to administer the system.
    Root,
    /// As an ordinary user, inside user namespaces.
    Rootless,
    /// Sandboxes cannot be built.
    None,
}

/// One ability of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name: `namespace-net`, `cgroup-memory`.
    pub name: &'static str,
    /// Rating.
    pub status: Status,
    /// Observation.
    pub detail: String,
    /// Exact command or setting that would improve it.
    pub fix: Option<String>,
}

/// Rating of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Fully available.
    Ok,
    /// Available, but weaker than it could be.
    Degraded,
    /// Not available.
    Missing,
}

/// Names of findings that are required for a sandbox.
const REQUIRED: [&str; 7] = [
    "namespace-mount",
    "namespace-pid",
    "namespace-net",
    "namespace-ipc",
    "namespace-uts",
    "private-proc",
    "seccomp",
];

/// Examines everything; takes some milliseconds and leaves no trace.
pub fn examine() -> Report {
    let user = rustix::process::geteuid().as_raw();
    let capabilities = capabilities::effective();
    let control_groups = cgroup::Host::detect();
    let landlock_abi = landlock::abi();
    let findings = findings(user, &capabilities, &control_groups, landlock_abi);
    let mode = mode(user, &capabilities, &findings);
    Report {
        kernel: kernel::release(),
        user,
        mode,
        can_run: mode != Mode::None && REQUIRED.iter().all(|name| is_usable(&findings, name)),
        capabilities,
        control_groups: control_groups.version,
        landlock_abi: landlock_abi.unwrap_or(0),
        findings,
    }
}

/// Whether so many sandboxes, each with at most so many open files, fit into `fs.file-max`.
pub fn open_files(sandboxes: u64, each: u64) -> Finding {
    let text = std::fs::read_to_string("/proc/sys/fs/file-max").unwrap_or_default();
    machine::open_files_finding(text.trim().parse().ok(), sandboxes, each)
}

impl Report {
    /// Findings that are not fully available.
    pub fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.status != Status::Ok)
    }
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Finding {
        Finding { name, status: Status::Ok, detail: detail.into(), fix: None }
    }

    fn degraded(name: &'static str, detail: impl Into<String>, fix: Option<String>) -> Finding {
        Finding { name, status: Status::Degraded, detail: detail.into(), fix }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: Option<String>) -> Finding {
        Finding { name, status: Status::Missing, detail: detail.into(), fix }
    }
}

fn findings(
    user: u32,
    capabilities: &[&'static str],
    control_groups: &cgroup::Host,
    landlock_abi: Result<u32, Errno>,
) -> Vec<Finding> {
    let is_privileged = capabilities.contains(&capabilities::ADMIN);
    let mut findings = vec![kernel::finding(), capabilities::finding(user, capabilities)];
    findings.extend(user_namespace::findings(user, is_privileged));
    findings.push(subordinate_ids(user));
    findings.extend(namespaces::findings(is_privileged));
    findings.extend(control_groups::findings(control_groups));
    findings.extend([filters::seccomp(), filters::landlock(landlock_abi)]);
    findings.extend([machine::threads(), crashes::finding()]);
    findings.extend(runtimes::findings());
    findings
}

/// Whether each sandbox of an ordinary user can have a uid of its own.
fn subordinate_ids(user: u32) -> Finding {
    const NAME: &str = "subordinate-ids";
    if user == 0 {
        return Finding::ok(NAME, "not needed: root gives every sandbox a uid of its own");
    }
    match subordinate::find() {
        Ok(plan) => {
            let (first, count) = plan.uids;
            Finding::ok(NAME, format!("{count} from {first} on, one for every sandbox"))
        }
        Err(missing) => {
            let reason = missing.reason;
            let detail = format!("every sandbox has the uid of this user: {reason}");
            Finding::degraded(NAME, detail, missing.fix)
        }
    }
}

/// Mode of this process. Root without the right capabilities (a plain container) is an ordinary
/// user to the kernel.
fn mode(user: u32, capabilities: &[&'static str], findings: &[Finding]) -> Mode {
    let is_root = user == 0 && capabilities::missing(capabilities).is_empty();
    match (is_root, is_usable(findings, "user-namespaces")) {
        (true, _) => Mode::Root,
        (false, true) => Mode::Rootless,
        (false, false) => Mode::None,
    }
}

fn is_usable(findings: &[Finding], name: &str) -> bool {
    findings.iter().any(|finding| finding.name == name && finding.status != Status::Missing)
}
