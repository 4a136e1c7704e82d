//! The same binary as another user without any capability.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use crate::support::{BINARY, Ran, command, scratch};

const NOBODY: &str = "65534";

/// Runs a copy of the binary that everybody can reach, as nobody if we are root.
fn rootless(dir: &Path, args: &[&str]) -> Ran {
    let copy = dir.join("ringfence");
    if !copy.exists() {
        fs::copy(BINARY, &copy).expect("a copy");
        for path in [dir, &copy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
    }
    let mut as_nobody =
        command(if rustix::process::geteuid().is_root() { "setpriv" } else { "env" });
    if rustix::process::geteuid().is_root() {
        let ids =
            ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set", "-all"];
        as_nobody.args(ids);
    }
    let output = as_nobody.arg(&copy).args(args).stdin(Stdio::null()).current_dir("/").output();
    output.expect("setpriv is installed").into()
}

/// A user who was delegated a cgroup needs no allowance, and has every limit.
fn run(dir: &Path, args: &[&str]) -> Ran {
    let mut all = vec!["run", "--allow-missing", "cgroup"];
    all.extend(args);
    rootless(dir, &all)
}

#[test]
fn programs_run_and_the_result_says_which_walls_stood() {
    let dir = scratch();
    run(dir.path(), &["-c", "print(6*7)"]).said(0, "42\n");
    run(dir.path(), &["--", "sh", "-c", "exit 7"]).said(7, "");
    let object = run(dir.path(), &["--json", "--", "id", "-u"]).json();
    assert!(object["layers"]["own_uid"]["absent"].is_string(), "{object}");
    assert!(object["layers"]["user_namespace"]["active"].is_string());
    assert!(object["layers"]["seccomp"]["active"].is_string());
}

#[test]
fn a_missing_cgroup_is_refused_unless_allowed() {
    let dir = scratch();
    let ran = rootless(dir.path(), &["run", "--", "true"]);
    // On a host that delegates cgroups to everybody there is nothing to refuse.
    if ran.code != Some(0) {
        ran.failed(2, &["error: this host cannot give the sandbox", "--allow-missing cgroup"]);
    }
}

#[test]
fn the_clock_the_workspace_and_the_output_are_limited_all_the_same() {
    let dir = scratch();
    run(dir.path(), &["--timeout", "300ms", "--", "sleep", "60"]).failed(124, &["wall limit"]);
    let code = "open('big', 'wb').write(b'x' * (64 << 20))";
    run(dir.path(), &["--disk", "1M", "-c", code]).failed(1, &["disk limit"]);
    run(dir.path(), &["--output-total", "1M", "--json", "--", "yes"]).failed(1, &[]);
}

#[test]
fn files_go_in_and_out() {
    let dir = scratch();
    let ran = run(dir.path(), &["--", "sh", "-c", "echo x > /workspace/a && cat a"]);
    ran.said(0, "x\n");
    let ran = run(dir.path(), &["--file", "/etc/hostname:h", "--", "test", "-s", "h"]);
    ran.said(0, "");
}

#[test]
fn the_doctor_tells_how_to_run_here() {
    let dir = scratch();
    let ran = rootless(dir.path(), &["doctor"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("rootless"), "{}", ran.text());
}

#[test]
fn attacks_are_held() {
    let dir = scratch();
    let only = ["selftest", "--hostile", "--only", "F24", "--only", "K01", "--json"];
    let ran = rootless(dir.path(), &only);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["failed"], 0);
}
