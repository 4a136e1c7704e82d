//! Results of requests that never became calls.

use ringfence_bus::Message;
use ringfence_engine::Refused;
use ringfence_types::{Json, Timestamp};
use serde::Serialize;

use crate::{RESULTS, request::ToolRequest, schema};

/// Why a request was refused, as its result says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) message: String,
    /// Each problem and where it is.
    pub(crate) problems: Vec<String>,
}

/// Status of a result without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Error,
    Blocked,
    CircuitOpen,
}

impl Refusal {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), problems: Vec::new() }
    }

    /// The refusal of the engine, where trying again would not help.
    pub(crate) fn of(refused: &Refused, tool: &str) -> Option<Self> {
        Some(match refused {
            // The sentence of SomaAgent 01.
            Refused::UnknownTool { .. } => {
                Self::new(Status::Error, format!("Unknown tool '{tool}'"))
            }
            Refused::InvalidArguments { summary, violations } => Self {
                problems: violations
                    .iter()
                    .map(|v| format!("{}: {}", v.pointer, v.message))
                    .collect(),
                ..Self::new(Status::Error, summary.clone())
            },
            Refused::UnknownVersion { .. }
            | Refused::NotActive { .. }
            | Refused::BrokenTool { .. }
            | Refused::ForeignPersona(_)
            | Refused::InvalidIdempotencyKey
            | Refused::ParentNotRunning(_)
            | Refused::TooDeep => Self::new(Status::Error, refused.to_string()),
            Refused::CircuitOpen { .. } => Self::new(
                Status::CircuitOpen,
                format!("Tool execution temporarily disabled: {refused}"),
            ),
            Refused::NoSandbox => Self::new(
                Status::CircuitOpen,
                "Tool execution temporarily disabled: this host cannot make sandboxes",
            ),
            Refused::KeyReused(_)
            | Refused::StillRunning(_)
            | Refused::Erased(_)
            | Refused::Busy { .. }
            | Refused::Stopping
            | Refused::Store(_) => return None,
        })
    }
}

/// A `tool_result` as its schema defines it.
#[derive(Serialize)]
struct ToolResult<'a> {
    event_id: &'a str,
    execution_time: f64,
    metadata: &'a Json,
    payload: Payload<'a>,
    persona_id: Option<&'a str>,
    session_id: &'a str,
    status: Status,
    tool_name: &'a str,
}

#[derive(Serialize)]
struct Payload<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    problems: &'a [String],
}

/// Message with the result of a refused request. Its id follows from the request's, so that a request
/// that is refused twice has one result for all who look at ids. A result that does not fit its schema is
/// never published: the error says why.
pub(crate) fn result(
    request: &ToolRequest,
    refusal: &Refusal,
    source: &str,
    now: Timestamp,
) -> Result<Message, String> {
    let event_id = format!("{}-refused", request.event_id);
    let result = ToolResult {
        event_id: &event_id,
        execution_time: 0.0,
        metadata: &request.metadata,
        payload: Payload { message: &refusal.message, problems: &refusal.problems },
        persona_id: request.persona_id.as_deref(),
        session_id: &request.session_id,
        status: refusal.status,
        tool_name: &request.tool_name,
    };
    let value = serde_json::to_value(&result).expect("plain data with text keys can be written");
    let problems = schema::problems("tool_result.json", &value);
    if !problems.is_empty() {
        return Err(format!("its result does not fit the schema: {}", problems.join("; ")));
    }
    let payload = serde_json::to_vec(&result).expect("plain data with text keys can be written");
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let headers = vec![
        header("content-type", "application/json"),
        header("ce_specversion", "1.0"),
        header("ce_id", &event_id),
        header("ce_source", source),
        header("ce_type", RESULTS),
        header("ce_time", &now.to_string()),
    ];
    let key = match request.session_id.as_str() {
        "" => request.event_id.as_str(),
        session => session,
    };
    Ok(Message { topic: RESULTS.to_owned(), key: Some(key.into()), headers, payload })
}
