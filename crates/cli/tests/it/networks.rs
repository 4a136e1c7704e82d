//! Real programs that talk over the loopback network they asked for, and wait, fork and thread as they
//! do on any host. Their own servers and clients; nothing of the host's network is used.

use std::path::Path;

use ringfence_testkit::settings::skip;

use crate::support::{Ran, command, ringfence, scratch, write};

/// A run with a loopback network and room for interpreters that are large when they start.
fn with_loopback(arguments: &[&str]) -> Ran {
    let mut all = vec!["run", "--network", "loopback", "--memory", "1G", "--timeout", "60s"];
    all.extend(arguments);
    ringfence(&all)
}

/// Whether the host's Python, which sandboxes have, can import the module; records a skip if not.
fn has_module(test: &str, module: &str) -> bool {
    let import = format!("import {module}");
    let found = command("/usr/bin/python3").args(["-I", "-c", &import]).output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        skip(test, &format!("Python has no module `{module}`"));
    }
    has
}

fn has_program(test: &str, program: &str) -> bool {
    let has = Path::new("/usr/bin").join(program).exists();
    if !has {
        skip(test, &format!("`{program}` is not installed"));
    }
    has
}

#[test]
fn asyncio_serves_and_connects() {
    let ran = with_loopback(&["-c", include_str!("networks/asyncio_echo.py")]);
    ran.said(0, "LINE 0 LINE 1 LINE 2 LINE 3 LINE 4 LINE 5 LINE 6 LINE 7\n");
}

#[test]
fn without_a_network_there_is_no_server() {
    let code = include_str!("networks/web.py");
    ringfence(&["run", "-c", code]).failed(1, &["OSError", "Address family not supported"]);
}

#[test]
fn urllib_curl_and_git_fetch_from_a_server() {
    let has_all = ["git", "curl"]
        .iter()
        .all(|program| has_program("urllib_curl_and_git_fetch_from_a_server", program));
    if has_all {
        let ran = with_loopback(&["-c", include_str!("networks/web.py")]);
        ran.said(0, "urllib page\ncurl page\ngit first hello\n");
    }
}

#[test]
fn requests_gets_and_posts() {
    if has_module("requests_gets_and_posts", "requests") {
        let ran = with_loopback(&["-c", include_str!("networks/requests_session.py")]);
        ran.said(0, "200 got /page\n200 posted 3\n");
    }
}

#[test]
fn pytest_runs_fixtures_with_servers() {
    if !has_module("pytest_runs_fixtures_with_servers", "pytest") {
        return;
    }
    let dir = scratch();
    let tests = write(dir.path(), "test_server.py", include_str!("networks/test_server.py"));
    let ran = with_loopback(&["--file", &tests, "--", "python3", "-m", "pytest", "-q"]);
    assert_eq!(ran.code, Some(1), "one of the tests fails: {ran:?}");
    assert!(ran.text().contains("1 failed, 3 passed"), "{ran:?}");
}

#[test]
fn node_serves_fetches_and_gets() {
    if has_program("node_serves_fetches_and_gets", "node") {
        let ran = with_loopback(&["--lang", "js", "-c", include_str!("networks/fetch.js")]);
        ran.said(0, "fetch hello /a\nget hello /b\n");
    }
}

#[test]
fn java_compiles_threads_and_sends_http() {
    if has_program("java_compiles_threads_and_sends_http", "javac") {
        let dir = scratch();
        let source = write(dir.path(), "Main.java", include_str!("networks/Main.java"));
        let ran = with_loopback(&["--file", &source, "--", "java", "-Xmx256m", "Main.java"]);
        ran.said(0, "42 hello\n");
    }
}

#[test]
fn grpc_answers_a_call() {
    if has_module("grpc_answers_a_call", "grpc") {
        let ran = with_loopback(&["-c", include_str!("networks/grpc_echo.py")]);
        ran.said(0, "GRPC\n");
    }
}

/// `sendfile` and `splice` are refused; every copier falls back to reading and writing.
#[test]
fn copies_work_without_sendfile() {
    let code = include_str!("networks/copies.py");
    with_loopback(&["-c", code])
        .said(0, "shutil 300000\nsocket 300000\nasyncio 300000\ncp 300000\n");
}
