//! The decision about a held call.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem::Fault,
    problem_codes,
};
use ringfence_engine::{Action, ApprovalScope, NotResolved, Resolution, Resolved, TermsRequest};
use ringfence_types::{Call, CallId, Digest, Json, Predicate, Scope, parse_duration};
use serde_json::json;

use super::{
    detail::{Choices, view},
    diff::lines,
};
use crate::{Shared, form, json_view::Node, shell};

/// Decides about a hold.
pub(crate) async fn resolve(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default();
    let choices = Choices {
        scope: text("scope"),
        uses: text("uses"),
        expires_in: text("expires_in"),
        reason: text("reason"),
        edited: text("edited_args"),
        reviewed: text("reviewed"),
    };
    let (action, shown) = (text("action"), text("shown"));
    let tests = fields.with_prefix("test:");
    let values: HashMap<_, _> = fields.with_prefix("value:").into_iter().collect();
    let edited = match edited(&call, &choices.edited) {
        Ok(edited) => edited,
        Err(problem) => return again(&shared, &caller, id, choices, &problem).await,
    };
    if let Some(edited) = &edited
        && (action == "review"
            || (action == "approve" && choices.reviewed != edited.digest().to_string()))
    {
        return review(&shared, &caller, id, choices, edited).await;
    }
    let resolution = resolution(&action, &choices, edited, &tests, &values, &shown);
    let resolution = match resolution {
        Ok(resolution) => resolution,
        Err(problem) => return again(&shared, &caller, id, choices, &problem).await,
    };
    match shared.engine.resolve(caller.principal(), id, resolution).await {
        Ok(resolved) => Ok(shell::redirect(&next_page(&caller, id, &resolved, &action))),
        Err(refused) => again(&shared, &caller, id, choices, &problem(&refused)).await,
    }
}

/// The page to go on to: the call where the key may see it, else the inbox.
fn next_page(caller: &Caller, id: CallId, resolved: &Resolved, action: &str) -> String {
    let may_read = caller.principal().scopes.allow(Scope::Read);
    match (resolved, action) {
        (Resolved::Waits(_), "approve") => format!("/console/holds/{id}?done=voted"),
        (Resolved::Waits(_), _) => format!("/console/holds/{id}?done=held-again"),
        (Resolved::Runs(_), _) if may_read => format!("/console/calls/{id}?done=approved"),
        (Resolved::Runs(_), _) => "/console/holds?done=approved".to_owned(),
        (Resolved::Ended(_), "discard") => "/console/holds?done=discarded".to_owned(),
        (Resolved::Ended(_), _) => "/console/holds?done=denied".to_owned(),
    }
}

/// The page once more, with what is wrong.
async fn again(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    choices: Choices,
    problem: &Problem,
) -> Result<Response, Problem> {
    let mut page = view(shared, caller, id, choices).await?;
    let faults = problem.all_faults().iter();
    let faults: Vec<_> =
        faults.map(|fault| format!("{} {}", fault.pointer, fault.detail)).collect();
    let detail = problem.detail().to_owned();
    page.problem = Some(if faults.is_empty() { detail } else { faults.join("; ") });
    Ok(shell::render(problem.code().status, &page))
}

/// The page with the difference between the arguments asked for and those of the editor.
async fn review(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    mut choices: Choices,
    edited: &Json,
) -> Result<Response, Problem> {
    choices.reviewed = edited.digest().to_string();
    choices.edited = Node::of(edited).pretty();
    let text = choices.edited.clone();
    let mut page = view(shared, caller, id, choices).await?;
    page.diff = lines(&page.pretty, &text);
    Ok(shell::render(StatusCode::OK, &page))
}

/// Arguments that differ from those of the call; none if the editor was left alone.
fn edited(call: &Call, text: &str) -> Result<Option<Json>, Problem> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let edited =
        Json::parse(text.as_bytes()).map_err(|error| invalid("edited_args", &error.to_string()))?;
    if !edited.is_object() {
        return Err(invalid("edited_args", "must be an object"));
    }
    Ok((edited.digest() != call.args().digest()).then_some(edited))
}

fn invalid(field: &str, detail: &str) -> Problem {
    let fault = Fault { pointer: field.to_owned(), detail: detail.to_owned() };
    ringfence_edge::fields::invalid(vec![fault])
}

fn resolution(
    action: &str,
    choices: &Choices,
    edited: Option<Json>,
    tests: &[(String, String)],
    values: &HashMap<String, String>,
    shown: &str,
) -> Result<Resolution, Problem> {
    let action = match action {
        "approve" => Action::Approve { terms: terms(choices, tests, values)?, edited },
        "deny" => Action::Deny,
        "discard" => Action::Discard,
        "reevaluate" => Action::Reevaluate,
        _ => return Err(invalid("action", "must be approve, deny, discard or reevaluate")),
    };
    let shown: Digest = shown.parse().map_err(|_| invalid("shown", "is not a digest"))?;
    let reason = Some(choices.reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    Ok(Resolution { action, reason, shown: Some(shown) })
}

fn terms(
    choices: &Choices,
    tests: &[(String, String)],
    values: &HashMap<String, String>,
) -> Result<TermsRequest, Problem> {
    let scope = match choices.scope.as_str() {
        "" | "once" => ApprovalScope::Once,
        "session" => ApprovalScope::Session,
        "rule" => ApprovalScope::Rule,
        _ => return Err(invalid("scope", "must be once, session or rule")),
    };
    let expires_in = match choices.expires_in.trim() {
        "" => None,
        text => {
            Some(parse_duration(text).map_err(|error| invalid("expires_in", &error.to_string()))?)
        }
    };
    let uses = match (scope, choices.uses.trim()) {
        (ApprovalScope::Once, _) | (_, "") => None,
        (_, text) => Some(text.parse().map_err(|_| invalid("uses", "must be a whole number"))?),
    };
    let args = match scope {
        ApprovalScope::Rule => Some(predicate(tests, values)?),
        ApprovalScope::Once | ApprovalScope::Session => None,
    };
    Ok(TermsRequest { scope, args, expires_in, uses })
}

fn predicate(
    tests: &[(String, String)],
    values: &HashMap<String, String>,
) -> Result<Predicate, Problem> {
    let mut conditions = Vec::new();
    for (path, test) in tests.iter().filter(|(_, test)| test != "any") {
        let value = values.get(path).map_or("", String::as_str);
        let is_known =
            matches!(test.as_str(), "equals" | "prefix" | "suffix" | "at_most" | "at_least");
        if !is_known {
            return Err(invalid(path, "has an unknown test"));
        }
        let value: serde_json::Value =
            serde_json::from_str(value).map_err(|_| invalid(path, "the value must be JSON"))?;
        conditions.push(json!({"path": path, test.as_str(): value}));
    }
    serde_json::from_value(conditions.into()).map_err(|error| invalid("where", &error.to_string()))
}

fn problem(refused: &NotResolved) -> Problem {
    let with = |code| Problem::new(code, refused.to_string());
    match refused {
        NotResolved::Missing => Problem::not_found(),
        NotResolved::NotHeld(_) => with(&problem_codes::NOT_HELD),
        NotResolved::OwnCall => with(&problem_codes::OWN_CALL),
        NotResolved::Scope => identity::scope_missing(Scope::Approve),
        NotResolved::Twice => with(&problem_codes::APPROVED_BEFORE),
        NotResolved::Changed => with(&problem_codes::HOLD_CHANGED),
        NotResolved::ToolChanged => with(&problem_codes::TOOL_CHANGED),
        NotResolved::InvalidArguments(violations) => {
            let fault = |violation: &ringfence_engine::data::Violation| Fault {
                pointer: violation.pointer.clone(),
                detail: violation.message.clone(),
            };
            with(&problem_codes::ARGS_INVALID).faults(violations.iter().map(fault).collect())
        }
        NotResolved::Terms(_) | NotResolved::Reason => invalid("", &refused.to_string()),
        NotResolved::PolicyUnavailable => with(&problem_codes::POLICY_UNAVAILABLE),
        NotResolved::Stopping => with(&problem_codes::STOPPING),
        NotResolved::Store(error) => Problem::from(error),
    }
}
