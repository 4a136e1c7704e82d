//! Runs a test in a process of its own, for tests that count what a whole process holds.
//!
//! Such a test runs itself again, alone, in a child; everything it measures is the child's.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use super::settings;

const ALONE: &str = "RINGFENCE_TEST_ALONE";

/// Role given to this process when it was started alone.
pub(crate) fn part() -> Option<String> {
    settings::told(ALONE)
}

/// Command that runs this test again in a process of its own with a role.
pub(crate) fn again(exe: &Path, test: &str, part: &str) -> Command {
    tell(settings::program(exe), test, part)
}

fn tell(mut command: Command, test: &str, part: &str) -> Command {
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, part);
    command.env("RINGFENCE_BIN", settings::binary()).stdin(Stdio::null());
    command
}

/// Runs `test` alone and fails if it failed, with all its output. It has a mount namespace of its
/// own: what others mount on this machine meanwhile is not counted.
pub(crate) fn run(test: &str) {
    let (_dir, exe) = settings::staged_test();
    let mut command = settings::program("unshare");
    command.arg("--mount").arg(&exe);
    succeed(&mut tell(command, test, "alone"));
}

/// Runs `test` alone as a user without any rights.
pub(crate) fn run_unprivileged(test: &str) {
    let (_dir, exe) = settings::staged_test();
    let (_binary_dir, binary) = settings::staged_binary();
    let mut command = again(&exe, test, "unprivileged");
    command.env("RINGFENCE_BIN", binary).uid(65534).gid(65534).current_dir("/");
    succeed(&mut command);
}

#[expect(clippy::print_stdout, reason = "the parent prints what the child measured")]
fn succeed(command: &mut Command) {
    let output = command.output().expect("this test can be started again");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    // Measurements are printed even if the test passed.
    print!("{stdout}");
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "nothing ran:\n{stdout}");
}
