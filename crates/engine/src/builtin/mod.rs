//! Tools that are part of the binary.
//!
//! Those that only look at their arguments run inline: there is nothing to confine. Code runs in a
//! sandbox like any skill.

mod canvas_append;
mod catalogue;
mod code_execute;
mod echo;
mod file_read;
mod http_fetch;
mod timestamp;

use std::{sync::Arc, time::Duration};

use ringfence_policy::Permit;
use ringfence_registry::{Entry, Violation};
use ringfence_types::{CallError, ErrorCode, Json, Produced, Seen, Timestamp, ToolName};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::{canvas_append::CANVAS_BYTES, catalogue::tools};
use crate::{
    active_call::ActiveCall,
    dispatch::{Started, Work, ended, without_program},
    record::Ended,
    validate,
};

/// What an inline tool gives.
type Given = Result<Value, CallError>;

/// Whether a built-in looks at nothing but its arguments and changes nothing. Code is up to whoever
/// wrote it; the clock and a session are not arguments.
pub(crate) fn looks_at_arguments_only(name: &ToolName) -> bool {
    matches!(name.as_str(), "echo" | "code_execute")
}

/// Starts the built-in tool of the call.
pub(crate) async fn start(
    active: &ActiveCall,
    entry: &Arc<Entry>,
    permit: Permit,
    started_at: Timestamp,
) -> Started {
    let end = |given| inline(active, entry, started_at, given);
    let args = active.args().to_value();
    match active.asked().tool.name.as_str() {
        "echo" => end(echo::run(&args)),
        "timestamp" => end(timestamp::run(&args, started_at)),
        "file_read" => end(file_read::run(active, &args).await),
        "http_fetch" => fetching(active, entry, &permit, started_at, &args),
        "canvas_append" => canvas(active, entry, started_at),
        "code_execute" => code_execute::start(active, entry, permit, started_at, &args).await,
        other => {
            let message = format!("there is no built-in tool `{other}`");
            ended(crate::dispatch::failure(ErrorCode::UnknownBuiltin, message, started_at))
        }
    }
}

/// The end of a tool that ran inline.
fn inline(active: &ActiveCall, entry: &Entry, started_at: Timestamp, given: Given) -> Started {
    ended(without_program(produced(entry, given), started_at, took(active, started_at)))
}

/// A fetch under way. Its end has where it went, whether or not it brought something back.
fn fetching(
    active: &ActiveCall,
    entry: &Arc<Entry>,
    permit: &Permit,
    started_at: Timestamp,
    args: &Value,
) -> Started {
    let request = match http_fetch::request(active, permit.obligations(), args) {
        Ok(request) => request,
        Err(error) => return inline(active, entry, started_at, Err(error)),
    };
    let (inner, entry, stop) = (active.inner.clone(), entry.clone(), CancellationToken::new());
    let asked = stop.clone();
    let fetch = async move {
        let mut hops = Vec::new();
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => None,
            given = http_fetch::run(&inner, request, &mut hops) => Some(given),
        };
        let bytes = given.as_ref().and_then(|given| given.as_ref().ok()).map(|(_, bytes)| *bytes);
        let went = Seen { egress: http_fetch::flows(&hops, bytes), ..Seen::default() };
        let Some(given) = given else { return Ended::Stopped { seen: went } };
        let given = given.map(|(given, _)| given);
        let took = inner.parts.clock.now().since(started_at);
        let mut end = without_program(produced(&entry, given), started_at, took);
        if let Ended::Finished { seen, .. } = &mut end {
            *seen = went;
        }
        end
    };
    Started::Running(Work::ours(fetch, stop))
}

fn canvas(active: &ActiveCall, entry: &Entry, started_at: Timestamp) -> Started {
    let (given, event) = canvas_append::run(active, started_at);
    let mut end = without_program(produced(entry, given), started_at, took(active, started_at));
    if let Ended::Finished { session_events, finished, .. } = &mut end
        && finished.is_success()
    {
        session_events.extend(event);
    }
    ended(end)
}

fn took(active: &ActiveCall, started_at: Timestamp) -> Duration {
    active.inner.parts.clock.now().since(started_at)
}

fn produced(entry: &Entry, given: Given) -> Produced {
    let too_deep = || error(ErrorCode::OutputInvalid, &"the result is nested too deep");
    match given.and_then(|value| Json::from_value(&value).ok_or_else(too_deep)) {
        Ok(result) => validate::output(entry, result),
        Err(error) => Produced::Error(error),
    }
}

fn error(code: ErrorCode, message: &dyn std::fmt::Display) -> CallError {
    CallError { code, message: message.to_string(), details: None }
}

fn text<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or("")
}

/// How the tool itself has always complained about a missing or wrong argument.
pub(crate) fn complaint(tool: &str, violations: &[Violation]) -> Option<&'static str> {
    let about = |name: &str| {
        let quoted = [format!("\"{name}\""), format!("'{name}'"), format!("`{name}`")];
        violations.iter().any(|violation| {
            let at_it = violation.pointer == format!("/{name}");
            let missing = violation.keyword == "required"
                && quoted.iter().any(|quoted| violation.message.contains(quoted));
            at_it || missing
        })
    };
    let known: &[(&str, &str)] = match tool {
        "echo" => &[("text", "echo requires a 'text' field")],
        "code_execute" => &[
            ("language", "Only Python, JavaScript and Bash code execution is supported"),
            ("code", "Provide source via 'code'"),
        ],
        "file_read" => &[("path", "'path' argument is required")],
        "http_fetch" => &[("url", "Valid 'url' argument required")],
        "canvas_append" => {
            &[("session_id", "'session_id' is required"), ("content", "'content' is required")]
        }
        _ => &[],
    };
    known.iter().find(|(name, _)| about(name)).map(|(_, words)| *words)
}
