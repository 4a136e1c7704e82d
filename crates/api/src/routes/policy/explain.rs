//! Why a call was decided as it was.
//!
//! Whoever may read a call sees its reasons and what of its own document they looked at. What the
//! rules say beyond that, their files and constants, is for the operator's admins: a constant may
//! be another tenant's name.

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

/// Why a call was decided as it was.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView {
    #[schema(value_type = String)]
    call: CallId,
    /// The newest decision about it.
    decision: u64,
    #[schema(value_type = String, format = DateTime)]
    decided_at: Timestamp,
    /// What was decided.
    verdict: &'static str,
    /// Of the rules that decided.
    #[schema(value_type = String)]
    policy: Digest,
    /// Of the rules in force, which explain. If they are others, so may their answer be.
    #[schema(value_type = String)]
    explained_by: Digest,
    /// Each engine that is asked about such a call now, in order.
    parts: Vec<PartView>,
}

/// What one engine says, and why.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedPart)]
struct PartView {
    /// Which one.
    engine: String,
    /// Of its rules, as far as known.
    #[schema(value_type = String)]
    policy: Digest,
    /// Whether its rules are files of this server. Those of others cannot be explained here, and
    /// nothing more is said about them.
    explained: bool,
    /// What it says; none if it says nothing.
    says: Option<&'static str>,
    /// Each of its reasons, and what it looked at.
    reasons: Vec<CauseView>,
    /// The smallest change found that it would allow; for admins of the operator's tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<SearchView>,
}

/// A reason and what it looked at.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedReason)]
struct CauseView {
    rule: String,
    message: String,
    /// Where the rule is written; for admins of the operator's tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<PlaceView>,
    reads: Vec<ReadView>,
}

/// A place in the rules.
#[derive(Serialize, ToSchema)]
#[schema(as = RulePlace)]
struct PlaceView {
    file: String,
    line: u32,
}

/// A part of the document that was looked at.
#[derive(Serialize, ToSchema)]
#[schema(as = ReadPart)]
struct ReadView {
    /// As a JSON Pointer.
    path: String,
    /// Null if there is nothing.
    #[schema(value_type = Object)]
    value: Option<Value>,
}

/// What came of looking for a change.
#[derive(Serialize, ToSchema)]
#[schema(as = SmallestChange)]
struct SearchView {
    /// Whether it was found; that it was not means that none of those tried would do.
    found: bool,
    /// How many were judged by the rules.
    tried: usize,
    changes: Vec<ChangeView>,
}

/// One change of the document.
#[derive(Serialize, ToSchema)]
#[schema(as = DocumentChange)]
struct ChangeView {
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
        (status = 409, description = "No rules about it are files of this server"),
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
    let change = |Change { path, from, to, .. }: Change| ChangeView { path, from, to };
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
