//! Environment variables that these tests read, and processes that they start themselves.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told, or to tell")]

use std::{env, path::PathBuf, process::Command};

/// Path of the binary under test; set by `cargo xtask test`.
const BINARY: &str = "RINGFENCE_BIN";

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    if let Some(path) = env::var_os(BINARY) {
        return PathBuf::from(path);
    }
    let this = env::current_exe().expect("a running test has a path");
    // `target/debug/deps/docker-0123` beside `target/debug/ringfence`.
    let built = this.ancestors().nth(2).map(|dir| dir.join("ringfence"));
    match built.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("no binary to test: run `cargo build -p ringfence`, or set {BINARY}"),
    }
}

/// Role given to this process by a test that started it again.
pub(crate) fn role() -> Option<String> {
    env::var("RINGFENCE_TEST_DOCKER").ok()
}

/// This test binary again, to run one test with a role.
pub(crate) fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a running test has a path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("RINGFENCE_TEST_DOCKER", role);
    command
}
