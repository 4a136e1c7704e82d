//! Prerequisites of the tests, and their installation.
//!
//! Each prerequisite is probed by its effect (a program that is found, a module that imports), not by
//! the package database: a hand-built node is as good as a packaged one. Only root installs; other
//! users are told the exact command.

use std::fs;

use anyhow::{Context, Result};

use crate::{host, shell};

/// Prerequisite of some tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Debian package that has it.
    pub package: &'static str,
    probe: Probe,
    /// Tests that need it.
    pub used_by: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Program(&'static str),
    File(&'static str),
    PythonModule(&'static str),
}

/// All prerequisites, with the reason for each.
pub const NEEDS: &[Need] = &[
    need("python3", Probe::File("/usr/bin/python3"), "Python runs and the zygote"),
    need("python3-venv", Probe::PythonModule("ensurepip"), "tools of others, from their registry"),
    need("python3-numpy", Probe::PythonModule("numpy"), "real programs under the filter"),
    need("python3-pandas", Probe::PythonModule("pandas"), "real programs under the filter"),
    need("nodejs", Probe::Program("node"), "JavaScript runs"),
    need("npm", Probe::Program("npm"), "the conformance suite of MCP"),
    need("git", Probe::Program("git"), "cloning inside a sandbox"),
    need("gcc", Probe::Program("gcc"), "compiling inside a sandbox"),
    need("binutils", Probe::Program("strip"), "the machine with the older kernel"),
    need("libc6-dev", Probe::File("/usr/include/stdio.h"), "compiling inside a sandbox"),
    need("strace", Probe::Program("strace"), "the order of lock-down, and fault injection"),
    need("bubblewrap", Probe::Program("bwrap"), "benchmarks beside a peer"),
    need("uidmap", Probe::Program("newuidmap"), "sandboxes with subordinate ids"),
    need("util-linux", Probe::Program("setpriv"), "the rootless suites"),
    need("busybox-static", Probe::Program("busybox"), "the machine with the older kernel"),
    need("chromium", Probe::File("/usr/bin/chromium"), "the console in a real browser"),
    need("default-jdk-headless", Probe::Program("javac"), "Kafka, and Java inside a sandbox"),
    need("python3-requests", Probe::PythonModule("requests"), "real programs under the filter"),
    need("python3-pytest", Probe::PythonModule("pytest"), "real programs under the filter"),
    need("python3-grpcio", Probe::PythonModule("grpc"), "real programs under the filter"),
    need("maven", Probe::Program("mvn"), "the jars of Kafka"),
    need("curl", Probe::Program("curl"), "the first page of the README"),
    need(
        "postgresql-15",
        Probe::File("/usr/lib/postgresql/15/bin/postgres"),
        "the store in PostgreSQL, with clusters of its own",
    ),
    need("kcat", Probe::Program("kcat"), "messages of another Kafka client"),
    need("prometheus", Probe::Program("promtool"), "alert rules and metrics"),
    need(
        "docker.io",
        Probe::File("/usr/sbin/dockerd"),
        "tools in containers, with an engine of their own",
    ),
    need("graphviz", Probe::Program("dot"), "diagrams"),
    need("debootstrap", Probe::Program("debootstrap"), "the image of containers"),
    need("redis-server", Probe::File("/usr/bin/redis-server"), "rate limits that servers share"),
    need(
        "qemu-system-x86",
        Probe::Program("qemu-system-x86_64"),
        "the machine with the older kernel",
    ),
];

/// Installs missing prerequisites where possible; returns those that are still missing.
pub fn provide() -> Result<Vec<Need>> {
    let missing = missing();
    if missing.is_empty() || !can_install() {
        return Ok(missing);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    println!("installing {}", packages.join(" "));
    // A failure here is not the end: what could not be installed is reported as missing below.
    if let Err(problem) = install(&packages) {
        println!("{problem:#}");
    }
    Ok(self::missing())
}

/// Command that installs the missing packages.
pub fn install_hint(missing: &[Need]) -> String {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    format!("apt-get update && apt-get install --no-install-recommends {}", packages.join(" "))
}

fn missing() -> Vec<Need> {
    NEEDS.iter().copied().filter(|need| !is_met(need.probe)).collect()
}

fn is_met(probe: Probe) -> bool {
    match probe {
        Probe::Program(name) => shell::find_program(name).is_some(),
        Probe::File(path) => fs::exists(path).unwrap_or(false),
        // The distribution's Python, not the first on PATH: a sandbox sees `/usr` alone.
        Probe::PythonModule(name) => shell::command("/usr/bin/python3")
            .args(["-I", "-c", &format!("import {name}")])
            .output()
            .is_ok_and(|output| output.status.success()),
    }
}

fn can_install() -> bool {
    host::is_root() && shell::find_program("apt-get").is_some()
}

fn install(packages: &[&str]) -> Result<()> {
    let apt = || {
        let mut command = shell::command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        command
    };
    shell::run(apt().arg("update")).context("refresh the package lists")?;
    shell::run(apt().args(["install", "-y", "--no-install-recommends"]).args(packages))
        .context("install packages")
}

const fn need(package: &'static str, probe: Probe, used_by: &'static str) -> Need {
    Need { package, probe, used_by }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_listed_once() {
        let mut names: Vec<&str> = NEEDS.iter().map(|need| need.package).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NEEDS.len());
    }

    #[test]
    fn probes_tell_presence_from_absence() {
        assert!(is_met(Probe::Program("sh")));
        assert!(!is_met(Probe::Program("no-such-program")));
        assert!(is_met(Probe::File("/bin/sh")));
        assert!(!is_met(Probe::File("/no/such/file")));
        assert!(!is_met(Probe::PythonModule("no_such_module")));
    }

    #[test]
    fn the_hint_is_a_command_one_can_paste() {
        assert_eq!(
            install_hint(&NEEDS[..1]),
            "apt-get update && apt-get install --no-install-recommends python3"
        );
    }
}
