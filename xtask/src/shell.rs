//! Starting other programs: cargo, the package manager, the emulator.
//!
//! The product itself starts processes only through the spawner; a chore runner exists to start
//! them. The lint exception lives here alone, so that the rest of xtask stays greppable.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Command for an external program.
#[expect(clippy::disallowed_methods, reason = "starting programs is what xtask is for")]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Runs the command with inherited output and fails unless it exits with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs the command and returns its standard output; standard error is inherited.
pub fn read(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output: Output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of `{line}`"))
}

/// First executable of that name in the system directories, then on `PATH`.
///
/// The system's copy wins because version managers put shims first that only work with their
/// own environment, which a sandbox deliberately does not have.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let system = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    let path = crate::settings::search_path();
    system
        .iter()
        .map(PathBuf::from)
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

/// Program and arguments for messages, separated by spaces.
pub fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_status() {
        let error = run(command("/bin/sh").args(["-c", "exit 3"])).expect_err("exit 3");
        assert_eq!(error.to_string(), "`/bin/sh -c exit 3` ended with exit status: 3");
    }

    #[test]
    fn output_is_returned_as_text() {
        assert_eq!(read(command("/bin/echo").arg("grüß")).expect("echo"), "grüß\n");
    }

    #[test]
    fn the_system_shell_is_found_and_nonsense_is_not() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
