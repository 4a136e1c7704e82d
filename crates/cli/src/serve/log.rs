//! What is logged, to standard error: text for people, one object per line for programs.
//!
//! Each line that is written while work is done for somebody says for whom: trace, tenant, persona
//! and call, as far as they are known, and under which rules.

use std::{
    fmt::{self, Write},
    io::{IsTerminal, stderr},
};

use ringfence_engine::Subject;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format, format::Writer},
    registry::LookupSpan,
};

use crate::{failure::Failure, settings::Log};

/// Starts it, for good.
pub(super) fn start(log: &Log) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&log.level)
        .map_err(|error| Failure::because(format!("log.level: `{}`", log.level), &error))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let started = match log.is_json {
        true => {
            let json = format().json().flatten_event(true).with_current_span(false);
            let subscriber = subscriber.fmt_fields(format::JsonFields::new());
            subscriber.event_format(Addressed { format: json, add: as_json }).try_init()
        }
        false => {
            let text = format().with_ansi(stderr().is_terminal()).with_target(false);
            subscriber.event_format(Addressed { format: text, add: as_text }).try_init()
        }
    };
    started.map_err(|error| Failure::because("cannot start the log", error.as_ref()))
}

/// A format, and how the subject is added to a line of it.
struct Addressed<F> {
    format: F,
    add: fn(&mut String, &Subject),
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
        let mut line = String::with_capacity(256);
        self.format.format_event(context, Writer::new(&mut line), event)?;
        Subject::look(|subject| (self.add)(&mut line, subject));
        writer.write_str(&line)
    }
}

/// What is known of a subject, under the names that the API has for it.
fn fields(subject: &Subject) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("trace_id", Some(subject.trace.to_string())),
        ("tenant", subject.tenant.as_ref().map(ToString::to_string)),
        ("persona_id", subject.persona.as_ref().map(ToString::to_string)),
        ("call_id", subject.call.as_ref().map(ToString::to_string)),
        ("policy", subject.policy.as_ref().map(ToString::to_string)),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.map(|value| (name, value)))
}

fn as_text(line: &mut String, subject: &Subject) {
    line.truncate(line.trim_end_matches('\n').len());
    for (name, value) in fields(subject) {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={value}");
    }
    line.push('\n');
}

/// A line is one object, so its last brace is where more of it goes.
fn as_json(line: &mut String, subject: &Subject) {
    let Some(end) = line.rfind('}') else { return };
    line.truncate(end);
    for (name, value) in fields(subject) {
        let _ = write!(line, ",\"{name}\":{}", serde_json::Value::String(value));
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
        as_text(&mut line, &subject());
        let trace = "0000000000000000000000000000000a";
        assert_eq!(line, format!("INFO a word trace_id={trace} tenant=acme persona_id=a\"b\n"));
    }

    #[test]
    fn a_line_of_json_stays_one_object_whatever_the_names_are() {
        let mut line = "{\"message\":\"a } word\"}\n".to_owned();
        as_json(&mut line, &subject());
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], "a } word");
        assert_eq!(read["persona_id"], "a\"b");
        assert_eq!(read["tenant"], "acme");
    }
}
