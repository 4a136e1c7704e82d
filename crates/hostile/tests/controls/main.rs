//! Controls work on this host, as root and as an ordinary user, and the suite can fail. Controls that
//! cannot work on some hosts are listed in [`unproven`].
//!
//! The binary is its own runner: called with the role it runs one attack, called with `--controls`
//! it runs the halves outside as its current user, and otherwise it runs the tests.

#![expect(clippy::print_stdout, reason = "a test binary of its own prints its own results")]

mod unproven;

use std::{
    collections::BTreeSet,
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use ringfence_hostile::{
    Case, Control, Observed, ROLE, Runner, Setup, attack_main, cases, render_table, run_controls,
    run_suite,
};
use ringfence_types::Outcome;

use unproven::may_be_unproven;

/// Uid without any privilege on every Linux.
const UNPRIVILEGED_ID: u32 = 65534;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(ROLE) => ExitCode::from(attack_main(&arguments[1..]) as u8),
        Some("--controls") => print_controls(&arguments[1..]),
        _ => run_tests(&arguments),
    }
}

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("every_case_has_a_name_of_its_own", every_case_has_a_name_of_its_own),
    ("every_promise_is_a_short_sentence", every_promise_is_a_short_sentence),
    ("unknown_cases_and_arguments_are_refused", unknown_cases_and_arguments_are_refused),
    ("the_lists_of_unproven_cases_name_cases", the_lists_of_unproven_cases_name_cases),
    ("every_control_works_as_this_user", every_control_works_as_this_user),
    ("every_control_works_or_says_why_not_as_an_ordinary_user", controls_as_an_ordinary_user),
    ("a_sandbox_without_isolation_fails_the_suite", a_sandbox_without_isolation_fails_the_suite),
    ("nothing_is_left_on_the_host", nothing_is_left_on_the_host),
];

fn run_tests(arguments: &[String]) -> ExitCode {
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen = TESTS.iter().filter(|(name, _)| filter.is_none_or(|word| name.contains(word)));
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let results: Vec<bool> = chosen.map(passes).collect();
    let failed = results.iter().filter(|passed| !**passed).count();
    // The line of libtest, so that `cargo xtask test` counts this binary as well.
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, results.len() - failed);
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn passes((name, test): &Test) -> bool {
    let started = Instant::now();
    let passed = std::panic::catch_unwind(test).is_ok();
    let word = if passed { "ok" } else { "FAILED" };
    println!("test {name} ... {word} ({:.1?})", started.elapsed());
    passed
}

/// Runner without isolation, the half inside as well.
struct NoIsolation;

impl Runner for NoIsolation {
    fn run_inside(&mut self, arguments: &[&str], _: &Setup) -> Observed {
        // Bounded like a control, since nothing here would stop the real attack.
        let bounded: Vec<&str> =
            arguments.iter().map(|word| if *word == "inside" { "outside" } else { word }).collect();
        self.run_outside(&bounded)
    }

    fn run_outside(&mut self, arguments: &[&str]) -> Observed {
        let started = Instant::now();
        let output = own_binary()
            .arg(ROLE)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the test binary starts itself");
        let outcome = match (output.status.code(), output.status.signal()) {
            (Some(code), _) => Outcome::Exited { code },
            (None, signal) => Outcome::Signaled { signal: signal.unwrap_or(0) },
        };
        Observed {
            outcome: Ok(outcome),
            stdout: output.stdout,
            dropped: 0,
            stderr: output.stderr,
            wall: started.elapsed(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the controls run outside every sandbox")]
fn own_binary() -> Command {
    Command::new("/proc/self/exe")
}

fn every_case_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = cases().iter().map(|case| case.id.as_str()).collect();
    assert_eq!(names.len(), cases().len());
    assert!(cases().len() > 200, "{} cases", cases().len());
}

fn every_promise_is_a_short_sentence() {
    for case in cases() {
        assert!((10..=72).contains(&case.promise.len()), "{}: `{}`", case.id, case.promise);
        assert!(case.limits.clone().checked().is_ok(), "{}: {:?}", case.id, case.limits);
    }
}

fn unknown_cases_and_arguments_are_refused() {
    for arguments in [&["F99"][..], &["F24", "inside", "nonsense"], &[]] {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        assert_eq!(attack_main(&arguments), 2, "{arguments:?}");
    }
}

fn every_control_works_as_this_user() {
    let controls = run_controls(&mut NoIsolation, &[]).expect("the decoy starts");
    let failed: Vec<_> =
        controls.iter().filter(|(_, control)| matches!(control, Control::Failed { .. })).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let works =
        controls.iter().filter(|(_, control)| matches!(control, Control::Works { .. })).count();
    println!("  {works} of {} controls work, the rest say why not", controls.len());
    assert_eq!(
        unlisted(&controls),
        Vec::<String>::new(),
        "add them to `unproven.rs` if that is so"
    );
}

/// Controls that do not apply although no list of [`unproven`] has their case, with their reasons.
fn unlisted(controls: &[(&Case, Control)]) -> Vec<String> {
    let is_root = rustix::process::geteuid().is_root();
    let problem = |(case, control): &(&Case, Control)| match control {
        Control::NotApplicable { reason } if !may_be_unproven(&case.id, is_root) => {
            Some(format!("{}: {reason}", case.id))
        }
        _ => None,
    };
    controls.iter().filter_map(problem).collect()
}

fn the_lists_of_unproven_cases_name_cases() {
    let ids: Vec<&str> = cases().iter().map(|case| case.id.as_str()).collect();
    assert_eq!(unproven::entries_without_a_case(&ids), Vec::<&str>::new());
    assert!(!may_be_unproven("F24", false), "a case that works everywhere");
}

/// Runs the controls as an ordinary user, which only root can become.
fn controls_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return every_control_works_as_this_user();
    }
    let output = own_binary()
        .arg("--controls")
        .uid(UNPRIVILEGED_ID)
        .gid(UNPRIVILEGED_ID)
        .current_dir("/")
        .stderr(Stdio::inherit())
        .output()
        .expect("the test binary starts itself");
    let report = String::from_utf8_lossy(&output.stdout);
    println!("  as uid 65534: {}", report.lines().last().unwrap_or("nothing"));
    assert!(output.status.success(), "{report}");
}

fn print_controls(filter: &[String]) -> ExitCode {
    let controls = run_controls(&mut NoIsolation, filter).expect("the decoy starts");
    let mut out = std::io::stdout();
    let count = |wanted: fn(&Control) -> bool| controls.iter().filter(|(_, c)| wanted(c)).count();
    for (case, control) in &controls {
        writeln!(out, "{:<24} {control:?}", case.id).expect("stdout is open");
    }
    let works = count(|control| matches!(control, Control::Works { .. }));
    let failed = count(|control| matches!(control, Control::Failed { .. }));
    let total = controls.len();
    let unlisted = unlisted(&controls);
    for problem in &unlisted {
        writeln!(out, "not in `unproven.rs`: {problem}").expect("stdout is open");
    }
    writeln!(out, "{works} work, {failed} failed, {total} in all").expect("stdout is open");
    if failed == 0 && unlisted.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn a_sandbox_without_isolation_fails_the_suite() {
    let started = Instant::now();
    let summary = run_suite(&mut NoIsolation, &[], &mut |_| ()).expect("the decoy starts");
    assert!(started.elapsed() < Duration::from_secs(300), "took {:?}", started.elapsed());
    let held: Vec<_> = summary.results.iter().filter(|result| result.passed()).collect();
    assert!(held.is_empty(), "held without isolation: {held:#?}");
    assert!(!summary.passed());
    assert!(render_table(&summary).contains("PROMISES BROKEN"));
}

fn nothing_is_left_on_the_host() {
    let left: Vec<_> = std::fs::read_dir(std::env::temp_dir())
        .expect("the temporary directory can be read")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("ringfence-hostile-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
