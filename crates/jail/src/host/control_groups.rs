//! Control groups: one finding per controller, as [`crate::cgroup`] sees it.

use super::Finding;
use crate::cgroup::{Available, Host, Version};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    let version = match host.version {
        Version::Absent => Finding::missing(
            "cgroups",
            "no control group file system is mounted",
            Some("mount -t cgroup2 none /sys/fs/cgroup".to_owned()),
        ),
        Version::V1 => Finding::ok("cgroups", "version 1"),
        Version::V2 => Finding::ok("cgroups", "version 2"),
        Version::Hybrid => Finding::ok("cgroups", "hybrid: version 1 has the controllers"),
    };
    let controllers = [
        finding_for("cgroup-memory", &host.memory),
        finding_for("cgroup-cpu", &host.cpu),
        finding_for("cgroup-cpuacct", &host.cpuacct),
        finding_for("cgroup-pids", &host.pids),
        finding_for("cgroup-freezer", &host.freezer),
    ];
    [version].into_iter().chain(controllers).collect()
}

fn finding_for(name: &'static str, available: &Available) -> Finding {
    match available {
        Ok(dir) => Finding::ok(name, format!("writable at {}", dir.display())),
        Err(reason) => Finding::missing(name, reason.detail(), reason.fix.clone()),
    }
}
