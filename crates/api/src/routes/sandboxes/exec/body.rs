//! What can be asked of a program that is to be started.

use std::{collections::BTreeMap, time::Duration};

use ringfence_engine::sandbox::session::{SessionId, Size};
use ringfence_types::Json;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{base64, routes::sandboxes::create::environment, shared::Shared};
use ringfence_edge::{Problem, fields::Fields};

/// A program to be run.
#[derive(ToSchema)]
#[schema(as = ExecRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecBody {
    /// Program and arguments, without NUL characters; a name without a slash is looked up in `PATH`.
    #[schema(min_items = 1, example = json!(["python3", "-c", "print(6 * 7)"]))]
    argv: Vec<String>,
    /// Added to the sandbox's environment.
    env: Option<BTreeMap<String, String>>,
    /// Where it starts; `/workspace` without.
    #[schema(pattern = "^/[^\\x00]{0,4094}$", example = "/workspace")]
    cwd: Option<String>,
    /// What it can read: text, bytes as `{"base64": "…"}`, or `{"open": true}` for what is sent to
    /// its place later.
    #[schema(value_type = Option<Object>)]
    stdin: Option<Given>,
    /// Gives it a terminal of this size.
    terminal: Option<SizeBody>,
    /// Seconds until it is killed: 60 by default, with a terminal the lifetime of the sandbox.
    #[schema(minimum = 0.001, maximum = 86400.0)]
    timeout_secs: Option<f64>,
    /// How many seconds to wait for its end; 300 without, 0 answers at once.
    #[schema(minimum = 0.0, maximum = 300.0)]
    wait: Option<f64>,
}

/// The size of a terminal in characters.
#[derive(ToSchema)]
#[schema(as = TerminalSize)]
#[expect(dead_code, reason = "it documents what `size` reads field by field")]
pub(crate) struct SizeBody {
    #[schema(minimum = 1, maximum = 1000, example = 24)]
    rows: u16,
    #[schema(minimum = 1, maximum = 1000, example = 80)]
    columns: u16,
}

/// A day: longer ones are services, for which a sandbox's lifetime is the bound.
const LONGEST: f64 = 86_400.0;

/// The arguments of the call, and how long to wait for it. Names everything that is wrong.
pub(super) fn read(
    shared: &Shared,
    sandbox: &SessionId,
    body: &Json,
) -> Result<(Value, Duration), Problem> {
    let mut fields = Fields::of(body)?;
    let argv: Option<Vec<String>> = fields.required("argv");
    if argv.as_ref().is_some_and(|argv| argv.first().is_none_or(String::is_empty)) {
        fields.fault("argv", "must name a program");
    }
    if argv.iter().flatten().any(|arg| arg.contains('\0')) {
        fields.fault("argv", "arguments cannot hold NUL");
    }
    environment(&mut fields);
    directory(&mut fields);
    stdin(&mut fields);
    fields.inner("terminal", size);
    let usual = LONGEST.min(60.0);
    seconds(&mut fields, "timeout_secs", usual, (0.001, LONGEST));
    let most = shared.edge.config().max_wait.as_secs_f64();
    let wait = seconds(&mut fields, "wait", most, (0.0, most));
    fields.finish(argv)?;
    Ok((args(sandbox, body, &["wait"]), wait))
}

/// A body as the arguments of a call in a sandbox, without what only the request is about.
pub(in crate::routes::sandboxes) fn args(
    sandbox: &SessionId,
    body: &Json,
    without: &[&str],
) -> Value {
    let mut args = without_nulls(body.to_value());
    if let Value::Object(fields) = &mut args {
        fields.retain(|name, _| !without.contains(&name.as_str()));
        fields.insert("sandbox".to_owned(), sandbox.as_str().into());
    }
    args
}

/// Without fields that are null, which stand for what is left out.
pub(in crate::routes::sandboxes) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

/// Where a program starts.
pub(in crate::routes::sandboxes) fn directory(fields: &mut Fields<'_>) -> Option<String> {
    let path: String = fields.optional("cwd")?;
    if !path.starts_with('/') || path.contains('\0') || path.len() > 4_095 {
        fields.fault("cwd", "must be absolute, without NUL, and at most 4095 bytes long");
    }
    Some(path)
}

/// What a program can read, in one of three ways.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(#[expect(dead_code, reason = "only that it is text matters")] String),
    Coded(Coded),
    Later(Later),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Coded {
    base64: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    open: bool,
}

fn stdin(fields: &mut Fields<'_>) {
    let is_understood = match fields.optional::<Given>("stdin") {
        None | Some(Given::Text(_)) => true,
        Some(Given::Coded(coded)) => base64::decode(&coded.base64).is_some(),
        Some(Given::Later(later)) => later.open,
    };
    if !is_understood {
        fields.fault("stdin", "must be text, `{\"base64\": \"…\"}` or `{\"open\": true}`");
    }
}

/// The size of a terminal. `None` means that a fault was noted.
pub(super) fn size(fields: &mut Fields<'_>) -> Option<Size> {
    let mut side = |name: &str| {
        if !fields.has(name) {
            fields.fault(name, "is required");
        }
        let side = fields.whole(name)?;
        if !(1..=1_000).contains(&side) {
            fields.fault(name, "must be from 1 to 1000");
            return None;
        }
        u16::try_from(side).ok()
    };
    let (rows, columns) = (side("rows"), side("columns"));
    Some(Size { rows: rows?, columns: columns? })
}

/// A span of seconds within bounds, the usual one without.
pub(in crate::routes::sandboxes) fn seconds(
    fields: &mut Fields<'_>,
    name: &str,
    usual: f64,
    (least, most): (f64, f64),
) -> Duration {
    let secs = fields.optional::<f64>(name).unwrap_or(usual);
    if !(least..=most).contains(&secs) {
        fields.fault(name, format!("must be from {least} to {most}"));
        return Duration::ZERO;
    }
    Duration::from_secs_f64(secs)
}
