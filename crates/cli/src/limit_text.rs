//! Messages about a run: the limit that was reached, and missing output.

use std::fmt::Write;

use ringfence_sandbox::{Hint, Report};
use ringfence_types::{Hit, Outcome};

/// All messages beside the output, for people.
pub(crate) fn of(report: &Report, undelivered: u64) -> String {
    let mut text = String::new();
    if undelivered > 0 {
        let _ = writeln!(
            text,
            "warning: up to {undelivered} bytes of output were not delivered: the program's time was \
             over and the reader took nothing more"
        );
    }
    text.push_str(&of_outcome(&report.outcome));
    report.hints.iter().for_each(|hint| add_hint(&mut text, hint));
    text
}

/// The limit that was reached, if one was.
pub(crate) fn of_outcome(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Outcome::OverLimit(hit) = outcome {
        add_limit(&mut text, hit);
    }
    text
}

fn add_limit(text: &mut String, hit: &Hit) {
    let name = serde_json::to_value(hit.limit).unwrap_or_default();
    let name = name.as_str().unwrap_or_default().replace('_', " ");
    let _ = writeln!(text, "error: the program reached its {name} limit of {}", hit.allowed);
    for evidence in &hit.evidence {
        let _ = writeln!(text, "  {}: {}", evidence.source, evidence.value);
    }
    let _ = writeln!(text, "hint: {}", hit.hint);
}

fn add_hint(text: &mut String, Hint { words, hint, .. }: &Hint) {
    let _ = writeln!(text, "hint: the program's output mentions `{words}`; {hint}");
}
