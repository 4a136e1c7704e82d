//! Result of the suite as text: one aligned line for each case, and one verdict.

use std::fmt::Write;

use crate::{CaseResult, Control, Summary, Verdict};

/// Lines for all cases, then details of failed ones, then the verdict.
pub fn render_table(summary: &Summary) -> String {
    let widest = |of: fn(&CaseResult) -> usize| summary.results.iter().map(of).max().unwrap_or(0);
    let (id, promise) = (widest(|r| r.id.len()), widest(|r| r.promise.len()));
    let mut text = String::new();
    for result in &summary.results {
        let _ = writeln!(
            text,
            "{:<11}  {:<id$}  {:<promise$}  {:<7}  {}",
            result.group,
            result.id,
            result.promise,
            control(&result.control),
            verdict(result.finding.verdict),
        );
    }
    let is_failed =
        |result: &&CaseResult| !result.passed() && result.finding.verdict != Verdict::NotPromised;
    for result in summary.results.iter().filter(is_failed) {
        let _ = write!(text, "\n{}", detail(result));
    }
    let _ = write!(text, "\n{}", last_line(summary));
    text
}

fn control(control: &Control) -> &'static str {
    match control {
        Control::Works { .. } => "works",
        Control::NotApplicable { .. } => "n/a",
        Control::Failed { .. } => "FAILED",
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotPromised => "not promised",
        Verdict::Escaped => "ESCAPED",
        Verdict::Error | Verdict::NotApplicable => "ERROR",
    }
}

fn detail(result: &CaseResult) -> String {
    let control = match &result.control {
        Control::Works { observed } | Control::Failed { observed } => observed,
        Control::NotApplicable { reason } => reason,
    };
    format!("{}\n  inside:  {}\n  outside: {control}\n", result.id, result.finding.observed)
}

fn last_line(summary: &Summary) -> String {
    let Summary { proven, unproven, not_promised, failed, results } = summary;
    let excused = match not_promised {
        0 => String::new(),
        count => format!("{count} not promised without the layers this host lacks, "),
    };
    let total = results.len();
    let verdict = if summary.passed() { "all promises kept" } else { "PROMISES BROKEN" };
    format!(
        "{verdict}: {total} attacks, {proven} held and proven by a control, \
         {unproven} held without one that applies here, {excused}{failed} failed\n"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Finding, Group};

    fn result(id: &str, verdict: Verdict, control: Control) -> CaseResult {
        CaseResult {
            id: id.into(),
            group: Group::Kernel,
            promise: "stays inside".into(),
            control,
            finding: Finding { verdict, observed: "seen".into() },
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_failed_case_is_told_in_detail_and_decides_the_last_line() {
        let works = || Control::Works { observed: "done".into() };
        let summary = Summary {
            results: vec![
                result("K01.unshare", Verdict::Held, works()),
                result("K02", Verdict::Escaped, works()),
            ],
            proven: 1,
            unproven: 0,
            not_promised: 0,
            failed: 1,
        };
        assert_eq!(
            render_table(&summary),
            "kernel       K01.unshare  stays inside  works    held\n\
             kernel       K02          stays inside  works    ESCAPED\n\
             \nK02\n  inside:  seen\n  outside: done\n\
             \nPROMISES BROKEN: 2 attacks, 1 held and proven by a control, \
             0 held without one that applies here, 1 failed\n"
        );
    }

    #[test]
    fn a_run_of_no_case_keeps_no_promise() {
        assert!(!Summary::default().passed());
    }
}
