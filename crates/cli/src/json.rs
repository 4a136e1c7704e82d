//! Report of a run as one JSON object. The fields are part of the interface: see `docs/cli.md`.
//!
//! Durations are seconds in fields that end with `_secs`, sizes are bytes in fields that end with
//! `_bytes`. Unknown values are null; no field is ever left out, except those that `docs/cli.md`
//! calls optional.

use std::time::Duration;

use ringfence_sandbox::{Hint, Output, Report, Timings};
use ringfence_types::{Bytes, Hit, Isolation, Layers, Outcome, Truncated, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::{base64, copy_out::Copied};

/// The report.
#[derive(Debug, Default, Serialize)]
struct Object<'a> {
    outcome: &'static str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    limit: Option<&'a Hit>,
    hints: &'a [Hint],
    stdout: String,
    /// Optional: only if standard output is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    /// Optional, as `stdout_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: Gaps,
    result: Value,
    usage: Option<UsageObject>,
    layers: Option<&'a Layers>,
    isolation: Option<Isolation>,
    timings: Option<TimingsObject>,
    /// Optional: only with `--out`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    out: Vec<Value>,
}

#[derive(Debug, Default, Serialize)]
struct Gaps {
    stdout: Option<Truncated>,
    stderr: Option<Truncated>,
    result: Option<Truncated>,
}

#[derive(Debug, Serialize)]
struct UsageObject {
    wall_secs: f64,
    cpu_user_secs: f64,
    cpu_system_secs: f64,
    memory_peak_bytes: Option<Bytes>,
    io_read_bytes: Bytes,
    io_written_bytes: Bytes,
    processes: u32,
}

#[derive(Debug, Serialize)]
struct TimingsObject {
    setup_secs: f64,
    run_secs: f64,
    total_secs: f64,
}

/// The report of a program that ran, as one line.
pub(crate) fn report(report: &Report, out: &[Copied]) -> String {
    line(&Object {
        outcome: outcome(&report.outcome),
        exit_code: report.exit_code,
        signal: report.signal,
        limit: match &report.outcome {
            Outcome::OverLimit(hit) => Some(hit),
            _ => None,
        },
        hints: &report.hints,
        result: result(&report.result),
        usage: Some(usage(&report.usage)),
        layers: Some(&report.layers),
        isolation: Some(report.isolation),
        timings: Some(timings(&report.timings)),
        out: out.iter().map(Copied::json).collect(),
        truncated: Gaps {
            stdout: report.stdout.truncated(),
            stderr: report.stderr.truncated(),
            result: report.result_truncated,
        },
        ..streams(&report.stdout, &report.stderr)
    })
}

/// The report of a run that was ended before its program started.
pub(crate) fn never_ran() -> String {
    line(&Object { outcome: outcome(&Outcome::Cancelled), ..Object::default() })
}

/// Numbers, texts and maps with text keys: serializing cannot fail.
fn line(object: &Object<'_>) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Exited { .. } => "exited",
        Outcome::Signaled { .. } => "signaled",
        Outcome::OverLimit(_) => "over_limit",
        Outcome::Cancelled => "cancelled",
    }
}

fn streams<'a>(stdout: &Output, stderr: &Output) -> Object<'a> {
    let (stdout, stdout_base64) = text(stdout.kept());
    let (stderr, stderr_base64) = text(stderr.kept());
    Object { stdout, stdout_base64, stderr, stderr_base64, ..Object::default() }
}

/// Text, with invalid UTF-8 replaced; the exact bytes are beside it then.
fn text(bytes: Vec<u8>) -> (String, Option<String>) {
    String::from_utf8(bytes).map_or_else(
        |error| {
            let bytes = error.as_bytes();
            (String::from_utf8_lossy(bytes).into_owned(), Some(base64::encode(bytes)))
        },
        |text| (text, None),
    )
}

/// Parsed JSON, else the text itself; null for empty output.
fn result(bytes: &[u8]) -> Value {
    match bytes {
        [] => Value::Null,
        _ => {
            serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into())
        }
    }
}

fn usage(usage: &Usage) -> UsageObject {
    UsageObject {
        wall_secs: secs(usage.wall),
        cpu_user_secs: secs(usage.cpu_user),
        cpu_system_secs: secs(usage.cpu_system),
        memory_peak_bytes: usage.memory_peak,
        io_read_bytes: usage.io_read,
        io_written_bytes: usage.io_written,
        processes: usage.processes,
    }
}

fn timings(timings: &Timings) -> TimingsObject {
    TimingsObject {
        setup_secs: secs(timings.setup),
        run_secs: secs(timings.run),
        total_secs: secs(timings.total),
    }
}

/// Seconds with microsecond precision.
fn secs(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_data_if_it_can_be() {
        assert_eq!(result(b""), Value::Null);
        assert_eq!(result(b"{\"a\": [1]}"), json!({"a": [1]}));
        assert_eq!(result(b"not json"), json!("not json"));
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_exactly() {
        assert_eq!(text(b"a\xff".to_vec()), ("a\u{fffd}".to_owned(), Some("Yf8=".to_owned())));
        assert_eq!(text("ü".into()), ("ü".to_owned(), None));
    }
}
