//! Calls: the list, and one call from acceptance to its proof.

mod actions;
mod detail;
mod list;
mod output;
mod timeline;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{Problem, reply};
use ringfence_engine::data::CallQuery;
use ringfence_types::{Call, CallId, Finished, Json, Principal, Produced, State as CallState};

pub(crate) use self::{
    actions::{cancel, erase, proof, receipt, retry},
    detail::{read, verify},
    list::list,
    output::output,
};
use crate::{
    Shared,
    html::{self, Html},
    json_view::Node,
    shell::Shell,
};

/// Calls read at a time, and slices of a page that find fewer calls than were asked for.
const ROUND: usize = 10;
const MAX_SLICES: usize = 16;

/// Bytes of arguments and results on one page: of large calls a whole page would be more than there is
/// memory for.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Calls by a query, and where the next page begins.
pub(crate) async fn page_of(
    shared: &Shared,
    who: &Principal,
    mut query: CallQuery,
) -> Result<(Vec<Call>, Option<CallId>), Problem> {
    let limit = query.limit;
    let (mut calls, mut bytes, mut slices) = (Vec::new(), 0, 0);
    loop {
        query.limit = ROUND.min(limit - calls.len());
        let (found, next) = shared.engine.list(who, query.clone()).await?;
        slices += usize::from(found.len() < query.limit);
        bytes += found.iter().map(weight).sum::<usize>();
        calls.extend(found);
        query.before = next;
        let is_full = calls.len() >= limit || bytes >= MAX_PAGE_BYTES || slices >= MAX_SLICES;
        if next.is_none() || is_full {
            return Ok((calls, next));
        }
    }
}

/// Bytes of the parts of a call that have any size.
fn weight(call: &Call) -> usize {
    let result = match finished(call).map(|finished| &finished.produced) {
        Some(Produced::Result(result)) => result.as_str().len(),
        _ => 0,
    };
    call.args().as_str().len() + call.asked.metadata.as_str().len() + result
}

pub(crate) fn finished(call: &Call) -> Option<&Finished> {
    match &call.state {
        CallState::Finished(finished) => Some(finished),
        _ => None,
    }
}

/// The state of a call with its meaning as a colour.
pub(crate) fn state_of(call: &Call) -> Html {
    let is_error = finished(call).is_some_and(|finished| !finished.is_success());
    html::state(call.state.name(), is_error)
}

/// A call in a list.
#[derive(Debug)]
pub(crate) struct CallRow {
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) state: Html,
    pub(crate) tool: String,
    pub(crate) summary: String,
    pub(crate) session: String,
    pub(crate) took: String,
    pub(crate) at: Html,
}

/// Characters of arguments in a list.
const SUMMARY: usize = 90;

impl CallRow {
    pub(crate) fn of(call: &Call, shell: &Shell) -> Self {
        let id = call.asked.id.to_string();
        let took = finished(call).map(|finished| html::precise(finished.duration));
        Self {
            short: html::short_id(&id).to_owned(),
            state: state_of(call),
            tool: call.asked.tool.name.to_string(),
            summary: summary(call.args()),
            session: call.asked.session.as_ref().map(ToString::to_string).unwrap_or_default(),
            took: took.unwrap_or_default(),
            at: shell.time(&call.asked.accepted_at),
            id,
        }
    }
}

/// The beginning of a text, without what would change how it looks.
fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(SUMMARY).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Arguments as one line of names and values, such as `to: ann@example.com, subject: Hello`.
pub(crate) fn summary(args: &Json) -> String {
    let Node::Object(members) = Node::of(args) else { return cut(args.as_str()) };
    let value = |node: &Node| match node {
        Node::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        other => other.line(),
    };
    let mut line = String::new();
    for (name, node) in &members {
        if line.len() > 4 * SUMMARY {
            break;
        }
        let before = if line.is_empty() { "" } else { ", " };
        line.push_str(&format!("{before}{name}: {}", value(node)));
    }
    cut(&line)
}

/// A reason of policy.
#[derive(Debug)]
pub(crate) struct ReasonRow {
    pub(crate) rule: String,
    pub(crate) message: Html,
}

/// A verdict with its meaning as a colour.
pub(crate) fn verdict(name: &str) -> Html {
    let tone = match name {
        "allow" => "good",
        "hold" => "wait",
        _ => "bad",
    };
    html::pill(tone, name)
}

/// Reasons of policy.
pub(crate) fn reasons(reasons: &[ringfence_types::Reason]) -> Vec<ReasonRow> {
    let row = |reason: &ringfence_types::Reason| ReasonRow {
        rule: reason.rule.clone(),
        message: html::text(&reason.message),
    };
    reasons.iter().map(row).collect()
}

/// An answer that a browser saves as a file.
pub(crate) fn download(bytes: Vec<u8>, kind: &'static str, name: &str) -> Response {
    let mut response = reply::of(StatusCode::OK, HeaderValue::from_static(kind), bytes.into());
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(value) = HeaderValue::try_from(disposition) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}
