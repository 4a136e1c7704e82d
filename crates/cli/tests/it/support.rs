//! Starts the binary and collects what came of it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_ringfence");

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("the output is text")
    }

    /// The one object of `--json`.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.text().lines().count(), 1, "one line: {self:?}");
        serde_json::from_str(self.text()).expect("an object")
    }

    /// Checks code and output at once; standard error must be empty.
    pub(crate) fn said(&self, code: i32, stdout: &str) {
        let seen = (self.code, String::from_utf8_lossy(&self.stdout), self.stderr.as_str());
        assert_eq!(seen, (Some(code), stdout.into(), ""));
    }

    /// Checks the code and that every part is in standard error.
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in: {}", self.stderr);
        }
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Runs `ringfence` with nothing to read.
pub(crate) fn ringfence(args: &[&str]) -> Ran {
    let output = command(BINARY).args(args).stdin(Stdio::null()).output();
    output.expect("the binary starts").into()
}

/// Runs `ringfence` with these bytes to read; it need not read them.
pub(crate) fn fed(stdin: &[u8], args: &[&str]) -> Ran {
    let mut child = command(BINARY)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let bytes = stdin.to_vec();
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends with the reader");
    output.into()
}

/// `ringfence run --json` and its object.
pub(crate) fn json(args: &[&str]) -> (Option<i32>, Value) {
    let mut all = vec!["run", "--json"];
    all.extend(args);
    let ran = ringfence(&all);
    (ran.code, ran.json())
}

/// A directory that is gone with this value.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub(crate) fn write(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(&path, content).expect("a file");
    shown(path)
}

pub(crate) fn shown(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a temporary name is text")
}

/// Waits for a condition; the deadline is far beyond what it should take.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::yield_now();
    }
}

/// Processes with exactly this command line. Not those that only mention it: we do ourselves, and so
/// does a child of ours until it has become another program.
pub(crate) fn processes_of(line: &str) -> usize {
    command_lines().filter(|found| found == line.as_bytes()).count()
}

/// Processes of the host whose command line holds this text.
pub(crate) fn processes_with(text: &str) -> usize {
    command_lines()
        .filter(|line| line.windows(text.len()).any(|window| window == text.as_bytes()))
        .count()
}

fn command_lines() -> impl Iterator<Item = Vec<u8>> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
}
