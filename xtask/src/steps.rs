//! The reduced suite: what the built binary must do on a host other than the one it was built on.
//!
//! [`STEPS`] is the one list. The emulated machine runs all of it as root and as an ordinary user;
//! this host runs the part that needs no delegated control group as an ordinary user (the
//! workspace tests cover it as root, more deeply). What the command line cannot ask for is asked by
//! a test program of the workspace.

use serde_json::Value;

use crate::report::Counts;

/// Call of a program with the expected result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Name of the step in messages.
    pub name: &'static str,
    /// Program of the step.
    pub program: Program,
    /// Arguments of the program.
    pub arguments: &'static [&'static str],
    /// Expected result.
    pub expect: Expect,
    /// Whether an ordinary user needs a delegated control group for it.
    pub needs_cgroup: bool,
}

/// Program of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The `ringfence` binary.
    Ringfence,
    /// Session tests of the sandbox, which find the binary by `RINGFENCE_BIN`.
    SessionTests,
}

/// Expected result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// This exit code, and this text somewhere in the output.
    Exit(i32, &'static str),
    /// Exit code 0 and one JSON line that counts `proven`, `unproven` and `failed` attacks, of
    /// which at least one was proven.
    Counted,
}

/// The suite.
pub const STEPS: &[Step] = &[
    limited("doctor describes the host", &["doctor", "--json"], Expect::Exit(0, "{")),
    step("hostile suite", &["selftest", "--hostile", "--json"], Expect::Counted),
    limited("python computes", &["run", "-c", "print(6*7)"], Expect::Exit(0, "42")),
    limited(
        "a program's exit code is ours",
        &["run", "--", "/bin/bash", "-c", "exit 7"],
        Expect::Exit(7, ""),
    ),
    limited(
        "wall time is limited",
        &["run", "--timeout", "2s", "--", "/bin/sleep", "60"],
        Expect::Exit(124, ""),
    ),
    limited(
        "memory is limited and named",
        &["run", "--json", "--memory", "64M", "-c", "x = bytearray(512 << 20)"],
        Expect::Exit(1, "\"memory\""),
    ),
    limited(
        "a fork bomb is limited",
        &["run", "--pids", "32", "--timeout", "20s", "-c", FORK_BOMB],
        Expect::Exit(0, "stopped"),
    ),
    Step {
        program: Program::SessionTests,
        // The freezer attacks that hold however slow the machine is.
        ..limited(
            "a session is paused and resumed",
            &[
                "--exact",
                "--test-threads=1",
                "pauses::while_paused_nothing_runs_and_only_looking_is_allowed",
                "pauses::a_paused_session_can_be_stopped_and_closed",
            ],
            Expect::Exit(0, "test result: ok. 2 passed"),
        )
    },
];

/// Forks until the kernel refuses, then says so; the parent must survive to say it. Bounded, so
/// that a broken limit fails the step and not the machine.
const FORK_BOMB: &str = "\
import os, time
try:
    for _ in range(200):
        if os.fork() == 0: time.sleep(60)
    print('unlimited')
except OSError: print('stopped')";

/// Output of a step: exit code and lines of both streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// Exit code; negative numbers are signals.
    pub code: i32,
    /// Lines of both streams.
    pub lines: Vec<String>,
}

/// Result of a step; on failure with the expectation.
pub fn judge(step: &Step, seen: &Observation) -> (Counts, Option<String>) {
    match step.expect {
        Expect::Exit(code, text) => {
            let says = text.is_empty() || seen.lines.iter().any(|line| line.contains(text));
            let has_passed = seen.code == code && says;
            let problem = format!("expected exit code {code} and `{text}`, got {}", seen.code);
            (Counts::one(has_passed), (!has_passed).then_some(problem))
        }
        Expect::Counted => judge_counted(seen),
    }
}

fn judge_counted(seen: &Observation) -> (Counts, Option<String>) {
    match seen.lines.iter().rev().find_map(|line| counts(line)) {
        None => (Counts::one(false), Some(format!("no counts, exit code {}", seen.code))),
        Some(counts) if counts.passed == 0 => {
            (counts.plus(Counts::one(false)), Some("nothing was tested".to_owned()))
        }
        Some(counts) if seen.code == 0 || counts.failed > 0 => {
            let problem = format!("{} checks failed", counts.failed);
            (counts, (counts.failed > 0).then_some(problem))
        }
        Some(counts) => {
            (counts.plus(Counts::one(false)), Some(format!("ended with exit code {}", seen.code)))
        }
    }
}

/// Counts of the attack suite: proven by a control, held without an applicable control, failed.
fn counts(line: &str) -> Option<Counts> {
    let value: Value = serde_json::from_str(line).ok()?;
    let number = |key: &str| value.get(key).and_then(Value::as_u64);
    Some(Counts {
        passed: number("proven")?,
        failed: number("failed")?,
        unproven: number("unproven")?,
        skipped: 0,
    })
}

const fn step(name: &'static str, arguments: &'static [&'static str], expect: Expect) -> Step {
    Step { name, program: Program::Ringfence, arguments, expect, needs_cgroup: false }
}

const fn limited(name: &'static str, arguments: &'static [&'static str], expect: Expect) -> Step {
    Step { needs_cgroup: true, ..step(name, arguments, expect) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(code: i32, lines: &[&str]) -> Observation {
        Observation { code, lines: lines.iter().map(|&line| line.to_owned()).collect() }
    }

    #[test]
    fn an_exit_step_needs_both_code_and_text() {
        let step = step("x", &[], Expect::Exit(7, "text"));
        let passes = |seen: &Observation| judge(&step, seen).0 == Counts::one(true);
        assert!(passes(&seen(7, &["some text"])));
        assert!(!passes(&seen(0, &["some text"])));
        assert!(!passes(&seen(7, &["other"])));
    }

    #[test]
    fn a_counted_step_cannot_pass_without_counts_or_with_a_bad_code() {
        let failed = |code, lines: &[&str]| judge_counted(&seen(code, lines)).0.failed;
        let good = r#"{"results":[],"proven":3,"unproven":1,"failed":0}"#;
        assert_eq!(failed(0, &[good]), 0);
        assert_eq!(failed(0, &[]), 1);
        assert_eq!(failed(1, &[good]), 1);
        assert_eq!(failed(0, &[r#"{"proven":0,"unproven":9,"failed":0}"#]), 1);
        assert_eq!(failed(1, &[r#"{"proven":5,"unproven":0,"failed":2}"#]), 2);
    }

    #[test]
    fn step_names_are_unique() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
