//! The same binary as another user without any capability.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{BINARY, Ran, command, scratch};

const UNPRIVILEGED_ID: &str = "65534";

/// Runs a copy of the binary that all users can reach, as an unprivileged user if we are root.
fn rootless(dir: &Path, args: &[&str]) -> Ran {
    let copy = staged(dir);
    let mut unprivileged =
        command(if rustix::process::geteuid().is_root() { "setpriv" } else { "env" });
    if rustix::process::geteuid().is_root() {
        let ids = [
            "--reuid",
            UNPRIVILEGED_ID,
            "--regid",
            UNPRIVILEGED_ID,
            "--clear-groups",
            "--bounding-set",
            "-all",
        ];
        unprivileged.args(ids);
    }
    let output = unprivileged.arg(&copy).args(args).stdin(Stdio::null()).current_dir("/").output();
    output.expect("setpriv is installed").into()
}

/// A copy of the binary that all users can reach.
fn staged(dir: &Path) -> PathBuf {
    let copy = dir.join("ringfence");
    if !copy.exists() {
        fs::copy(BINARY, &copy).expect("a copy");
        for path in [dir, &copy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
    }
    copy
}

/// Where the subordinate ids of the tests begin, and how many there are.
const SUBORDINATE: (u32, u32) = (1_200_000, 65_536);

/// The binary as an unprivileged user with subordinate ids, which only this mount namespace has;
/// `None`, with a message, where that is impossible.
fn with_subordinate_ids(dir: &Path, args: &[&str]) -> Option<Command> {
    let there =
        ["/usr/bin/newuidmap", "/etc/subuid", "/etc/subgid"].map(|path| fs::exists(path).ok());
    if there != [Some(true); 3] || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: subordinate ids need root, `apt install uidmap` and /etc/subuid");
        return None;
    }
    let copy = staged(dir);
    let ranges = dir.join("ranges");
    let (first, count) = SUBORDINATE;
    fs::write(&ranges, format!("root:1:1\nnobody:{first}:{count}\n")).expect("a file");
    fs::set_permissions(&ranges, fs::Permissions::from_mode(0o644)).expect("a mode");
    let script = "mount --bind \"$0\" /etc/subuid && mount --bind \"$0\" /etc/subgid && \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \"$@\"";
    let mut command = command("unshare");
    command.args(["--mount", "sh", "-c", script]).args([&ranges, &copy]).args(args);
    command.stdin(Stdio::null()).current_dir("/");
    Some(command)
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
    // On a host that delegates cgroups to all users there is nothing to refuse.
    if ran.code != Some(0) {
        ran.failed(2, &["error: this host lacks", "--allow-missing cgroup"]);
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
    assert!(ran.text().contains("rootless"), "{}", ran.text());
    assert!(!ran.text().contains("kvm"), "{}", ran.text());
    // Each remedy once, however much it mends.
    let fixes: Vec<&str> = ran.text().lines().filter(|line| line.contains("fix: ")).collect();
    assert_eq!(fixes.iter().collect::<BTreeSet<_>>().len(), fixes.len(), "{fixes:?}");
    // As `run` does: on a host that delegates cgroups to all users there is nothing to refuse.
    let run = rootless(dir.path(), &["run", "--", "true"]);
    assert_eq!(ran.code, run.code, "{ran:?} {run:?}");
    if run.code != Some(0) {
        assert!(ran.text().contains("unless given --allow-missing cgroup"), "{}", ran.text());
    }
}

#[test]
fn attacks_are_held() {
    let dir = scratch();
    let only = ["selftest", "--hostile", "--only", "F24", "--only", "K01", "--json"];
    let ran = rootless(dir.path(), &only);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["failed"], 0);
}

/// Kernel counters by user were shared by all sandboxes of a user and the service.
#[test]
fn with_subordinate_ids_no_sandbox_has_the_uid_of_the_user() {
    let dir = scratch();
    let ran = |args: &[&str]| -> Option<Ran> {
        let all = [&["run", "--allow-missing", "cgroup"], args].concat();
        Some(with_subordinate_ids(dir.path(), &all)?.output().expect("unshare").into())
    };
    let Some(first) = ran(&["--json", "--", "id", "-u"]) else { return };
    let object = first.json();
    assert!(object["layers"]["own_uid"]["active"].is_string(), "{object}");
    assert_eq!(object["stdout"], "1000\n", "{object}");
    let code =
        "import os; open('made', 'w').write('x'); print(os.getuid(), os.stat('made').st_uid)";
    for tier in ["cold", "zygote", "warm"] {
        let args = ["--isolation", tier, "--file", "/etc/hostname:h", "-c", code];
        ran(&args).expect("as before").said(0, "1000 1000\n");
    }
    let ran = with_subordinate_ids(dir.path(), &["doctor"]).expect("as before").output();
    let ran: Ran = ran.expect("unshare").into();
    assert!(
        ran.text().contains("rootless") && ran.text().contains("65536 from 1200000"),
        "{ran:?}"
    );
}

/// From outside: each has a uid of the range, and none that of another.
#[test]
fn sandboxes_with_subordinate_ids_are_different_users_outside() {
    let dir = scratch();
    // No other program sleeps for just so long.
    let time = format!("{}", 80_000_000 + std::process::id());
    let args = ["run", "--allow-missing", "cgroup", "--", "sleep", &time];
    let start = || Some(with_subordinate_ids(dir.path(), &args)?.spawn().expect("unshare"));
    let (Some(mut one), Some(mut other)) = (start(), start()) else { return };
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut uids = sleepers(&time);
    while uids.len() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        uids = sleepers(&time);
    }
    for child in [&mut one, &mut other] {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (first, count) = SUBORDINATE;
    assert_eq!(uids.iter().collect::<BTreeSet<_>>().len(), 2, "{uids:?}");
    assert!(uids.iter().all(|uid| (first..first + count).contains(uid)), "{uids:?}");
}

/// The uids of all processes that sleep for so long.
fn sleepers(time: &str) -> Vec<u32> {
    let line = format!("sleep\0{time}\0");
    let uid = |entry: fs::DirEntry| -> Option<u32> {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let is_one = read("cmdline")? == line;
        let status = read("status")?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        is_one.then(|| uid.split_whitespace().next()?.parse().ok())?
    };
    fs::read_dir("/proc").expect("proc").flatten().filter_map(uid).collect()
}
