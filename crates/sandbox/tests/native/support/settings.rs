//! Environment variables that these tests read, and processes that they start themselves.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told, or to tell")]

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Path of the binary under test; set by `cargo xtask test`.
const BINARY: &str = "RINGFENCE_BIN";
/// Number of sandboxes in the leak test.
const LEAK_RUNS: &str = "RINGFENCE_LEAK_RUNS";
/// Number of times a whole service is killed.
const SERVICE_KILLS: &str = "RINGFENCE_SERVICE_KILLS";
/// Number of cases of each fuzz test.
const FUZZ_CASES: &str = "RINGFENCE_FUZZ_CASES";

pub(crate) fn leak_runs() -> usize {
    number(LEAK_RUNS, 600)
}

pub(crate) fn service_kills() -> usize {
    number(SERVICE_KILLS, 50)
}

pub(crate) fn fuzz_cases() -> u32 {
    number(FUZZ_CASES, 48) as u32
}

fn number(name: &str, otherwise: usize) -> usize {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: `{text}`")),
        Err(_) => otherwise,
    }
}

/// The value of a variable that one of these tests set for another process of itself.
pub(crate) fn told(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Any program, for a test to start.
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    Command::new(path)
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    if let Some(path) = env::var_os(BINARY) {
        return PathBuf::from(path);
    }
    let this = env::current_exe().expect("a running test has a path");
    // `target/debug/deps/native-0123` beside `target/debug/ringfence`.
    let built = this.ancestors().nth(2).map(|dir| dir.join("ringfence"));
    match built.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("no binary to test: run `cargo build -p ringfence`, or set {BINARY}"),
    }
}

/// A copy of the binary for one test alone that every user can run.
pub(crate) fn staged_binary() -> (TempDir, PathBuf) {
    stage(&binary(), "ringfence")
}

/// A copy of this test binary.
pub(crate) fn staged_test() -> (TempDir, PathBuf) {
    stage(&env::current_exe().expect("a running test has a path"), "native")
}

fn stage(from: &Path, name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("ringfence-native-").tempdir().expect("temp dir");
    let copy = dir.path().join(name);
    // Another process copies: a descriptor for writing that a concurrent fork inherits from us
    // would make the copy busy.
    let copied = program("cp").arg(from).arg(&copy).status().expect("cp is installed");
    assert!(copied.success(), "copy {}", from.display());
    for path in [dir.path(), copy.as_path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    }
    (dir, copy)
}
