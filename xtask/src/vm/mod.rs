//! A throw-away machine with another kernel: Debian's 6.1 with cgroup v2, in software emulation.
//!
//! The sandbox has to work on hosts that differ from the one it is built on. This machine is such a
//! host, made of an unpacked kernel package and an initramfs; it has no disk and no network, needs
//! no privilege, and ends after one command.
//!
//! Invariant: the emulator never outlives the call: a machine past its deadline is killed.

pub mod cpio;
pub mod kernel;
pub mod rootfs;
mod scratch;
pub mod systemd;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell;
use scratch::Scratch;

/// Default time limit of a machine. It boots in a few seconds; the rest is for the emulated suite.
pub const DEADLINE: Duration = Duration::from_secs(240);

const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=4 panic=-1 random.trust_cpu=on no_timer_check";

const EXIT_MARK: &str = "RINGFENCE-VM-EXIT ";

/// Builds and boots a machine that runs `script`, passes every console line to `on_line`, and
/// returns the script's exit code.
pub fn run(
    binary: Option<&Path>,
    script: &str,
    deadline: Duration,
    on_line: &mut dyn FnMut(&str),
) -> Result<i32> {
    let programs: Vec<(&str, &Path)> = binary.map(|path| ("ringfence", path)).into_iter().collect();
    run_with(&programs, script, deadline, on_line)
}

/// Like [`run`], with any number of programs: `/usr/bin/NAME` is a copy of each.
pub fn run_with(
    programs: &[(&str, &Path)],
    script: &str,
    deadline: Duration,
    on_line: &mut dyn FnMut(&str),
) -> Result<i32> {
    let kernel = kernel::image()?;
    let initramfs = Scratch::create("initramfs", &rootfs::build(programs, script)?)?;
    let small = Boot { memory: "1024", append: "" };
    boot(small.emulator(&kernel, &initramfs.path)?, deadline, on_line)
}

/// Parameters in which two machines differ.
struct Boot {
    /// Memory in mebibytes.
    memory: &'static str,
    /// Additional words for the kernel's command line.
    append: &'static str,
}

impl Boot {
    fn emulator(&self, kernel: &Path, initramfs: &Path) -> Result<Command> {
        let qemu = shell::find_program("qemu-system-x86_64")
            .context("find `qemu-system-x86_64` (package qemu-system-x86)")?;
        let mut command = shell::command(qemu);
        command
            .args(["-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", self.memory])
            .args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"])
            .args(["-nic", "none"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initramfs)
            // panic=-1 with -no-reboot turns a kernel panic into the end of the emulator. On a busy host
            // the kernel takes too few ticks of the emulated timer for a broken one, and panics.
            .arg("-append")
            .arg(format!("{KERNEL_OPTIONS} {}", self.append))
            .stdin(Stdio::null());
        Ok(command)
    }
}

fn boot(mut command: Command, deadline: Duration, on_line: &mut dyn FnMut(&str)) -> Result<i32> {
    let started = Instant::now();
    let child = command.stdout(Stdio::piped()).spawn().context("start the emulator")?;
    let mut machine = Machine(child);
    let console = machine.0.stdout.take().context("the emulator has no console")?;
    // Bounded, so that a flood on the console blocks instead of filling our memory.
    let (sender, lines) = sync_channel(1024);
    let reader = std::thread::spawn(move || read_lines(console, &sender));
    let code = follow(&lines, started + deadline, on_line);
    drop((lines, machine));
    reader.join().ok().context("the console reader panicked")?;
    code.with_context(|| format!("after {:.1} s in the machine", started.elapsed().as_secs_f64()))
}

/// Reads the console until it closes and returns the reported code.
fn follow(lines: &Receiver<String>, end: Instant, on_line: &mut dyn FnMut(&str)) -> Result<i32> {
    let mut code = None;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.strip_prefix(EXIT_MARK) {
                Some(text) => code = Some(text.trim().parse().context("parse the exit code")?),
                None => on_line(&line),
            },
            Err(RecvTimeoutError::Timeout) => bail!("the machine is past its deadline"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    code.context("the machine ended without reporting an exit code")
}

fn read_lines(console: impl Read, sender: &SyncSender<String>) {
    let mut console = BufReader::new(console);
    let mut line = Vec::new();
    while console.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        if sender.send(text).is_err() {
            return;
        }
        line.clear();
    }
}

/// Emulator process; killed and reaped on drop.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if the process has ended already, which is the goal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pretend(script: &str, deadline: Duration) -> (Result<i32>, Vec<String>) {
        let mut seen = Vec::new();
        let mut command = shell::command("/bin/sh");
        command.args(["-c", script]);
        let code = boot(command, deadline, &mut |line| seen.push(line.to_owned()));
        (code, seen)
    }

    #[test]
    fn the_reported_code_is_returned_and_not_shown() {
        let (code, seen) = pretend(r"printf 'hi\r\nRINGFENCE-VM-EXIT 7\r\n'", DEADLINE);
        assert_eq!((code.expect("a code"), seen), (7, vec!["hi".to_owned()]));
    }

    #[test]
    fn a_machine_that_dies_silently_is_an_error() {
        let (code, _) = pretend("echo panic", DEADLINE);
        let chain = format!("{:#}", code.expect_err("no code"));
        assert!(chain.contains("without reporting an exit code"), "{chain}");
    }

    #[test]
    fn a_machine_past_its_deadline_is_killed() {
        let started = Instant::now();
        let (code, _) = pretend("exec sleep 60", Duration::from_millis(50));
        let chain = format!("{:#}", code.expect_err("too late"));
        assert!(chain.contains("past its deadline"), "{chain}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
