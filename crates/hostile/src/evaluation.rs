//! Verdict from the result of a process.

use std::time::Duration;

use ringfence_types::{Limit, Limits, Outcome};

use crate::{
    Case, Criterion, Decoy, Finding, Observed, Verdict,
    finding::{broken, escaped, find_report, held},
    suite::Control,
    survivors,
};

/// Promised time after a run within which all its processes are gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// SIGSYS, with which the filter kills.
const BAD_CALL: i32 = 31;

/// Slack over a wall limit on a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

/// Verdict for the half inside.
pub(crate) fn inside(case: &Case, seen: &Observed, marker: &str, decoy: &mut Decoy) -> Finding {
    let outcome = match &seen.outcome {
        Ok(outcome) => outcome,
        Err(problem) => return broken(format!("no sandbox: {problem}")),
    };
    match case.criterion {
        Criterion::Report => by_report(case, seen, outcome),
        Criterion::Limit(limit) => by_limit(case, limit, seen, outcome),
        Criterion::ReportOrLimit(limit) if met(outcome) == Some(limit) => {
            held(format!("stopped by the {} limit", name(limit)))
        }
        Criterion::ReportOrLimit(_) => by_report(case, seen, outcome),
        Criterion::NoSurvivors => no_survivors(marker, &by_report(case, seen, outcome)),
        Criterion::DecoyAlive if !decoy.is_alive() => escaped("a process on the host was killed"),
        Criterion::DecoyAlive => survived(case, seen, outcome),
        Criterion::Flood(written) => flood(&case.limits, written, seen, outcome),
    }
}

/// Verdict for the control: whether the attack works without isolation.
pub(crate) fn outside(case: &Case, seen: &Observed, marker: &str) -> Control {
    let left = survivors::find(marker);
    survivors::end(&left);
    let report = find_report(&case.id, &seen.stdout);
    let Some(Finding { verdict, observed }) = report else {
        return Control::Failed { observed: no_report(seen) };
    };
    match (case.criterion, verdict) {
        (Criterion::NoSurvivors, Verdict::Escaped) if left.is_empty() => {
            Control::Failed { observed: "the process it left behind is not there".into() }
        }
        (Criterion::Flood(_), Verdict::Escaped) if seen.stdout.len() < 2 << 20 => {
            Control::Failed { observed: format!("only {} bytes came", seen.stdout.len()) }
        }
        (_, Verdict::Escaped) => Control::Works { observed },
        (_, Verdict::NotApplicable) => Control::NotApplicable { reason: observed },
        (_, Verdict::Held | Verdict::Error | Verdict::NotPromised) => Control::Failed { observed },
    }
}

fn by_report(case: &Case, seen: &Observed, outcome: &Outcome) -> Finding {
    match find_report(&case.id, &seen.stdout) {
        Some(finding) => finding,
        None if *outcome == (Outcome::Signaled { signal: BAD_CALL }) => {
            held("the filter killed the process")
        }
        None => broken(no_report(seen)),
    }
}

fn by_limit(case: &Case, limit: Limit, seen: &Observed, outcome: &Outcome) -> Finding {
    if met(outcome) != Some(limit) {
        let report = find_report(&case.id, &seen.stdout);
        return match report {
            Some(finding) if finding.verdict != Verdict::Held => finding,
            _ => broken(format!("expected the {} limit, got {outcome:?}", name(limit))),
        };
    }
    if seen.wall > case.limits.wall + SLACK {
        return escaped(format!("stopped only after {:?}", seen.wall));
    }
    held(format!("stopped by the {} limit after {:.1?}", name(limit), seen.wall))
}

fn no_survivors(marker: &str, report: &Finding) -> Finding {
    let left = survivors::remaining(marker, GONE_WITHIN);
    survivors::end(&left);
    if !left.is_empty() {
        return escaped(format!("{} processes outlived the run", left.len()));
    }
    match report.verdict {
        // The attack's part is to leave a process behind, which is no verdict yet.
        Verdict::Escaped => held(format!("{}; gone with the run", report.observed)),
        _ => report.clone(),
    }
}

/// Verdict for an attack that may have killed all processes of its own sandbox.
fn survived(case: &Case, seen: &Observed, outcome: &Outcome) -> Finding {
    match find_report(&case.id, &seen.stdout) {
        Some(finding) => finding,
        None => held(format!("only its own sandbox died: {outcome:?}")),
    }
}

fn flood(limits: &Limits, written: u64, seen: &Observed, outcome: &Outcome) -> Finding {
    let kept = seen.stdout.len() as u64;
    if kept > limits.output.0 {
        return escaped(format!("kept {kept} bytes of output, {} are allowed", limits.output));
    }
    if met(outcome) == Some(Limit::Output) {
        return held(format!("stopped by the output limit, {kept} bytes kept"));
    }
    // The report itself adds one line to the output.
    if kept + seen.dropped < written {
        return broken(format!("kept {kept} and dropped {}, wrote {written}", seen.dropped));
    }
    held(format!("kept {kept} bytes, counted {} as dropped", seen.dropped))
}

fn met(outcome: &Outcome) -> Option<Limit> {
    match outcome {
        Outcome::OverLimit(hit) => Some(hit.limit),
        _ => None,
    }
}

fn name(limit: Limit) -> String {
    serde_json::to_string(&limit).unwrap_or_default().trim_matches('"').replace('_', " ")
}

fn no_report(seen: &Observed) -> String {
    let stderr = String::from_utf8_lossy(&seen.stderr);
    let stderr: String = stderr.trim().chars().take(200).collect();
    format!("no report; outcome {:?}, stderr `{stderr}`", seen.outcome)
}

#[cfg(test)]
mod tests;
