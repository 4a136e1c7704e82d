//! Hosts that do not give a sandbox everything: refused with what helps, or run as allowed and named.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use ringfence_testkit::first_page;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{BINARY, Place, Ran, shown};

/// A directory that every user may use, with a copy of the binary.
fn staged() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let copy = dir.path().join("ringfence");
    fs::copy(BINARY, &copy).expect("a copy");
    for (path, mode) in [(dir.path(), 0o777), (&copy, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    dir
}

/// A program as an ordinary user without capabilities; as we are if we are one.
#[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
fn as_user(program: &str) -> Command {
    let mut command = match rustix::process::geteuid().is_root() {
        true => Command::new("setpriv"),
        false => Command::new("env"),
    };
    if rustix::process::geteuid().is_root() {
        let ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        command.args(ids).args(["--bounding-set", "-all"]);
    }
    command.arg(program).stdin(Stdio::null());
    command
}

fn in_place(mut command: Command, dir: &Path) -> Command {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display());
    command.env_clear().env("PATH", path).env("HOME", dir).current_dir(dir);
    command
}

/// Pastes the first page; its report helps to understand a failure.
fn paste_first_page(bash: Command, dir: &Path) {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = fs::read_to_string(readme).expect("the README");
    let count = first_page::steps(&page).len();
    assert!(count > 15, "the page has {count} commands");
    let mut bash = in_place(bash, dir);
    let ran: Ran = bash.args(["-c", &first_page::script(&page)]).output().expect("bash").into();
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let told = format!("first page: {count} commands, 0 failed");
    assert!(ran.stdout.ends_with(&format!("{told}\n")), "{}", ran.stdout);
}

#[test]
fn the_first_page_can_be_pasted() {
    let dir = staged();
    #[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
    let mut bash = Command::new("bash");
    bash.stdin(Stdio::null());
    paste_first_page(bash, dir.path());
}

#[test]
fn the_first_page_can_be_pasted_by_an_ordinary_user() {
    let dir = staged();
    paste_first_page(as_user("bash"), dir.path());
}

#[test]
fn a_host_without_control_groups_is_refused_or_named() {
    let dir = staged();
    let data = shown(&dir.path().join("data"));
    let args = ["serve", "--json", "--listen", "127.0.0.1:0", "--data", &data];
    let mut refused = in_place(as_user("ringfence"), dir.path());
    let refused = refused.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut probe = in_place(as_user("ringfence"), dir.path());
    let probed: Ran = probe.args(["run", "--", "true"]).output().expect("it runs").into();
    if probed.code == Some(0) {
        eprintln!("SKIPPED: this host delegates control groups to every user");
        return;
    }
    let ran: Ran = refused.output().expect("it ends").into();
    ran.failed(
        2,
        &["error: cannot make sandboxes on this host", "hint: ", "--allow-missing cgroup"],
    );
    // The same user with the allowance.
    let place = Place::in_dir(dir);
    let server = place.serve_command(
        as_user(&shown(&place.path("ringfence"))),
        &[("RINGFENCE_SANDBOX_ALLOW_MISSING", "cgroup")],
    );
    let missing = json!(["cgroup_memory", "cgroup_cpu", "cgroup_pids"]);
    assert_eq!(server.banner["missing_layers"], missing);
    let ready = server.ask("GET", "/readyz", None);
    assert_eq!((ready.status, &ready.json()["missing_layers"]), (200, &missing), "{ready:?}");
    let call = server.call("code_execute", &json!({"code": "print(6*7)"}));
    assert_eq!(call["result"]["stdout"], "42\n", "{call}");
    let id = call["id"].as_str().expect("an id");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None);
    assert!(receipt.body.contains("cgroup_memory"), "{receipt:?}");
    for answer in [call.to_string(), receipt.body] {
        assert!(answer.contains("no control group was delegated"), "{answer}");
        assert!(!answer.contains("/sys/fs"), "{answer}");
    }
    assert_eq!(server.stop(), Some(0));
}
