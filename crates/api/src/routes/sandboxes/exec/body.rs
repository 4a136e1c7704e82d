//! Request for a program in a sandbox.

use std::{collections::BTreeMap, time::Duration};

use ringfence_engine::sandbox::session::{SessionId, Size};
use ringfence_types::Json;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{base64, routes::sandboxes::create::environment, shared::Shared};
use ringfence_edge::{Problem, fields::Fields};

/// Program to run.
#[derive(ToSchema)]
#[schema(as = ExecRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecBody {
    /// Program and arguments, without NUL characters; a name without a slash is looked up in `PATH`.
    #[schema(min_items = 1, example = json!(["python3", "-c", "print(6 * 7)"]))]
    argv: Vec<String>,
    /// Environment, added to the sandbox's.
    env: Option<BTreeMap<String, String>>,
    /// Working directory; default `/workspace`.
    #[schema(pattern = "^/[^\\x00]{0,4094}$", example = "/workspace")]
    cwd: Option<String>,
    /// Standard input: text, bytes as `{"base64": "…"}`, or `{"open": true}` for input that is sent
    /// later.
    #[schema(value_type = Option<Object>)]
    stdin: Option<StdinBody>,
    /// Size of its terminal, if it gets one.
    terminal: Option<SizeBody>,
    /// Seconds until it is killed: 60 by default, with a terminal the lifetime of the sandbox.
    #[schema(minimum = 0.001, maximum = 86400.0)]
    timeout_secs: Option<f64>,
    /// Seconds to wait for its end; default 300, 0 answers at once.
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

/// Maximum timeout in seconds, one day: longer programs are services, bounded by the sandbox's
/// lifetime.
const MAX_TIMEOUT_SECS: f64 = 86_400.0;

/// The arguments of the call, and the time to wait for it. Reports every problem.
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
    let usual = MAX_TIMEOUT_SECS.min(60.0);
    seconds(&mut fields, "timeout_secs", usual, (0.001, MAX_TIMEOUT_SECS));
    let most = shared.edge.config().max_wait.as_secs_f64();
    let wait = seconds(&mut fields, "wait", most, (0.0, most));
    fields.finish(argv)?;
    Ok((args(sandbox, body, &["wait"]), wait))
}

/// A body as the arguments of a call in a sandbox, without the fields that concern only the
/// request.
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

/// The value without null fields, which stand for omitted ones.
pub(in crate::routes::sandboxes) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

/// Working directory of a program.
pub(in crate::routes::sandboxes) fn directory(fields: &mut Fields<'_>) -> Option<String> {
    let path: String = fields.optional("cwd")?;
    if !path.starts_with('/') || path.contains('\0') || path.len() > 4_095 {
        fields.fault("cwd", "must be absolute, without NUL, and at most 4095 bytes long");
    }
    Some(path)
}

/// Standard input, in one of three ways.
#[derive(Deserialize)]
#[serde(untagged)]
enum StdinBody {
    Text(#[expect(dead_code, reason = "only that it is text matters")] String),
    Base64(Base64Body),
    Later(Later),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64Body {
    base64: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    open: bool,
}

fn stdin(fields: &mut Fields<'_>) {
    let is_understood = match fields.optional::<StdinBody>("stdin") {
        None | Some(StdinBody::Text(_)) => true,
        Some(StdinBody::Base64(coded)) => base64::decode(&coded.base64).is_some(),
        Some(StdinBody::Later(later)) => later.open,
    };
    if !is_understood {
        fields.fault("stdin", "must be text, `{\"base64\": \"…\"}` or `{\"open\": true}`");
    }
}

/// Size of a terminal; `None` after a reported problem.
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

/// Seconds within bounds, or the default.
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
