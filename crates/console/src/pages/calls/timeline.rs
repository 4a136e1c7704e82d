//! The stages of a call with their durations, drawn from its facts.

use std::time::Duration;

use ringfence_types::{Fact, FactKind, Timestamp};

use crate::html::{self, Html};

/// One stage: from a fact to the next one.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Words about the fact, such as the verdict.
    pub(crate) note: String,
    pub(crate) at: String,
    /// Duration until the next fact; empty at the end.
    pub(crate) took: String,
    /// Place and length of the stage within the whole.
    pub(crate) bar: Html,
}

/// Rows of the timeline, and the whole duration.
pub(crate) fn rows(facts: &[Fact], now: Timestamp, is_over: bool) -> (Vec<Row>, Duration) {
    let Some(first) = facts.first() else { return (Vec::new(), Duration::ZERO) };
    let last = facts.last().map_or(first.at, |fact| fact.at);
    let end = if is_over { last } else { now };
    let total = end.since(first.at);
    let row = |(index, fact): (usize, &Fact)| {
        let until = facts.get(index + 1).map_or(end, |next| next.at);
        let took = until.since(fact.at);
        let is_last = index + 1 == facts.len();
        Row {
            name: name(fact.kind),
            note: note(fact),
            at: fact.at.to_string(),
            took: if is_last && is_over { String::new() } else { html::precise(took) },
            bar: bar(fact.at.since(first.at), took, total, fact.kind),
        }
    };
    (facts.iter().enumerate().map(row).collect(), total)
}

fn name(kind: FactKind) -> &'static str {
    match kind {
        FactKind::Accepted => "Accepted",
        FactKind::Decided => "Policy decided",
        FactKind::Held => "Held for a person",
        FactKind::Approval => "Approved by a person",
        FactKind::Edited => "Arguments edited",
        FactKind::Resolved => "Hold resolved",
        FactKind::Dispatched => "Dispatched",
        FactKind::Retried => "Run again",
        FactKind::Started => "Started in its sandbox",
        FactKind::Cancelling => "Being stopped",
        FactKind::Finished => "Finished and published",
        FactKind::Denied => "Denied",
        FactKind::Expired => "Expired",
        FactKind::Cancelled => "Cancelled",
        FactKind::OutcomeUnknown => "Outcome unknown",
    }
}

/// The telling members of a fact, in a few words.
fn note(fact: &Fact) -> String {
    let data = fact.data.to_value();
    let text = |name: &str| data.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let words = match fact.kind {
        FactKind::Decided => text("verdict"),
        FactKind::Finished => {
            text("error").or_else(|| data["error"]["code"].as_str().map(str::to_owned))
        }
        FactKind::Resolved => text("action"),
        FactKind::Approval => text("by").map(|by| format!("by {by}")),
        _ => None,
    };
    words.unwrap_or_default()
}

fn bar(start: Duration, took: Duration, total: Duration, kind: FactKind) -> Html {
    let total = total.as_secs_f64().max(1e-9);
    let x = (start.as_secs_f64() / total * 100.0).clamp(0.0, 99.0);
    let width = (took.as_secs_f64() / total * 100.0).clamp(0.8, 100.0 - x);
    let tone = match kind {
        FactKind::Held => "wait",
        FactKind::Started | FactKind::Dispatched => "busy",
        FactKind::Denied | FactKind::OutcomeUnknown => "bad",
        kind if kind.is_final() => "good",
        _ => "calm",
    };
    Html(format!(
        "<svg class=\"span\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" y=\"3.5\" width=\"100\" height=\"1\"/>\
         <rect class=\"{tone}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"8\" rx=\"1\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use ringfence_types::{CallId, Json};

    use super::*;

    fn fact(kind: FactKind, micros: i64) -> Fact {
        let call: CallId = "019a0000-0000-7000-8000-000000000000".parse().unwrap();
        Fact { kind, call, at: Timestamp::from_micros(micros), data: Json::empty_object() }
    }

    #[test]
    fn each_stage_lasts_until_the_next_fact() {
        let facts = [
            fact(FactKind::Accepted, 0),
            fact(FactKind::Decided, 250),
            fact(FactKind::Finished, 5_250),
        ];
        let (rows, total) = rows(&facts, Timestamp::from_micros(9_999_999), true);
        assert_eq!(total, Duration::from_micros(5_250));
        let took: Vec<_> = rows.iter().map(|row| row.took.as_str()).collect();
        assert_eq!(took, ["250 µs", "5.00 ms", ""]);
    }

    #[test]
    fn a_call_that_runs_lasts_until_now() {
        let (rows, total) =
            rows(&[fact(FactKind::Accepted, 0)], Timestamp::from_micros(2_000_000), false);
        assert_eq!(total, Duration::from_secs(2));
        assert_eq!(rows[0].took, "2.00 s");
        assert_eq!(self::rows(&[], Timestamp::from_micros(0), false).0.len(), 0);
    }
}
