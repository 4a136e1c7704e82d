//! Traces or disturbs the system calls of one process and its children.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
};

use tempfile::TempDir;

use super::settings;

/// A running tracer. Detaches when dropped.
pub(crate) struct Strace {
    child: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl Strace {
    /// Attaches to a process; returns once every further call of it is seen.
    pub(crate) fn attach(pid: u32, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let log = dir.path().join("log");
        let mut command = settings::program("strace");
        command.args(["-f", "-a1", "-s64", "-o"]).arg(&log).args(options);
        command.args(["-p", &pid.to_string()]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("strace is installed");
        let errors = child.stderr.take().expect("it was piped");
        let mut said = String::new();
        let mut lines = BufReader::new(errors).lines();
        while !said.contains("attached") {
            let line = lines.next().unwrap_or_else(|| panic!("strace gave up: {said}"));
            said.push_str(&line.expect("text"));
        }
        // Later output must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, log, _dir: dir }
    }

    /// Detaches and returns what was seen, as pid and call, in the order of the machine.
    pub(crate) fn finish(mut self) -> Vec<(u32, String)> {
        self.detach();
        let log = fs::read_to_string(&self.log).expect("strace writes a log");
        log.lines().filter_map(call).collect()
    }

    /// Killing it detaches. With a softer signal it would wait for a dying init, which itself waits
    /// for children that only the tracer can release; every line is written as it comes, so none is
    /// lost.
    fn detach(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        self.detach();
    }
}

/// `1234  openat(…) = 3` as its two parts.
fn call(line: &str) -> Option<(u32, String)> {
    let (pid, call) = line.split_once(' ')?;
    Some((pid.parse().ok()?, call.trim_start().to_owned()))
}

/// The name of a call that was begun on this line, if it was.
pub(crate) fn name(call: &str) -> Option<&str> {
    let (name, _) = call.split_once('(')?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}
