//! Explanations of decisions.
//!
//! A key that may read a call sees its reasons and the parts of its own document that they read.
//! Files and constants of the rules are for the operator's admins: a constant may be the name of
//! another tenant.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    problem_codes, reply,
};
use ringfence_engine::{
    ExplainError, ExplainedCall, ExplainedPart,
    data::{Cause, Change, Search},
};
use ringfence_types::{CallId, Digest, Timestamp};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Explanation of the decision about a call.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView {
    #[schema(value_type = String)]
    call: CallId,
    /// Id of the newest decision about the call.
    decision: u64,
    #[schema(value_type = String, format = DateTime)]
    decided_at: Timestamp,
    /// The verdict.
    verdict: &'static str,
    /// Digest of the rules that decided.
    #[schema(value_type = String)]
    policy: Digest,
    /// Digest of the rules in force, which explain. If they differ, so may their answer.
    #[schema(value_type = String)]
    explained_by: Digest,
    /// Each engine that is asked about such a call now, in order.
    parts: Vec<PartView>,
}

/// Answer and reasons of one engine.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedPart)]
struct PartView {
    /// The engine.
    engine: String,
    /// Digest of its rules, as far as known.
    #[schema(value_type = String)]
    policy: Digest,
    /// Whether its rules are files of this server. Other rules cannot be explained here.
    explained: bool,
    /// Its verdict; none without an answer.
    says: Option<&'static str>,
    /// Each of its reasons with the parts of the document that it read.
    reasons: Vec<CauseView>,
    /// The smallest change found that it would allow; for admins of the operator's tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<SearchView>,
}

/// A reason with the parts of the document that it read.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedReason)]
struct CauseView {
    rule: String,
    message: String,
    /// Location of the rule; for admins of the operator's tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<PlaceView>,
    reads: Vec<ReadView>,
}

/// A location in the rules.
#[derive(Serialize, ToSchema)]
#[schema(as = RulePlace)]
struct PlaceView {
    file: String,
    line: u32,
}

/// A part of the document that was read.
#[derive(Serialize, ToSchema)]
#[schema(as = ReadPart)]
struct ReadView {
    /// JSON Pointer.
    path: String,
    /// Value; null if missing.
    #[schema(value_type = Object)]
    value: Option<Value>,
}

/// Result of the search for a change.
#[derive(Serialize, ToSchema)]
#[schema(as = SmallestChange)]
struct SearchView {
    /// Whether one was found among those tried.
    found: bool,
    /// Number of evaluated changes.
    tried: usize,
    changes: Vec<DocumentChangeView>,
}

/// One change of the document.
#[derive(Serialize, ToSchema)]
#[schema(as = DocumentChange)]
struct DocumentChangeView {
    path: String,
    #[schema(value_type = Object)]
    from: Option<Value>,
    #[schema(value_type = Object)]
    to: Option<Value>,
}

/// Explains the newest decision about a call.
#[utoipa::path(
    get, path = "/v1/calls/{id}/explanation", tag = "policy",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "Why", body = ExplanationView),
        (status = 409, description = "The rules are not files of this server"),
    )
)]
pub(crate) async fn explain(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let found = shared.engine.explain(caller.principal(), id).await.map_err(unexplained)?;
    let ExplainedCall { kept, explained_by, sees_rules, parts } =
        found.ok_or_else(Problem::not_found)?;
    let decision = kept.kept.decision;
    Ok(reply::ok(&ExplanationView {
        call: kept.call,
        decision: kept.id,
        decided_at: kept.kept.at,
        verdict: decision.verdict.name(),
        policy: decision.policy,
        explained_by,
        parts: parts.into_iter().map(|explained| part(explained, sees_rules)).collect(),
    }))
}

fn part(explained: ExplainedPart, sees_rules: bool) -> PartView {
    let ExplainedPart { engine, revision: policy, explanation } = explained;
    let explained = explanation.is_some();
    let (mut says, mut reasons, mut change) = (None, Vec::new(), None);
    if let Some(explanation) = explanation {
        says = explanation.answer.as_ref().ok().map(|answer| answer.verdict.name());
        reasons = explanation.causes.into_iter().map(|one| cause(one, sees_rules)).collect();
        change = sees_rules.then(|| search(explanation.search)).flatten();
    }
    PartView { engine, policy, explained, says, reasons, change }
}

fn cause(cause: Cause, sees_rules: bool) -> CauseView {
    let places = if sees_rules { cause.places } else { Vec::new() };
    CauseView {
        rule: cause.reason.rule,
        message: cause.reason.message,
        places: places.into_iter().map(|(file, line)| PlaceView { file, line }).collect(),
        reads: cause.reads.into_iter().map(|(path, value)| ReadView { path, value }).collect(),
    }
}

fn search(search: Search) -> Option<SearchView> {
    let change = |Change { path, from, to, .. }: Change| DocumentChangeView { path, from, to };
    match search {
        Search::Allowed => None,
        Search::Nothing { tried } => Some(SearchView { found: false, tried, changes: Vec::new() }),
        Search::Found { changes, tried } => {
            let changes = changes.into_iter().map(change).collect();
            Some(SearchView { found: true, tried, changes })
        }
    }
}

fn unexplained(error: ExplainError) -> Problem {
    let detail = error.to_string();
    match error {
        ExplainError::RulesElsewhere(_) | ExplainError::OtherVersion => {
            Problem::new(&problem_codes::CONFLICT, detail)
        }
        ExplainError::TookTooLong => Problem::new(&problem_codes::TIMEOUT, detail),
        ExplainError::Store(error) => error.into(),
    }
}
