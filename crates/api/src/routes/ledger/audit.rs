//! Audit of the ledger: page by page, or as a stream of lines.

use std::sync::Arc;

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    query::Query,
    reply,
};
use ringfence_engine::{
    Engine,
    data::{EntryQuery, Placed, StoreError},
};
use ringfence_types::{CallId, EntryKind, PersonaId, Principal, SessionId, Timestamp, ToolName};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Page of ledger entries.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditPage)]
pub(crate) struct PageView {
    /// Entries in order.
    entries: Vec<LedgerEntryView>,
    /// Cursor of the next page; none on the last. A page may have fewer entries than `limit`, or
    /// none, without being the last.
    next_cursor: Option<String>,
}

/// Entry of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct LedgerEntryView {
    /// Index in the log.
    index: u64,
    /// `call`, `decision`, `approval`, `resolution`, `tool`, `key`, `secret`, `checkpoint-key`,
    /// `maintenance` or `erasure`.
    kind: &'static str,
    /// Time of the event.
    at: String,
    /// The call of the entry.
    call_id: Option<String>,
    /// Persona that it concerns.
    persona_id: Option<String>,
    /// Tool of the entry.
    tool: Option<String>,
    /// Leaf hash in the log.
    leaf: String,
    /// Id of the signing key.
    keyid: String,
    /// Statement in in-toto form.
    #[schema(value_type = Object)]
    statement: Box<RawValue>,
}

/// Lists ledger entries of the tenant and of the whole server, oldest first.
///
/// A page reads a bounded number of entries. It may have fewer than `limit`, or none, without being
/// the last: continue while there is a `next_cursor`. With `Accept: application/x-ndjson` all
/// matching entries are sent, one per line.
#[utoipa::path(
    get, path = "/v1/audit", tag = "ledger",
    params(
        ("kind" = Option<String>, Query, description = "Only of this kind"),
        ("tool" = Option<String>, Query, description = "Only about this tool"),
        ("call_id" = Option<String>, Query, description = "Only about this call"),
        ("session_id" = Option<String>, Query, description = "Only about calls of this session"),
        ("persona_id" = Option<String>, Query, description = "Only of this persona"),
        ("since" = Option<String>, Query, description = "Only from this time on"),
        ("until" = Option<String>, Query, description = "Only before this time"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 200; default 50"),
    ),
    responses((status = 200, description = "Entries", body = PageView))
)]
pub(crate) async fn audit(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = query(&caller, &uri)?;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains("application/x-ndjson")) {
        return Ok(lines(shared.engine.clone(), caller.principal().clone(), query));
    }
    let page = shared.engine.audit(caller.principal(), query).await?;
    let entries = page.entries.into_iter().filter_map(view).collect();
    let next_cursor = page.next.map(|next| next.to_string());
    Ok(reply::ok(&PageView { entries, next_cursor }))
}

/// Exports the ledger entries of the tenant and of the whole server, one per line, oldest first: the
/// path of SomaAgent 01 for `GET /v1/audit` with `Accept: application/x-ndjson`.
#[utoipa::path(
    get, path = "/v1/admin/audit/export", tag = "ledger",
    params(
        ("kind" = Option<String>, Query, description = "Only of this kind"),
        ("tool" = Option<String>, Query, description = "Only about this tool"),
        ("call_id" = Option<String>, Query, description = "Only about this call"),
        ("session_id" = Option<String>, Query, description = "Only about calls of this session"),
        ("persona_id" = Option<String>, Query, description = "Only of this persona"),
        ("since" = Option<String>, Query, description = "Only from this time on"),
        ("until" = Option<String>, Query, description = "Only before this time"),
        ("cursor" = Option<String>, Query, description = "Index of the first entry"),
        ("limit" = Option<u64>, Query, description = "From 1 to 200; without effect: all entries are sent"),
    ),
    responses((status = 200, description = "Entries, one per line", content(
        (String = "application/x-ndjson"),
    )))
)]
pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = query(&caller, &uri)?;
    Ok(lines(shared.engine.clone(), caller.principal().clone(), query))
}

fn query(caller: &Caller, uri: &Uri) -> Result<EntryQuery, Problem> {
    let mut query = Query::of(uri);
    let found = EntryQuery {
        tenant: Some(caller.principal().tenant.clone()),
        kind: query.optional::<EntryKind>("kind"),
        tool: query.optional::<ToolName>("tool"),
        call: query.optional::<CallId>("call_id"),
        session: query.optional::<SessionId>("session_id"),
        persona: query.optional::<PersonaId>("persona_id"),
        since: query.optional::<Timestamp>("since"),
        until: query.optional::<Timestamp>("until"),
        from: query.optional::<u64>("cursor").unwrap_or(0),
        limit: query.number("limit", 1, 200).unwrap_or(50) as usize,
    };
    query.finish()?;
    Ok(found)
}

/// View of an entry; none for a payload that is not JSON, which is never signed.
fn view(placed: Placed) -> Option<LedgerEntryView> {
    let Placed { index, sealed } = placed;
    Some(LedgerEntryView {
        index,
        kind: sealed.kind.name(),
        at: sealed.about.at.to_string(),
        call_id: sealed.about.call.map(|call| call.to_string()),
        persona_id: sealed.about.persona.map(|persona| persona.to_string()),
        tool: sealed.about.tool.map(|tool| tool.to_string()),
        leaf: sealed.leaf.to_string(),
        keyid: sealed.signer.hex(),
        statement: RawValue::from_string(sealed.payload).ok()?,
    })
}

/// Entries per chunk of an export.
const ENTRIES_PER_CHUNK: usize = 200;

/// All entries as lines, chunk by chunk. A failed read cuts the answer off, so that it is not taken
/// for complete.
fn lines(engine: Engine, who: Principal, query: EntryQuery) -> Response {
    let pieces = stream::try_unfold(Some(query.from), move |from| {
        let (engine, who, query) = (engine.clone(), who.clone(), query.clone());
        async move {
            let Some(from) = from else { return Ok::<_, StoreError>(None) };
            let page = engine
                .audit_slice(&who, EntryQuery { from, limit: ENTRIES_PER_CHUNK, ..query })
                .await?;
            Ok(Some((written(page.entries), page.next)))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn written(found: Vec<Placed>) -> Bytes {
    let mut text = Vec::new();
    for entry in found.into_iter().filter_map(view) {
        if serde_json::to_writer(&mut text, &entry).is_ok() {
            text.push(b'\n');
        }
    }
    text.into()
}
