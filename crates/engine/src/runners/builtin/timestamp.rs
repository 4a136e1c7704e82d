//! `timestamp`: the time, in UTC, as `strftime` formats it.

use jiff::{fmt::strtime, tz::TimeZone};
use ringfence_policy::{Action, Permit};
use ringfence_types::Timestamp;
use serde_json::{Value, json};

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, message, object};

pub(super) const TOOL: Builtin = Builtin {
    name: "timestamp",
    description: "Returns the time in UTC, formatted as by strftime.",
    flags: &["none"],
    input: || {
        let format = json!({"type": "string", "maxLength": 256, "default": "%Y-%m-%dT%H:%M:%SZ"});
        object(&[], json!({"format": format}))
    },
    output: message,
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(run(&job.args().to_value(), job.started_at)) })
}

const DEFAULT_FORMAT: &str = "%Y-%m-%dT%H:%M:%SZ";

fn run(args: &Value, now: Timestamp) -> InlineResult {
    let wanted = args.get("format").and_then(Value::as_str).unwrap_or(DEFAULT_FORMAT);
    let now = now.to_jiff().to_zoned(TimeZone::UTC);
    // Compatible: `%c` and `%x` are those of the C locale.
    let config = strtime::Config::new().custom(strtime::PosixCustom::new());
    let format =
        |format: &str| strtime::BrokenDownTime::from(&now).to_string_with_config(&config, format);
    // Compatible: an invalid format is answered with the default one.
    let message = format(wanted).or_else(|_| format(DEFAULT_FORMAT));
    Ok(json!({"message": message.unwrap_or_default()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_strftime_and_nonsense_gives_the_usual_one() {
        let now = Timestamp::from_micros(1_700_000_000_123_456);
        let say = |args: Value| run(&args, now).unwrap()["message"].clone();
        assert_eq!(say(json!({})), "2023-11-14T22:13:20Z");
        assert_eq!(say(json!({"format": "%d.%m.%y %H Uhr %%"})), "14.11.23 22 Uhr %");
        assert_eq!(say(json!({"format": "%"})), "2023-11-14T22:13:20Z");
        assert_eq!(
            say(json!({"format": "%c|%x|%X"})),
            "Tue Nov 14 22:13:20 2023|11/14/23|22:13:20"
        );
    }
}
