//! Verdicts without a sandbox, for every kind of result.

use std::time::Duration;

use ringfence_types::{Bytes, Hit, Limit, Limits, Outcome};

use super::*;
use crate::{Group, finding::not_applicable};

fn case(criterion: Criterion) -> Case {
    Case::new(Group::Kernel, "X1", "a case of its own", |_| not_applicable("never run"))
        .judged(criterion)
}

fn seen(outcome: Outcome, stdout: &str) -> Observed {
    Observed {
        outcome: Ok(outcome),
        stdout: stdout.into(),
        dropped: 0,
        stderr: Vec::new(),
        wall: Duration::from_millis(5),
    }
}

fn over(limit: Limit) -> Outcome {
    Outcome::OverLimit(Hit { limit, allowed: "1".into(), evidence: vec![], hint: "more".into() })
}

const DONE: Outcome = Outcome::Exited { code: 0 };
const ESCAPED: &str = "noise\n{\"id\":\"X1\",\"verdict\":\"escaped\",\"observed\":\"out\"}\n";

#[track_caller]
fn check_report(outcome: Outcome, stdout: &str, expected: Verdict) {
    let finding = by_report(&case(Criterion::Report), &seen(outcome.clone(), stdout), &outcome);
    assert_eq!(finding.verdict, expected, "{finding:?}");
}

#[test]
fn a_report_decides_and_its_absence_is_an_error_unless_the_filter_killed() {
    check_report(DONE, ESCAPED, Verdict::Escaped);
    check_report(DONE, &ESCAPED.replace("X1", "X2"), Verdict::Error);
    check_report(DONE, "", Verdict::Error);
    check_report(Outcome::Signaled { signal: 31 }, "", Verdict::Held);
    check_report(Outcome::Signaled { signal: 9 }, "", Verdict::Error);
}

#[track_caller]
fn check_limit(outcome: Outcome, stdout: &str, expected: Verdict) {
    let criterion = Criterion::Limit(Limit::Memory);
    let seen = seen(outcome.clone(), stdout);
    let finding = by_limit(&case(criterion), Limit::Memory, &seen, &outcome);
    assert_eq!(finding.verdict, expected, "{finding:?}");
}

#[test]
fn only_the_named_limit_counts() {
    check_limit(over(Limit::Memory), "", Verdict::Held);
    check_limit(over(Limit::Wall), "", Verdict::Error);
    check_limit(DONE, ESCAPED, Verdict::Escaped);
    check_limit(Outcome::Signaled { signal: 9 }, "", Verdict::Error);
}

#[test]
fn a_flood_must_be_cut_and_counted() {
    let limits = Limits { output: Bytes(10), ..Limits::default() };
    let flooded = |kept: &str, dropped| {
        let seen = Observed { dropped, ..seen(DONE, kept) };
        flood(&limits, 100, &seen, &DONE).verdict
    };
    assert_eq!(flooded("yyyyyyyyyy", 95), Verdict::Held);
    assert_eq!(flooded("yyyyyyyyyyyy", 95), Verdict::Escaped);
    assert_eq!(flooded("yyyyyyyyyy", 80), Verdict::Error);
}

#[test]
fn a_control_that_is_held_has_failed() {
    let verdict =
        |report: &str| outside(&case(Criterion::Report), &seen(DONE, report), "no-such-marker");
    assert!(matches!(verdict(ESCAPED), Control::Works { .. }));
    assert!(matches!(verdict(&ESCAPED.replace("escaped", "held")), Control::Failed { .. }));
    assert!(matches!(verdict(""), Control::Failed { .. }));
    let excused = verdict(&ESCAPED.replace("escaped", "not_applicable"));
    assert!(matches!(excused, Control::NotApplicable { .. }));
}
