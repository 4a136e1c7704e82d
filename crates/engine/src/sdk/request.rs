//! Requests of programs, parsed strictly.

use ringfence_types::{CallId, Json, ToolName};
use serde::Deserialize;

/// Characters of the message of a progress report.
const MAX_MESSAGE_CHARS: usize = 500;

/// One request of a program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SdkRequest {
    /// The call that the program runs for, as its environment names it.
    pub(super) call: Option<CallId>,
    pub(super) operation: Operation,
}

/// Meaning of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    /// Calls a tool.
    Call(ToolCall),
    /// Says how far the program is.
    Progress(Progress),
}

/// Call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolCall {
    pub(super) tool: ToolName,
    pub(super) version: Option<String>,
    pub(super) args: Json,
    /// Whether the answer waits until a held call is decided.
    pub(super) waits: bool,
}

/// Progress of a program, as it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Amount that is done.
    pub done: f64,
    /// Amount of all work, if known.
    pub total: Option<f64>,
    /// Message for people.
    pub message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    op: RawOperation,
    #[serde(rename = "for")]
    call: Option<CallId>,
    tool: Option<ToolName>,
    version: Option<String>,
    args: Option<Json>,
    hold: Option<OnHold>,
    done: Option<f64>,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawOperation {
    Call,
    Progress,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnHold {
    Raise,
    Wait,
}

/// Parses a request, or says what is wrong with it.
pub(super) fn parse(body: &[u8]) -> Result<SdkRequest, String> {
    let json = Json::parse(body).map_err(|malformed| malformed.to_string())?;
    let raw: Raw = json.read().map_err(|problem| problem.to_string())?;
    let call = raw.call;
    let of_call = raw.tool.is_some() || raw.args.is_some() || raw.version.is_some();
    let of_progress = raw.done.is_some() || raw.total.is_some() || raw.message.is_some();
    let operation = match raw.op {
        RawOperation::Call if of_progress => return Err(mixed("call")),
        RawOperation::Progress if of_call || raw.hold.is_some() => return Err(mixed("progress")),
        RawOperation::Call => {
            let args = raw.args.unwrap_or_else(Json::empty_object);
            if !args.is_object() {
                return Err("`args` must be an object".to_owned());
            }
            Operation::Call(ToolCall {
                tool: raw.tool.ok_or("`tool` is missing")?,
                version: raw.version,
                args,
                waits: raw.hold == Some(OnHold::Wait),
            })
        }
        RawOperation::Progress => {
            let message = raw.message.map(|text| text.chars().take(MAX_MESSAGE_CHARS).collect());
            let done = raw.done.ok_or("`done` is missing")?;
            Operation::Progress(Progress { done, total: raw.total, message })
        }
    };
    Ok(SdkRequest { call, operation })
}

fn mixed(operation: &str) -> String {
    format!("a request of kind `{operation}` has fields of another kind")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_names_a_tool_and_its_arguments() {
        let body =
            br#"{"op":"call","tool":"echo","args":{"n":123456789012345678901},"hold":"wait"}"#;
        let Operation::Call(call) = parse(body).expect("valid").operation else {
            panic!("a call");
        };
        assert_eq!(call.args.as_str(), r#"{"n":123456789012345678901}"#);
        assert!(call.waits && call.tool.as_str() == "echo");
    }

    #[test]
    fn progress_is_a_number_with_a_bounded_message() {
        let long = "x".repeat(2_000);
        let body = format!(r#"{{"op":"progress","done":1,"total":2.5,"message":"{long}"}}"#);
        let Operation::Progress(progress) = parse(body.as_bytes()).expect("valid").operation else {
            panic!("progress");
        };
        assert_eq!(progress.message.map(|text| text.len()), Some(MAX_MESSAGE_CHARS));
    }

    #[test]
    fn everything_else_is_refused() {
        for body in [
            "",
            "[]",
            "null",
            "{}",
            r#"{"op":"call"}"#,
            r#"{"op":"exit"}"#,
            r#"{"op":"call","tool":"echo","args":[]}"#,
            r#"{"op":"call","tool":"e c h o"}"#,
            r#"{"op":"call","tool":"echo","more":1}"#,
            r#"{"op":"call","tool":"echo","tool":"other"}"#,
            r#"{"op":"call","tool":"echo","done":1}"#,
            r#"{"op":"call","tool":"echo","hold":"skip"}"#,
            r#"{"op":"call","tool":"echo","for":"me"}"#,
            r#"{"op":"progress"}"#,
            r#"{"op":"progress","done":1,"hold":"wait"}"#,
            "{\"op\":\"call\",\"tool\":\"echo\"",
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse(&"[".repeat(100_000).into_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
