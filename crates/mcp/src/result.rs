//! The state of a call in the words of the protocol. Refusals, denials and failures are results for the
//! model to read, not errors of the protocol.

use ringfence_edge::Problem;
use ringfence_types::{
    Call, CallError, Finished, Json, Produced, Reason, State, Stream, TOOL_SEPARATOR,
};
use rmcp::model::{CallToolResult, ContentBlock, Resource};

use crate::metadata;

/// Bytes of a failed program's standard error that a result repeats.
const MAX_DETAILS: usize = 16 << 10;

/// Result of a call that has ended.
pub(crate) fn ended(call: &Call, is_stateless: bool) -> CallToolResult {
    match &call.state {
        State::Finished(finished) => finish(call, finished, is_stateless),
        State::Denied { reasons } => {
            failed(call, "denied", &said("Policy does not allow this call", reasons))
        }
        State::Expired { reasons } => {
            failed(call, "expired", &said("This call was not approved in time", reasons))
        }
        State::Cancelled { .. } => failed(call, "cancelled", "The call was cancelled."),
        State::OutcomeUnknown => failed(
            call,
            "outcome_unknown",
            "The server stopped while the call ran: its effect may have happened in full, in part or \
             not at all.",
        ),
        // Not an end; the caller has a better text for it.
        _ => failed(call, "pending", "The call has not ended."),
    }
}

fn finish(call: &Call, finished: &Finished, is_stateless: bool) -> CallToolResult {
    let mut result = match &finished.produced {
        Produced::Result(value) => succeeded(call, value, is_stateless),
        Produced::Error(error) => failed(call, error.code.as_str(), &error_text(error)),
    };
    result.content.extend(output_links(call, finished));
    result
}

/// Result of a tool of another MCP server, as that server gave it.
fn remote(call: &Call, value: &Json) -> Option<CallToolResult> {
    #[derive(serde::Deserialize)]
    struct Remote {
        content: Vec<ContentBlock>,
        #[serde(rename = "structuredContent")]
        structured: Option<serde_json::Value>,
    }
    if !call.asked.tool.name.as_str().contains(TOOL_SEPARATOR) {
        return None;
    }
    let Remote { content, structured } = value.read().ok()?;
    let mut result = CallToolResult::success(content);
    result.structured_content = structured;
    result.meta = Some(metadata::of_call(call, None));
    Some(result)
}

fn succeeded(call: &Call, value: &Json, is_stateless: bool) -> CallToolResult {
    if let Some(result) = remote(call, value) {
        return result;
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.as_str())]);
    // Before 2026-07-28 it is an object or absent.
    if is_stateless || value.is_object() {
        result.structured_content = Some(value.to_value());
    }
    result.meta = Some(metadata::of_call(call, None));
    result
}

/// A result about a call that has no result of its own.
pub(crate) fn failed(call: &Call, code: &str, text: &str) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(metadata::of_call(call, Some(code)));
    result
}

/// A result about a request that was refused before there was a call.
pub(crate) fn refused(problem: &Problem) -> CallToolResult {
    let mut text = sentence(problem.detail());
    for fault in problem.all_faults() {
        text.push_str(&format!("\n- {}: {}", fault.pointer, fault.detail));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(metadata::of_refusal(problem.code().code));
    result
}

/// A sentence, then each reason with its rule.
pub(crate) fn said(sentence: &str, reasons: &[Reason]) -> String {
    let mut text = format!("{sentence}:");
    for reason in reasons {
        text.push_str(&format!("\n- {} (rule `{}`)", reason.message, reason.rule));
    }
    text
}

fn error_text(error: &CallError) -> String {
    let mut text = sentence(&error.message);
    if let Some(details) = &error.details {
        let details = details.as_str();
        let end = details.floor_char_boundary(MAX_DETAILS);
        text.push_str(&format!("\n{}", &details[..end]));
    }
    text
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Links to what the program wrote.
fn output_links(call: &Call, finished: &Finished) -> Vec<ContentBlock> {
    let id = call.asked.id;
    let link = |name: &str, stream: &Stream| {
        let size = (stream.length > 0).then_some(stream.length)?;
        let resource = Resource::new(format!("ringfence://calls/{id}/{name}"), name)
            .with_mime_type("text/plain")
            .with_size(size);
        Some(ContentBlock::resource_link(resource))
    };
    [link("stdout", &finished.stdout), link("stderr", &finished.stderr)]
        .into_iter()
        .flatten()
        .collect()
}
