//! One call from acceptance to its proof.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    missing_call,
    path::Named,
    query::Query,
};
use ringfence_engine::{OutputStream, VerifiedCall, data::CallQuery};
use ringfence_types::{
    Call, CallFile, CallId, Finished, LayerState, Produced, Receipt, Scope, State as CallState,
};

use super::{
    CallRow, ReasonRow,
    actions::unprovable,
    finished,
    output::{OutputView, output_view},
    page_of, reasons, state_of,
    timeline::{Row, rows},
    verdict,
};
use crate::{
    Shared, form,
    html::{self, Html},
    json_view,
    shell::{self, Shell},
};

/// Calls of this call on its page.
const MAX_CHILDREN: usize = 50;

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

/// A file that the call left.
#[derive(Debug)]
struct FileRow {
    artifact: String,
    path: String,
    size: String,
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
    files: Vec<FileRow>,
    omitted: u64,
    decision: Option<DecisionView>,
    tool_digest: Html,
    trace: Html,
    not_observed: Vec<String>,
    children: Vec<CallRow>,
    verified: Option<Result<VerifiedView, String>>,
    may_call: bool,
    may_erase: bool,
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
    let Some(call) = shared.engine.get(who, id).await? else {
        return Err(missing_call(&shared.engine, who, id).await);
    };
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
        limit: MAX_CHILDREN,
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
        files: finished.map(files).unwrap_or_default(),
        omitted: finished.and_then(|f| f.files.as_ref()).map_or(0, |f| f.omitted_count),
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
        may_erase: who.scopes.allow(Scope::Admin),
        id: text,
        shell,
    })
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

/// Files that a call left.
fn files(finished: &Finished) -> Vec<FileRow> {
    let files = finished.files.iter().flat_map(|files| &files.stored);
    let row = |file: &CallFile| FileRow {
        artifact: file.artifact.to_string(),
        path: file.path.clone(),
        size: html::bytes(file.size),
    };
    files.map(row).collect()
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
