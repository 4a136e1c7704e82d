//! Tests on the real kernel with any version of control groups: no test body names one.
//!
//! The prerequisites are root (or a delegated group) and the memory, cpu, pids and freezer
//! controllers. A machine without them fails here and says why.

mod lifecycle;
mod limits;
mod parts;
mod sweeping;
mod unified_alone;

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const ROOMY: GroupLimits = GroupLimits { memory: 256 * MIB, cpu_millis: 1000, pids: 64 };

/// A base that is removed with everything in it at the end of the test, also on failure.
struct Scratch(Option<Base>);

impl Scratch {
    fn new() -> Scratch {
        let base = Base::create(&Host::detect()).expect("a base below our own group");
        let limiting = base.absent().iter().filter(|absent| absent.controller != "io");
        assert_eq!(limiting.collect::<Vec<_>>(), Vec::<&Absent>::new());
        Scratch(Some(base))
    }

    fn group(&self, limits: GroupLimits) -> Group {
        self.base().new_group("sandbox", &limits, true).expect("a group with limits")
    }

    fn base(&self) -> &Base {
        self.0.as_ref().expect("present until dropped")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(base) = self.0.take() {
            let removed = base.remove().expect("remove the base");
            assert!(std::thread::panicking() || removed == Removal::Gone);
        }
    }
}

/// A program that waits for a line on its standard input before it does anything, so that it can be
/// put into a group first.
struct Held(Child);

impl Held {
    fn shell(script: &str) -> Held {
        Held::start("sh", script)
    }

    fn python(script: &str) -> Held {
        Held::start("/usr/bin/python3", script)
    }

    #[expect(clippy::disallowed_methods, reason = "a test needs processes to put into groups")]
    fn start(interpreter: &str, script: &str) -> Held {
        let child = Command::new("sh")
            .args(["-c", "read go && exec \"$0\" -c \"$1\"", interpreter, script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start a shell");
        Held(child)
    }

    fn go_in(mut self, group: &Group) -> Running {
        group.attach(self.0.id()).expect("attach");
        let mut input = self.0.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("the shell reads");
        let output = BufReader::new(self.0.stdout.take().expect("piped"));
        Running { child: self.0, output, input }
    }
}

/// A program that runs inside its group; its standard input stays open until it is dropped.
struct Running {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    input: std::process::ChildStdin,
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line of text");
        line.trim_end().to_owned()
    }

    fn status(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("our own child")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(dir: &Path, name: &str) -> Vec<String> {
    let text = file::read(dir, name).unwrap();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Polls until the condition holds; the kernel updates some counters a moment after the fact.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let outcome = wait::until(TEST_TIMEOUT, || Ok::<_, Error>(is_so())).expect("cannot fail");
    assert!(outcome, "never happened: {what}");
}
