//! Reduced suite inside the emulated machine with the older kernel, as root and as an ordinary user.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::absent;
use crate::prerequisites::Need;
use crate::report::{Counts, Row};
use crate::steps::{self, Observation, Program, STEPS, Step};
use crate::{settings, shell, vm};

/// Time limit of the machine: emulation is an order of magnitude slower than the host, and the attack
/// suite needs most of this.
const DEADLINE: Duration = Duration::from_secs(1500);

const BEGIN: &str = "RINGFENCE-STEP-BEGIN ";
const END: &str = "RINGFENCE-STEP-END ";

/// Identities that run the steps, with the prefix of the command.
const IDENTITIES: &[(&str, &str)] = &[("root", ""), ("uid 65534, delegated", "rootless ")];

pub(super) fn run(binary: &Path, missing: &[Need]) -> Result<Vec<Row>> {
    let needs = ["qemu-system-x86", "busybox-static", "python3", "util-linux", "binutils"];
    if let Some(need) = missing.iter().find(|need| needs.contains(&need.package)) {
        let reason = format!("`{}` is missing", need.package);
        return Ok(vec![absent("vm", "older kernel in qemu", &reason)]);
    }
    let kernel = match vm::kernel::image() {
        Ok(kernel) => kernel,
        Err(problem) => {
            return Ok(vec![absent("vm", "older kernel in qemu", &format!("{problem:#}"))]);
        }
    };
    let mut tracker = Tracker::default();
    let tests = session_tests()?;
    let programs = [("ringfence", binary), (TESTS, tests.as_path())];
    let ended = vm::run_with(&programs, &script(), DEADLINE, &mut |line| tracker.line(line));
    if let Err(problem) = ended {
        println!("FAILED vm: {problem:#}");
    }
    Ok(tracker.rows(&kernel_name(&kernel)))
}

/// Name of the session tests in the machine.
const TESTS: &str = "ringfence-session-tests";

/// Builds the session tests of the sandbox; returns the program.
fn session_tests() -> Result<PathBuf> {
    let mut cargo = shell::command(settings::cargo());
    cargo.args(["test", "--package", "ringfence-sandbox", "--test", "session", "--no-run"]);
    let messages = shell::read(cargo.args(["--message-format", "json"]))?;
    executable(&messages).context("cargo names no program for the session tests")
}

/// Last executable in cargo's messages; dependencies have none.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = messages.filter_map(|message| Some(message["executable"].as_str()?.into()));
    found.next_back()
}

/// Command of a step's program.
fn call(program: Program) -> String {
    match program {
        Program::Ringfence => "ringfence".to_owned(),
        Program::SessionTests => format!("env RINGFENCE_BIN=/usr/bin/ringfence {TESTS}"),
    }
}

/// Script with one line per step, framed so that the host can tell the steps apart.
fn script() -> String {
    let mut lines = Vec::new();
    for (number, (step, prefix)) in plan().enumerate() {
        let words: Vec<String> = step.arguments.iter().map(|word| quote(word)).collect();
        lines.push(format!("echo '{BEGIN}{number}'"));
        // The serial line is a terminal, and progress output would mix with the result.
        let (program, words) = (call(step.program), words.join(" "));
        lines.push(format!("{prefix}{program} {words} 2>/tmp/stderr"));
        // A program's last line may lack its newline; the frame must start its own line.
        lines.push(format!("code=$?; echo; cat /tmp/stderr; echo \"{END}{number} $code\""));
    }
    lines.push("exit 0\n".to_owned());
    lines.join("\n")
}

fn plan() -> impl Iterator<Item = (&'static Step, &'static str)> {
    IDENTITIES.iter().flat_map(|&(_, prefix)| STEPS.iter().map(move |step| (step, prefix)))
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn kernel_name(image: &Path) -> String {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("vmlinuz-").to_owned()
}

/// Collector of each step's output and exit code.
#[derive(Debug, Default)]
struct Tracker {
    current: Option<(Instant, Observation)>,
    finished: Vec<(Duration, Observation)>,
}

impl Tracker {
    fn line(&mut self, line: &str) {
        if line.starts_with(BEGIN) {
            self.current = Some((Instant::now(), Observation::default()));
        } else if let Some(rest) = line.strip_prefix(END) {
            self.end(rest);
        } else {
            println!("vm: {line}");
            if let Some((_, observation)) = &mut self.current {
                observation.lines.push(line.to_owned());
            }
        }
    }

    fn end(&mut self, rest: &str) {
        let code = rest.split(' ').nth(1).and_then(|code| code.trim().parse().ok());
        if let (Some((started, mut observation)), Some(code)) = (self.current.take(), code) {
            observation.code = code;
            self.finished.push((started.elapsed(), observation));
        }
    }

    /// One row per identity. A step that never ended is a failure.
    fn rows(&self, kernel: &str) -> Vec<Row> {
        let mut finished = self.finished.iter();
        IDENTITIES
            .iter()
            .map(|(identity, _)| {
                let (mut counts, mut took) = (Counts::default(), Duration::ZERO);
                let mut failures = Vec::new();
                for step in STEPS {
                    let (more, problem, time) = verdict(step, finished.next());
                    counts = counts.plus(more);
                    failures.extend(problem.map(|problem| format!("{}: {problem}", step.name)));
                    took += time;
                }
                let against = format!("kernel {kernel}, cgroup v2, {identity}, qemu");
                Row { suite: "vm".to_owned(), against, counts, took, failures }
            })
            .collect()
    }
}

fn verdict(
    step: &Step,
    seen: Option<&(Duration, Observation)>,
) -> (Counts, Option<String>, Duration) {
    match seen {
        Some((took, observation)) => {
            let (counts, problem) = steps::judge(step, observation);
            (counts, problem, *took)
        }
        None => (Counts::one(false), Some("did not run to its end".to_owned()), Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let word = "it's $HOME; `x`\n\"y\"";
        let mut shell = crate::shell::command("/bin/sh");
        let output = crate::shell::read(shell.args(["-c", &format!("printf %s {}", quote(word))]));
        assert_eq!(output.expect("printf"), word);
    }

    #[test]
    fn the_script_is_valid_shell() {
        let mut shell = crate::shell::command("/bin/sh");
        crate::shell::run(shell.args(["-n", "-c", &script()])).expect("it parses");
    }

    #[test]
    fn the_program_of_a_test_is_the_one_that_cargo_names() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnoise\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/session-1\"}\n\
                        {\"reason\":\"build-finished\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/session-1")));
        assert_eq!(executable("{}\n"), None);
    }

    #[test]
    fn steps_that_never_ended_are_failures() {
        let mut tracker = Tracker::default();
        tracker.line(&format!("{BEGIN}0"));
        tracker.line("{}");
        tracker.line(&format!("{END}0 0"));
        tracker.line(&format!("{BEGIN}1"));
        let rows = tracker.rows("6.1");
        let total = rows.iter().fold(Counts::default(), |sum, row| sum.plus(row.counts));
        let failed = (STEPS.len() * IDENTITIES.len() - 1) as u64;
        assert_eq!(total, Counts { passed: 1, failed, ..Counts::default() });
    }
}
