//! Log on standard error: text for people, one object per line for programs.
//!
//! A line written during work for a client has its subject: trace, tenant, persona and call, as far
//! as they are known, and the rules in force.
//!
//! A warning that repeats itself is written once in an interval, with a count (`repeated`).

mod repeats;

use std::{
    fmt::{self, Write},
    io::{IsTerminal, stderr},
    time::Instant,
};

use ringfence_engine::Subject;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format, format::Writer},
    registry::LookupSpan,
};

use self::repeats::{Repeats, Verdict};
use crate::{failure::Failure, settings::Log};

/// The MCP library logs whole messages, whose arguments do not belong in a log.
const PROTOCOL_LOG: &str = "rmcp=off";

/// Starts the log for the rest of the process.
pub(super) fn start(log: &Log) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&log.level)
        .map_err(|error| Failure::because(format!("log.level: `{}`", log.level), &error))?
        .add_directive(PROTOCOL_LOG.parse().expect("a directive of ours"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let started = match log.is_json {
        true => {
            let json = format().json().flatten_event(true).with_current_span(false);
            let subscriber = subscriber.fmt_fields(format::JsonFields::new());
            subscriber.event_format(Addressed::new(json, as_json)).try_init()
        }
        false => {
            let text = format().with_ansi(stderr().is_terminal()).with_target(false);
            subscriber.event_format(Addressed::new(text, as_text)).try_init()
        }
    };
    started.map_err(|error| Failure::because("cannot start the log", error.as_ref()))
}

/// Function that adds fields to a line.
type Add = fn(&mut String, &[(&'static str, String)]);

/// A format, its function for fields, and the repeated lines.
struct Addressed<F> {
    format: F,
    add: Add,
    repeats: Repeats,
}

impl<F> Addressed<F> {
    fn new(format: F, add: Add) -> Self {
        Self { format, add, repeats: Repeats::default() }
    }
}

impl<S, N, F> FormatEvent<S, N> for Addressed<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Verdict::Write { left_out } = self.repeats.judge(event, Instant::now()) else {
            return Ok(());
        };
        let mut line = String::with_capacity(256);
        self.format.format_event(context, Writer::new(&mut line), event)?;
        if left_out > 0 {
            (self.add)(&mut line, &[("repeated", left_out.to_string())]);
        }
        Subject::look(|subject| (self.add)(&mut line, &fields(subject)));
        writer.write_str(&line)
    }
}

/// Fields of a subject, under their names in the API.
fn fields(subject: &Subject) -> Vec<(&'static str, String)> {
    let fields = [
        ("trace_id", Some(subject.trace.to_string())),
        ("tenant", subject.tenant.as_ref().map(ToString::to_string)),
        ("persona_id", subject.persona.as_ref().map(ToString::to_string)),
        ("call_id", subject.call.as_ref().map(ToString::to_string)),
        ("policy", subject.policy.as_ref().map(ToString::to_string)),
    ];
    fields.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

fn as_text(line: &mut String, fields: &[(&'static str, String)]) {
    line.truncate(line.trim_end_matches('\n').len());
    for (name, value) in fields {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={value}");
    }
    line.push('\n');
}

/// Adds fields to a line that is one object: before its last brace.
fn as_json(line: &mut String, fields: &[(&'static str, String)]) {
    let Some(end) = line.rfind('}') else { return };
    line.truncate(end);
    for (name, value) in fields {
        let _ = write!(line, ",\"{name}\":{}", serde_json::Value::from(value.as_str()));
    }
    line.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use ringfence_types::TraceId;

    use super::*;

    fn subject() -> Subject {
        Subject {
            tenant: Some("acme".parse().unwrap()),
            persona: Some("a\"b".parse().unwrap()),
            ..Subject::of_trace(TraceId::from_random(10))
        }
    }

    #[test]
    fn a_line_of_text_names_its_subject() {
        let mut line = "INFO a word\n".to_owned();
        as_text(&mut line, &fields(&subject()));
        let trace = "0000000000000000000000000000000a";
        assert_eq!(line, format!("INFO a word trace_id={trace} tenant=acme persona_id=a\"b\n"));
    }

    #[test]
    fn a_line_of_json_stays_one_object_whatever_the_names_are() {
        let mut line = "{\"message\":\"a } word\"}\n".to_owned();
        as_json(&mut line, &fields(&subject()));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], "a } word");
        assert_eq!(read["persona_id"], "a\"b");
        assert_eq!(read["tenant"], "acme");
    }
}
