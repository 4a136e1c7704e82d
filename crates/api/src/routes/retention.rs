//! Erasure of records: of one call, of one session, and of everything older than a time.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May, check_operator},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{EraseError, ErasedRecords, data::ErasureScope};
use ringfence_types::{CallId, Json, SessionId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Request to erase records.
#[derive(ToSchema)]
#[schema(as = EraseRequest)]
#[expect(dead_code, reason = "it documents what `read_reason` reads field by field")]
pub(crate) struct EraseBody {
    /// Reason, which is put on the ledger. Name no person here: the ledger is never erased.
    reason: Option<String>,
}

/// Request to erase records of a certain age.
#[derive(ToSchema)]
#[schema(as = PruneRequest)]
#[expect(dead_code, reason = "it documents what `read_age` reads field by field")]
pub(crate) struct PruneBody {
    /// Age in seconds; the default is the retention of the server.
    older_than: Option<u64>,
}

/// Numbers of erased records.
#[derive(Serialize, ToSchema)]
#[schema(as = ErasedRecords)]
pub(crate) struct ErasedView {
    calls: u64,
    /// Session events.
    events: u64,
    /// Decisions about actions other than calls.
    decisions: u64,
    /// Blobs that no other call refers to.
    blobs: u64,
    blob_bytes: u64,
}

impl ErasedView {
    fn of(erased: &ErasedRecords) -> Self {
        let ErasedRecords { calls, events, decisions, blobs, blob_bytes } = *erased;
        Self { calls, events, decisions, blobs, blob_bytes }
    }
}

/// Retention of the server, and records of a certain age.
#[derive(Serialize, ToSchema)]
#[schema(as = Retention)]
pub(crate) struct RetentionView {
    /// Seconds for which records are kept; null is for ever.
    keep_for: Option<u64>,
    /// Records from before this moment are counted; null without an age.
    #[schema(value_type = Option<String>)]
    before: Option<Timestamp>,
    /// Records that a pass would erase; null without an age. Blobs are not counted.
    expired: Option<ErasedView>,
}

/// Erases the records of an ended call and of the calls that it made: arguments, result, output, decisions,
/// events. Its entries on the ledger stay, and one more says that it was erased.
#[utoipa::path(
    post, path = "/v1/calls/{id}/erase", tag = "ledger", request_body = EraseBody,
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "They are erased, now or before", body = ErasedView),
        (status = 409, description = "The call, or one that it made, has not ended"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn erase_call(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = read_reason(&body::json(&shared.edge, request).await?)?;
    let erased = shared.engine.erase(caller.principal(), ErasureScope::Call(id), reason).await;
    erased.map(|erased| reply::ok(&ErasedView::of(&erased))).map_err(|error| problem(&error))
}

/// Erases the records of all calls of a session, and the events of the session. Entries on the ledger stay, and
/// further ones say what was erased.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/erase", tag = "ledger", request_body = EraseBody,
    params(("session_id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "They are erased", body = ErasedView),
        (status = 409, description = "A call of the session has not ended"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn erase_session(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = read_reason(&body::json(&shared.edge, request).await?)?;
    let scope = ErasureScope::Session(id);
    let erased = shared.engine.erase(caller.principal(), scope, reason).await;
    erased.map(|erased| reply::ok(&ErasedView::of(&erased))).map_err(|error| problem(&error))
}

/// Shows the retention of the server, and how many records are older than it, or than `older_than`. Only for
/// keys of the operator.
#[utoipa::path(
    get, path = "/v1/retention", tag = "ledger",
    params(("older_than" = Option<u64>, Query, description = "Age in seconds; default: the retention of the server", maximum = 9007199254740991u64)),
    responses((status = 200, description = "Retention", body = RetentionView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let age = query.number("older_than", 0, MAX_AGE).map(Duration::from_secs);
    query.finish()?;
    let keep_for = shared.engine.retention();
    let before = age.or(keep_for).map(|age| before(&shared, age));
    let expired = match before {
        Some(before) => Some(ErasedView::of(&shared.engine.count_expired(before).await?)),
        None => None,
    };
    let keep_for = keep_for.map(|keep_for| keep_for.as_secs());
    Ok(reply::ok(&RetentionView { keep_for, before, expired }))
}

/// Erases records of calls that ended longer ago, session events and decisions of that age, of all tenants. Only
/// for keys of the operator.
#[utoipa::path(
    post, path = "/v1/retention/prune", tag = "ledger", request_body = PruneBody,
    responses(
        (status = 200, description = "They are erased", body = ErasedView),
        (status = 422, description = "The body does not fit, or there is no age"),
    )
)]
pub(crate) async fn prune(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let age = read_age(&body, shared.engine.retention())?;
    let (by, before) = (caller.principal().key, before(&shared, age));
    let erased = shared.engine.prune(by, before).await?;
    Ok(reply::ok(&ErasedView::of(&erased)))
}

/// Most seconds of an age: whole numbers of JSON.
const MAX_AGE: u64 = 9_007_199_254_740_991;

/// Most characters of a reason.
const MAX_REASON: usize = 500;

fn before(shared: &Shared, age: Duration) -> Timestamp {
    shared.engine.clock().now().before(age)
}

fn read_reason(body: &Json) -> Result<Option<String>, Problem> {
    let mut fields = Fields::of(body)?;
    let reason: Option<String> = fields.optional("reason");
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        fields.fault("reason", format!("has more than {MAX_REASON} characters"));
    }
    fields.finish(Some(reason))
}

fn read_age(body: &Json, retention: Option<Duration>) -> Result<Duration, Problem> {
    let mut fields = Fields::of(body)?;
    let age = fields.whole("older_than");
    if age.is_some_and(|age| age > MAX_AGE) {
        fields.fault("older_than", format!("must be at most {MAX_AGE}"));
    }
    let age = age.map(Duration::from_secs).or(retention);
    if age.is_none() {
        fields.fault("older_than", "is required: the server keeps records for ever");
    }
    fields.finish(age)
}

fn problem(error: &EraseError) -> Problem {
    match error {
        EraseError::NotFound => Problem::not_found(),
        EraseError::UnderWay(_) => Problem::new(&problem_codes::NOT_FINISHED, error.to_string()),
        EraseError::Store(error) => Problem::from(error),
    }
}
