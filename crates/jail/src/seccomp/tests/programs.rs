//! Real programs at work under the filter of a program.

use super::super::{Filter, Profile};
use crate::socket::Received;
use crate::syscall_responder::{self, Response};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn python_computes_with_numpy_and_pandas() {
    check("/usr/bin/python3", &["-c", include_str!("programs/numeric.py")], "10.0 6 120\n");
}

#[test]
fn python_uses_processes_threads_sockets_and_terminals() {
    check(
        "/usr/bin/python3",
        &["-c", include_str!("programs/system.py")],
        include_str!("programs/system.out"),
    );
}

#[test]
fn node_serves_spawns_and_threads() {
    check(
        "/usr/bin/node",
        &["-e", include_str!("programs/node.js")],
        "served: hello\nworker: 42\nchild: hi\n",
    );
}

#[test]
fn bash_runs_pipelines_jobs_and_redirections() {
    check("/bin/bash", &["-c", include_str!("programs/pipeline.sh")], "3\nb\nfrom a fifo\njob 7\n");
}

#[test]
fn git_makes_a_repository_and_a_commit() {
    check("/bin/bash", &["-ec", include_str!("programs/git.sh")], "first\nREADME\n");
}

#[test]
fn gcc_builds_and_runs_a_threaded_and_a_static_program() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(dir.path().join("threads.c"), include_str!("programs/threads.c"))
        .expect("source");
    check_in(dir.path(), "/usr/bin/gcc", &["-pthread", "-o", "dynamic", "threads.c"], "");
    check_in(dir.path(), "/usr/bin/gcc", &["-static", "-pthread", "-o", "static", "threads.c"], "");
    check_in(dir.path(), "./dynamic", &[], "sum 4000\n");
    check_in(dir.path(), "./static", &[], "sum 4000\n");
}

#[test]
fn a_program_sees_that_it_is_filtered_and_cannot_make_namespaces() {
    let status = ["-c", "grep ^Seccomp: /proc/self/status | tr -d '\\t'"];
    check("/bin/bash", &status, "Seccomp:2\n");
    let unshare = ["--user", "echo", "escaped"];
    let dir = tempfile::tempdir().expect("temp dir");
    let outside = run(dir.path(), "/usr/bin/unshare", &unshare, None);
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "escaped\n", "the control: {outside:?}");
    let filter = Filter::compile(Profile::Loopback);
    let inside = run(dir.path(), "/usr/bin/unshare", &unshare, Some(filter));
    assert!(!inside.status.success(), "{inside:?}");
    assert_eq!(String::from_utf8_lossy(&inside.stdout), "");
}

fn check(program: &str, arguments: &[&str], expected: &str) {
    let dir = tempfile::tempdir().expect("temp dir");
    check_in(dir.path(), program, arguments, expected);
}

fn check_in(dir: &Path, program: &str, arguments: &[&str], expected: &str) {
    let output = run(dir, program, arguments, Some(Filter::compile(Profile::Loopback)));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let errors = text(&output.stderr);
    assert_eq!(text(&output.stdout), expected, "{program}: {}\n{errors}", output.status);
    assert!(output.status.success(), "{program}: {}\n{errors}", output.status);
}

/// Starts the program under the filter, if there is one; all calls handed to the service proceed.
#[expect(clippy::disallowed_methods, reason = "the filter itself is under test, on whole programs")]
fn run(dir: &Path, program: &str, arguments: &[&str], filter: Option<Filter>) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", dir).env("TMPDIR", dir);
    let responder = filter.map(|filter| {
        let (ours, theirs) = crate::socket::pair().expect("a pair of sockets");
        let confine = move || -> rustix::io::Result<()> {
            rustix::thread::set_no_new_privs(true)?;
            let questions = filter.install_listening()?;
            let sent = crate::socket::send(theirs.as_fd(), &(), &[questions.as_fd()]);
            sent.map_err(|_| rustix::io::Errno::IO)
        };
        // SAFETY: the child has a copy of everything used here, and its libc lets a forked child
        // allocate.
        unsafe { command.pre_exec(move || Ok(confine()?)) };
        std::thread::spawn(move || respond(ours.as_fd()))
    });
    let output =
        command.output().unwrap_or_else(|error| panic!("{program} did not start: {error}"));
    drop(command);
    if let Some(thread) = responder {
        thread.join().expect("a responder that ends with the program");
    }
    output
}

/// Responds until no process is left under the filter.
fn respond(channel: BorrowedFd<'_>) {
    let received: Received<()> = crate::socket::receive(channel).expect("a descriptor");
    let questions = received.fds[0].as_fd();
    loop {
        let mut ready = [PollFd::new(&questions, PollFlags::IN)];
        poll(&mut ready, None).expect("poll");
        if ready[0].revents().contains(PollFlags::HUP) {
            return;
        }
        if let Some(question) = syscall_responder::receive(questions).expect("a question") {
            syscall_responder::respond(questions, &question, Response::Proceed).expect("an answer");
        }
    }
}
