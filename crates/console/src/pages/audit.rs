//! Audit: entries of the ledger, their check, and their export.

use std::sync::Arc;

use askama::Template;
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May, check_operator},
    query::Query,
};
use ringfence_engine::{
    Engine, VerifiedLog,
    data::{EntryQuery, Placed, StoreError},
};
use ringfence_types::{CallId, EntryKind, Json, Principal, SessionId, ToolName};

use crate::{
    Shared,
    error::escape,
    form,
    html::{self, Html},
    json_view::Node,
    shell::{self, Shell},
};

/// Entries on one page.
const PAGE: usize = 25;

/// An entry in the list.
#[derive(Debug)]
struct EntryRow {
    index: u64,
    kind: Html,
    words: String,
    call: Option<String>,
    at: Html,
    leaf: Html,
    signer: Html,
    statement: Html,
}

/// Filters as the reader wrote them.
#[derive(Debug, Default)]
struct Filter {
    kind: String,
    tool: String,
    call: String,
    session: String,
}

/// Result of checking the whole log.
#[derive(Debug)]
struct LogCheck {
    words: String,
    is_sound: bool,
    root: Html,
}

#[derive(Debug, Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    rows: Vec<EntryRow>,
    filter: Filter,
    kinds: Vec<&'static str>,
    query: String,
    next: Option<u64>,
    previous: Option<u64>,
    size: u64,
    origin: String,
    keys: Vec<Html>,
    checked: Option<LogCheck>,
    is_operator: bool,
}

/// Lists entries of the ledger, the newest page first.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let page = view(&shared, &caller, &uri).await?;
    Ok(shell::render(StatusCode::OK, &page))
}

fn filters(uri: &Uri) -> Result<(Filter, EntryQuery, Option<u64>), Problem> {
    let mut query = Query::of(uri);
    let text = |query: &mut Query, name| query.optional::<String>(name).unwrap_or_default();
    let filter = Filter {
        kind: text(&mut query, "kind"),
        tool: text(&mut query, "tool"),
        call: text(&mut query, "call"),
        session: text(&mut query, "session"),
    };
    let from = query.optional::<u64>("from");
    let found = EntryQuery {
        kind: super::parsed::<EntryKind>(&mut query, "kind", &filter.kind),
        tool: super::parsed::<ToolName>(&mut query, "tool", &filter.tool),
        call: super::parsed::<CallId>(&mut query, "call", &filter.call),
        session: super::parsed::<SessionId>(&mut query, "session", &filter.session),
        limit: PAGE,
        ..EntryQuery::default()
    };
    query.finish()?;
    Ok((filter, found, from))
}

async fn view(shared: &Shared, caller: &Caller, uri: &Uri) -> Result<AuditPage, Problem> {
    let (filter, query, from) = filters(uri)?;
    let shell = Shell::new(shared, caller, "Audit").await?;
    let size = shared.engine.ledger_checkpoint().await?.map_or(0, |(size, _)| size);
    // Without a filter the newest entries are known by their positions.
    let is_filtered = filter.is_set();
    let newest = if is_filtered { 0 } else { size.saturating_sub(PAGE as u64) };
    let from = from.unwrap_or(newest);
    let page = shared.engine.audit(caller.principal(), EntryQuery { from, ..query }).await?;
    let mut rows: Vec<_> = page.entries.iter().map(|placed| row(placed, &shell)).collect();
    rows.reverse();
    let keys = shared.engine.ledger_keys().await?;
    Ok(AuditPage {
        query: filter.query(),
        rows,
        filter,
        kinds: EntryKind::ALL.map(EntryKind::name).to_vec(),
        next: page.next.filter(|next| *next < size),
        previous: (from > 0).then(|| from.saturating_sub(PAGE as u64)),
        size,
        origin: shared.engine.ledger_origin().to_owned(),
        keys: keys.iter().map(|key| html::digest(&key.id.to_string())).collect(),
        checked: None,
        is_operator: shell::is_operator_key(caller)
            && caller.principal().scopes.allow(ringfence_types::Scope::Admin),
        shell,
    })
}

impl Filter {
    fn fields(&self) -> [(&'static str, &str); 4] {
        [
            ("kind", &self.kind),
            ("tool", &self.tool),
            ("call", &self.call),
            ("session", &self.session),
        ]
    }

    fn is_set(&self) -> bool {
        self.fields().iter().any(|(_, value)| !value.is_empty())
    }

    fn query(&self) -> String {
        let set = self.fields().into_iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
    }
}

fn row(placed: &Placed, shell: &Shell) -> EntryRow {
    let (sealed, about) = (&placed.sealed, &placed.sealed.about);
    let tone = match sealed.kind {
        EntryKind::Call => "good",
        EntryKind::Decision | EntryKind::Approval | EntryKind::Resolution => "wait",
        EntryKind::Tool | EntryKind::Key | EntryKind::Secret | EntryKind::CheckpointKey => "busy",
        EntryKind::Maintenance | EntryKind::Erasure => "bad",
    };
    let statement = Json::parse(sealed.payload.as_bytes());
    let mut words = Vec::from_iter(about.tool.as_ref().map(ToString::to_string));
    words.extend(about.persona.as_ref().map(|persona| format!("for {persona}")));
    if about.tenant.is_none() {
        words.push("whole server".to_owned());
    }
    EntryRow {
        index: placed.index,
        kind: html::pill(tone, sealed.kind.name()),
        words: words.join(" · "),
        call: about.call.map(|call| call.to_string()),
        at: shell.time(&about.at),
        leaf: html::digest(&sealed.leaf.to_string()),
        signer: html::digest(&sealed.signer.to_string()),
        statement: statement.map(|json| html::text(&Node::of(&json).pretty())).unwrap_or_default(),
    }
}

/// Reads the whole log and compares it with its newest checkpoint.
pub(crate) async fn verify(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    form::read(&shared.edge, &caller, request).await?;
    let checked = shared.engine.verify_log().await?;
    let mut page = view(&shared, &caller, &Uri::from_static("/console/audit")).await?;
    page.checked = Some(log_check(&checked));
    Ok(shell::render(StatusCode::OK, &page))
}

fn log_check(checked: &VerifiedLog) -> LogCheck {
    let (size, took) = (checked.size, html::precise(checked.took));
    let words = match &checked.flaw {
        None if checked.differing_rows == 0 => {
            format!("{size} entries are those under the signed checkpoint. Checked in {took}.")
        }
        None => format!(
            "{size} entries are those under the checkpoint, but {} rows of keys or approvals differ from \
             what they say. Checked in {took}.",
            checked.differing_rows
        ),
        Some(flaw) => format!("The log does not hold: {flaw}."),
    };
    LogCheck {
        words,
        is_sound: checked.flaw.is_none() && checked.differing_rows == 0,
        root: checked.root.map(|root| html::digest(&root.to_string())).unwrap_or_default(),
    }
}

/// Entries per piece of an export.
const PIECE: usize = 200;

/// Sends all entries that the filters find, one statement per line.
pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let (_, query, _) = filters(&uri)?;
    let body = lines(shared.engine.clone(), caller.principal().clone(), query);
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let value = HeaderValue::from_static;
    headers.insert(header::CONTENT_TYPE, value("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, value("no-store"));
    headers.insert(header::CONTENT_DISPOSITION, value("attachment; filename=\"audit.ndjson\""));
    Ok(response)
}

/// Piece by piece as it is read. If reading fails the answer is cut off, so that it is not taken for
/// whole.
fn lines(engine: Engine, who: Principal, query: EntryQuery) -> Body {
    let pieces = stream::try_unfold(Some(0), move |from| {
        let (engine, who, query) = (engine.clone(), who.clone(), query.clone());
        async move {
            let Some(from) = from else { return Ok::<_, StoreError>(None) };
            let page = engine.audit_slice(&who, EntryQuery { from, limit: PIECE, ..query }).await?;
            let mut text = String::new();
            for placed in page.entries {
                let (index, payload) = (placed.index, placed.sealed.payload);
                text.push_str(&format!("{{\"index\":{index},\"statement\":{payload}}}\n"));
            }
            Ok(Some((Bytes::from(text), page.next)))
        }
    });
    Body::from_stream(pieces)
}
