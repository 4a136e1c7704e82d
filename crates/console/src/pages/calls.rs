//! Calls: the list, and one call from acceptance to its proof.

mod timeline;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::{Named, NamedWithin},
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{
    CallRequest, OutputStream, Unprovable, VerifiedCall,
    data::{CallQuery, Selection},
};
use ringfence_types::{
    Call, CallId, Finished, LayerState, Principal, Produced, Receipt, Scope, SessionId,
    State as CallState, Stream, ToolName,
};

use self::timeline::{Row, rows};
use crate::{
    Shared,
    error::escape,
    form,
    html::{self, Html},
    json_view,
    shell::{self, Shell},
};

/// Calls on one page.
const PAGE: usize = 50;

/// Calls read at a time, and slices of a page that find fewer calls than were asked for.
const ROUND: usize = 10;
const MAX_SLICES: usize = 16;

/// Bytes of arguments and results on one page: of large calls a whole page would be more than there is
/// memory for.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// Bytes of an output that a page shows: its end.
const MAX_OUTPUT: u64 = 48 << 10;

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
            summary: summary(call.args().as_str()),
            session: call.asked.session.as_ref().map(ToString::to_string).unwrap_or_default(),
            took: took.unwrap_or_default(),
            at: shell.time(&call.asked.accepted_at),
            id,
        }
    }
}

/// The beginning of a text, without what would change how it looks.
pub(crate) fn summary(text: &str) -> String {
    let mut short: String = text.chars().take(SUMMARY).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[derive(Debug, Template)]
#[template(path = "calls.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<CallRow>,
    filter: Filter,
    /// Query of the next page.
    older: Option<String>,
    states: &'static [&'static str],
    tools: Vec<String>,
    is_filtered: bool,
    may_call: bool,
}

/// Filters as the reader wrote them.
#[derive(Debug, Default)]
struct Filter {
    state: String,
    tool: String,
    session: String,
    parent: String,
}

/// Lists calls, newest first.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let text = |query: &mut Query, name| query.optional::<String>(name).unwrap_or_default();
    let filter = Filter {
        state: text(&mut query, "state"),
        tool: text(&mut query, "tool"),
        session: text(&mut query, "session"),
        parent: text(&mut query, "parent"),
    };
    let before = query.optional::<CallId>("before");
    if !filter.state.is_empty() && !CallState::NAMES.contains(&filter.state.as_str()) {
        query.fault("state", format!("must be one of {}", CallState::NAMES.join(", ")));
    }
    let tool = super::parsed::<ToolName>(&mut query, "tool", &filter.tool);
    let session = super::parsed::<SessionId>(&mut query, "session", &filter.session);
    let parent = super::parsed::<CallId>(&mut query, "parent", &filter.parent);
    query.finish()?;
    let wanted = CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: Some(filter.state.clone()).filter(|state| !state.is_empty()),
        tool: tool.map(|tool| tool.to_string()),
        session,
        parent,
        before,
        limit: PAGE,
    };
    let (calls, next) = page_of(&shared, caller.principal(), wanted).await?;
    let shell = Shell::new(&shared, &caller, "Calls").await?;
    let rows = calls.iter().map(|call| CallRow::of(call, &shell)).collect();
    let is_filtered = [&filter.state, &filter.tool, &filter.session, &filter.parent]
        .iter()
        .any(|text| !text.is_empty());
    let mut tools: Vec<_> =
        shared.engine.tools().entries().iter().map(|entry| entry.tool.name.to_string()).collect();
    tools.dedup();
    let older = next.map(|next| filter.query(next));
    let states = CallState::NAMES.as_slice();
    let may_call = caller.principal().scopes.allow(Scope::Call);
    let page = ListPage { shell, rows, filter, older, states, tools, is_filtered, may_call };
    Ok(shell::render(StatusCode::OK, &page))
}

impl Filter {
    /// The query of the page after this call.
    fn query(&self, before: CallId) -> String {
        let fields = [
            ("state", &self.state),
            ("tool", &self.tool),
            ("session", &self.session),
            ("parent", &self.parent),
        ];
        let set = fields.iter().filter(|(_, value)| !value.is_empty());
        let mut parts: Vec<_> =
            set.map(|(name, value)| format!("{name}={}", escape(value))).collect();
        parts.push(format!("before={before}"));
        parts.join("&")
    }
}

/// One used resource beside its limit.
#[derive(Debug)]
struct UsageRow {
    name: &'static str,
    used: String,
    allowed: String,
    bar: Html,
}

/// One isolation layer.
#[derive(Debug)]
struct LayerRow {
    name: String,
    note: String,
    is_active: bool,
}

/// Output of a program, as far as it is shown.
#[derive(Debug)]
struct OutputView {
    name: &'static str,
    length: String,
    text: Html,
    /// Words about what is left out.
    note: String,
    is_empty: bool,
}

/// A reason of policy.
#[derive(Debug)]
pub(crate) struct ReasonRow {
    pub(crate) rule: String,
    pub(crate) message: Html,
}

#[derive(Debug)]
struct DecisionView {
    verdict: Html,
    reasons: Vec<ReasonRow>,
    engine: String,
    policy: Html,
    input: Html,
    approval: Option<String>,
    is_fail_open: bool,
}

#[derive(Debug, Template)]
#[template(path = "call.html")]
struct ReadPage {
    shell: Shell,
    id: String,
    id_view: Html,
    tool: String,
    version: String,
    state: Html,
    is_held: bool,
    is_over: bool,
    accepted: Html,
    key: String,
    session: Option<String>,
    persona: Option<String>,
    parent: Option<String>,
    args: Html,
    asked_args: Option<Html>,
    metadata: Option<Html>,
    result: Option<Html>,
    error: Option<(String, String, Option<Html>)>,
    memoised: Option<String>,
    timeline: Vec<Row>,
    total: String,
    outputs: Vec<OutputView>,
    usage: Vec<UsageRow>,
    isolation: Option<String>,
    layers: Vec<LayerRow>,
    flows: Vec<String>,
    decision: Option<DecisionView>,
    tool_digest: Html,
    trace: Html,
    not_observed: Vec<String>,
    children: Vec<CallRow>,
    verified: Option<Result<VerifiedView, String>>,
    may_call: bool,
}

/// A proof that holds.
#[derive(Debug)]
struct VerifiedView {
    entries: String,
    log_size: u64,
    root: Html,
    key: Html,
}

impl VerifiedView {
    fn of(verified: &VerifiedCall) -> Self {
        let entries: Vec<_> = verified.entries.iter().map(|index| format!("#{index}")).collect();
        Self {
            entries: entries.join(", "),
            log_size: verified.log_size,
            root: html::digest(&verified.root.to_string()),
            key: html::digest(&verified.key.to_string()),
        }
    }
}

/// Shows a call.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let done = query.optional::<String>("done");
    let mut page = view(&shared, &caller, id).await?;
    page.shell = page.shell.done(done.as_deref());
    Ok(shell::render(StatusCode::OK, &page))
}

async fn view(shared: &Shared, caller: &Caller, id: CallId) -> Result<ReadPage, Problem> {
    let who = caller.principal();
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let mut shell = Shell::new(shared, caller, "Calls").await?;
    let facts = shared.engine.call_facts(who, id).await?;
    let receipt = match call.state.is_final() {
        true => shared.engine.receipt(who, id).await?,
        false => None,
    };
    let key = shared.edge.access().key(call.asked.key).await?;
    let children = CallQuery {
        tenant: who.tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: Some(id),
        before: None,
        limit: PAGE,
    };
    let (children, _) = page_of(shared, who, children).await?;
    let text = id.to_string();
    let asked = &call.asked;
    shell.title = format!("{} · {}", asked.tool.name, html::short_id(&text));
    let mut outputs = Vec::new();
    for (name, stream) in [("stdout", OutputStream::Stdout), ("stderr", OutputStream::Stderr)] {
        outputs.push(output_view(shared, who, &call, name, stream).await?);
    }
    let finished = finished(&call);
    let (timeline, total) = rows(&facts, shell.now, call.state.is_final());
    let cause = asked.cause.as_deref();
    Ok(ReadPage {
        id_view: html::id(&text, &text),
        tool: asked.tool.name.to_string(),
        version: asked.tool.version.clone(),
        state: state_of(&call),
        is_held: call.hold().is_some(),
        is_over: call.state.is_final(),
        accepted: shell.time(&asked.accepted_at),
        key: key.map_or_else(|| asked.key.to_string(), |key| key.label),
        session: asked.session.as_ref().map(ToString::to_string),
        persona: asked.persona.as_ref().map(ToString::to_string),
        parent: cause.and_then(|cause| cause.parent).map(|parent| parent.to_string()),
        args: json_view::tree(call.args()),
        asked_args: call.edited.as_ref().map(|_| json_view::tree(&asked.args)),
        metadata: (asked.metadata.as_str() != "{}").then(|| json_view::tree(&asked.metadata)),
        result: finished.and_then(|finished| match &finished.produced {
            Produced::Result(result) => Some(json_view::tree(result)),
            Produced::Error(_) => None,
        }),
        error: error(&call),
        memoised: finished.and_then(|f| f.memoised).map(|memoised| memoised.call.to_string()),
        timeline,
        total: html::precise(total),
        outputs,
        usage: receipt.as_ref().map(usage).unwrap_or_default(),
        isolation: finished.and_then(|f| f.isolation).map(|i| format!("{i:?}").to_lowercase()),
        layers: finished.map(layers).unwrap_or_default(),
        flows: receipt.as_ref().map(flows).unwrap_or_default(),
        decision: call.decision.as_ref().map(|decision| DecisionView {
            verdict: verdict(decision.verdict.name()),
            reasons: reasons(&decision.reasons),
            engine: decision.engine.clone(),
            policy: html::digest(&decision.policy.to_string()),
            input: html::digest(&decision.input.to_string()),
            approval: decision.approval.map(|approval| approval.to_string()),
            is_fail_open: decision.fail_open,
        }),
        tool_digest: html::digest(&asked.tool.digest.to_string()),
        trace: html::id(&asked.trace_id, &asked.trace_id),
        not_observed: receipt
            .map(|receipt| receipt.not_observed.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        children: children.iter().map(|call| CallRow::of(call, &shell)).collect(),
        verified: None,
        may_call: who.scopes.allow(Scope::Call),
        id: text,
        shell,
    })
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

/// Code, message and details of a call without a result.
fn error(call: &Call) -> Option<(String, String, Option<Html>)> {
    let plain = |code: &str, message: &str| Some((code.to_owned(), message.to_owned(), None));
    match &call.state {
        CallState::Finished(finished) => match &finished.produced {
            Produced::Result(_) => None,
            Produced::Error(error) => Some((
                error.code.as_str().to_owned(),
                error.message.clone(),
                error.details.as_ref().map(json_view::tree),
            )),
        },
        CallState::Denied { .. } => plain("denied", "Policy or a person did not allow the call."),
        CallState::Expired { .. } => plain("expired", "The call was held and not decided in time."),
        CallState::Cancelled { .. } => plain("cancelled", "The call was cancelled."),
        CallState::OutcomeUnknown => plain(
            "outcome_unknown",
            "The server stopped while the call ran: it may have had its effect, or part of it.",
        ),
        _ => None,
    }
}

fn usage(receipt: &Receipt) -> Vec<UsageRow> {
    let (Some(usage), Some(limits)) = (&receipt.usage, &receipt.limits) else { return Vec::new() };
    let time = |name, used: Duration, allowed: Duration| UsageRow {
        name,
        used: html::precise(used),
        allowed: html::rough(allowed),
        bar: html::bar(used.as_secs_f64(), allowed.as_secs_f64()),
    };
    let number = |name, used: u64, allowed: u64, text: fn(u64) -> String| UsageRow {
        name,
        used: text(used),
        allowed: text(allowed),
        bar: html::bar(used as f64, allowed as f64),
    };
    let cpu = usage.cpu_user + usage.cpu_system;
    let mut rows = vec![
        time("Wall time", usage.wall, limits.wall),
        time("CPU time", cpu, limits.cpu_time.unwrap_or(limits.wall)),
    ];
    rows.extend(
        usage.memory_peak.map(|peak| number("Memory", peak.0, limits.memory.0, html::bytes)),
    );
    let (used, allowed) = (u64::from(usage.processes), u64::from(limits.processes));
    rows.push(number("Processes", used, allowed, |count| count.to_string()));
    let written = receipt.stdout.length + receipt.stderr.length;
    rows.push(number("Output", written, limits.output.0, html::bytes));
    rows
}

fn layers(finished: &Finished) -> Vec<LayerRow> {
    let Some(layers) = &finished.layers else { return Vec::new() };
    let row = |(layer, state): (&ringfence_types::Layer, &LayerState)| {
        let name = serde_json::to_value(layer).ok();
        let name = name.and_then(|name| name.as_str().map(|name| name.replace('_', " ")));
        let (note, is_active) = match state {
            LayerState::Active(kind) => (kind.clone(), true),
            LayerState::Absent(reason) => (reason.clone(), false),
        };
        LayerRow { name: name.unwrap_or_default(), note, is_active }
    };
    layers.0.iter().map(row).collect()
}

fn flows(receipt: &Receipt) -> Vec<String> {
    let line = |flow: &ringfence_types::Flow| {
        let peer = flow.peer.as_deref().unwrap_or("no answer");
        let status = flow.status.map(|status| format!(", status {status}")).unwrap_or_default();
        let bytes = flow.bytes.map(|count| format!(", {}", html::bytes(count))).unwrap_or_default();
        let sent = flow.bytes_up.map(|count| format!(", {} sent", html::bytes(count)));
        let method = flow.method.as_ref().map(|method| format!("{method} ")).unwrap_or_default();
        let port = flow.port.map(|port| format!(":{port}")).unwrap_or_default();
        let times = flow.requests.filter(|count| *count > 1).map(|count| format!(" × {count}"));
        let (sent, times) = (sent.unwrap_or_default(), times.unwrap_or_default());
        match &flow.verdict {
            Some(verdict) => format!("{method}{}{port}{times} (refused: {verdict})", flow.host),
            None => format!("{method}{}{port}{times} ({peer}{status}{bytes}{sent})", flow.host),
        }
    };
    receipt.egress.iter().map(line).collect()
}

/// Wait for more output of a call that runs: short, so that the page is shown at once.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(50);

async fn output_view(
    shared: &Shared,
    who: &Principal,
    call: &Call,
    name: &'static str,
    stream: OutputStream,
) -> Result<OutputView, Problem> {
    let kept = finished(call).map(|finished| match stream {
        OutputStream::Stdout => finished.stdout.clone(),
        OutputStream::Stderr => finished.stderr.clone(),
    });
    let from = kept.as_ref().map_or(0, |kept| kept.length.saturating_sub(MAX_OUTPUT));
    let (bytes, skipped) = tail(shared, who, call.asked.id, stream, from).await?;
    let length = kept.as_ref().map_or(skipped + bytes.len() as u64, |kept| kept.length);
    let note = note(kept.as_ref(), skipped);
    Ok(OutputView {
        name,
        length: html::bytes(length),
        text: html::output(&bytes),
        note,
        is_empty: bytes.is_empty(),
    })
}

/// The end of an output, and the number of bytes before it.
async fn tail(
    shared: &Shared,
    who: &Principal,
    id: CallId,
    stream: OutputStream,
    from: u64,
) -> Result<(Vec<u8>, u64), Problem> {
    let (mut bytes, mut offset) = (Vec::new(), from);
    loop {
        let reading = shared.engine.output(who, id, stream, offset);
        let piece = match tokio::time::timeout(OUTPUT_TIMEOUT, reading).await {
            Ok(piece) => piece?,
            Err(_) => None,
        };
        let Some(piece) = piece else { break };
        offset = piece.next;
        bytes.extend(piece.bytes);
        if bytes.len() as u64 > MAX_OUTPUT {
            bytes.drain(..bytes.len() - MAX_OUTPUT as usize);
        }
        if piece.is_end {
            break;
        }
    }
    let skipped = offset.saturating_sub(bytes.len() as u64);
    Ok((bytes, skipped))
}

fn note(kept: Option<&Stream>, skipped: u64) -> String {
    let dropped = kept.and_then(|kept| kept.truncated).map(|gap| gap.dropped);
    match (dropped, skipped) {
        (Some(dropped), _) => format!("The middle was not kept: {}.", html::bytes(dropped)),
        (None, 0) => String::new(),
        (None, skipped) => {
            format!("The first {} are not shown; download for all.", html::bytes(skipped))
        }
    }
}

/// Sends an output as a file: a browser neither shows nor runs it.
pub(crate) async fn output(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    NamedWithin(id, name): NamedWithin<CallId, String>,
) -> Result<Response, Problem> {
    let stream = match name.as_str() {
        "stdout" => OutputStream::Stdout,
        "stderr" => OutputStream::Stderr,
        _ => return Err(Problem::not_found()),
    };
    let who = caller.principal();
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let (mut bytes, mut offset) = (Vec::new(), 0);
    while call.state.is_final() {
        let Some(piece) = shared.engine.output(who, id, stream, offset).await? else { break };
        offset = piece.next;
        bytes.extend(piece.bytes);
        if piece.is_end {
            break;
        }
    }
    Ok(download(bytes, "application/octet-stream", &format!("{id}.{name}.txt")))
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

/// Sends the signed receipt as a file.
pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let envelope = shared.engine.receipt_envelope(caller.principal(), id).await?;
    let envelope = envelope.ok_or_else(Problem::not_found)?;
    let kind = "application/vnd.dsse.envelope.v1+json";
    Ok(download(envelope.into_bytes(), kind, &format!("{id}.receipt.json")))
}

/// Sends the proof bundle of a call as a file, for `ringfence verify`.
pub(crate) async fn proof(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let bundle = shared.engine.export_proof(caller.principal(), Selection::Call(id), true).await;
    let bundle = bundle.map_err(unprovable)?.ok_or_else(Problem::not_found)?;
    Ok(download(bundle.render().into_bytes(), "application/json", &format!("{id}.proof.json")))
}

fn unprovable(error: Unprovable) -> Problem {
    match error {
        Unprovable::Store(error) => error.into(),
        other => Problem::new(&problem_codes::CONFLICT, other.to_string()),
    }
}

/// Verifies the entries of a call and shows the result in place.
pub(crate) async fn verify(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let verified = shared.engine.verify_call(caller.principal(), id).await.map_err(unprovable)?;
    let verified = verified.ok_or_else(Problem::not_found)?;
    let mut page = view(&shared, &caller, id).await?;
    page.verified = Some(verified.map(|verified| VerifiedView::of(&verified)));
    Ok(shell::render(StatusCode::OK, &page))
}

/// Asks for the end of a call.
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let call =
        shared.engine.cancel(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let done = if call.state.is_final() { "cancelled" } else { "cancelling" };
    Ok(shell::redirect(&format!("/console/calls/{id}?done={done}")))
}

/// Makes the same call once more.
pub(crate) async fn retry(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let who = caller.principal();
    // Its arguments are data of the tenant, which only keys that may read it see.
    if !who.scopes.allow(Scope::Read) {
        return Err(identity::scope_missing(Scope::Read));
    }
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let asked = &call.asked;
    let again = CallRequest {
        version: Some(asked.tool.version.clone()),
        session: asked.session.clone(),
        persona: asked.persona.clone(),
        metadata: asked.metadata.clone(),
        trace: Some(caller.trace().clone()),
        detached: true,
        fresh: true,
        ..CallRequest::new(asked.tool.name.clone(), call.args().clone())
    };
    let ticket = shared.engine.call(who, again).await.map_err(|refused| Problem::from(&refused))?;
    Ok(shell::redirect(&format!("/console/calls/{}", ticket.id())))
}
