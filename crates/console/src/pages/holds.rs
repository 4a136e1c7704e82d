//! Holds: calls that wait for a person, and the decision about one.

mod diff;
mod effect;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem::Fault,
    problem_codes,
    query::Query,
};
use ringfence_engine::{
    Action, ApprovalScope, NotResolved, Resolution, Resolved, TermsRequest, data::CallQuery,
};
use ringfence_types::{
    Call, CallId, Digest, Hold, Json, KeyId, Predicate, Scope, Vote, parse_duration, shown,
};
use serde_json::json;

use self::diff::{Line, lines};
use super::calls::{self, ReasonRow, reasons};
use crate::{
    Shared, form,
    html::{self, Html},
    json_view::{self, Node},
    risk,
    shell::{self, Shell},
};

/// Holds on one page.
const PAGE: usize = 50;

/// A hold in the inbox.
#[derive(Debug)]
struct HoldRow {
    id: String,
    tool: String,
    effect: String,
    summary: String,
    risks: Vec<&'static str>,
    rules: String,
    key: String,
    session: String,
    since: Html,
    expires: Html,
    votes: usize,
    needed: u32,
}

#[derive(Debug, Template)]
#[template(path = "holds.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<HoldRow>,
    tool: String,
    older: Option<String>,
    may_approve: bool,
}

/// Lists calls that wait for a person, newest first.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let tool = query.optional::<String>("tool").unwrap_or_default();
    let before = query.optional::<CallId>("before");
    let done = query.optional::<String>("done");
    query.finish()?;
    let who = caller.principal();
    let wanted = CallQuery {
        tenant: who.tenant.clone(),
        state: Some("held".to_owned()),
        tool: Some(tool.clone()).filter(|tool| !tool.is_empty()),
        session: None,
        parent: None,
        before,
        limit: PAGE,
    };
    let (calls, next) = calls::page_of(&shared, who, wanted).await?;
    let shell = Shell::new(&shared, &caller, "Holds").await?.done(done.as_deref());
    let labels = labels(&shared, &calls).await?;
    let row = |call: &Call| call.hold().map(|hold| row(&shared, &shell, call, hold, &labels));
    let rows = calls.iter().filter_map(row).collect();
    let older = next.map(|next| format!("tool={}&before={next}", crate::error::escape(&tool)));
    let may_approve = who.scopes.allow(Scope::Approve);
    Ok(shell::render(StatusCode::OK, &ListPage { shell, rows, tool, older, may_approve }))
}

fn row(
    shared: &Shared,
    shell: &Shell,
    call: &Call,
    hold: &Hold,
    labels: &HashMap<KeyId, String>,
) -> HoldRow {
    let asked = &call.asked;
    let rules: Vec<_> = hold.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    HoldRow {
        id: asked.id.to_string(),
        tool: asked.tool.name.to_string(),
        effect: effect::sentence(&shared.engine.tools(), call),
        summary: calls::summary(call.args().as_str()),
        risks: risk::reasons(call.args().as_str()),
        rules: rules.join(", "),
        key: labels.get(&asked.key).cloned().unwrap_or_default(),
        session: asked.session.as_ref().map(ToString::to_string).unwrap_or_default(),
        since: shell.time(&hold.since),
        expires: shell.time(&hold.expires_at),
        votes: hold.votes.len(),
        needed: hold.needed,
    }
}

/// Labels of the keys that made these calls, each looked up once.
async fn labels(shared: &Shared, calls: &[Call]) -> Result<HashMap<KeyId, String>, Problem> {
    let mut labels = HashMap::new();
    for id in calls.iter().map(|call| call.asked.key) {
        if let Entry::Vacant(vacant) = labels.entry(id) {
            let key = shared.edge.access().key(id).await?;
            vacant.insert(key.map(|key| key.label).unwrap_or_default());
        }
    }
    Ok(labels)
}

/// One person's approval.
#[derive(Debug)]
struct VoteRow {
    label: String,
    person: String,
    at: Html,
    reason: String,
}

/// A condition that an approval as a rule can have.
#[derive(Debug)]
struct ConditionRow {
    /// JSON Pointer of the argument.
    path: String,
    /// Value as JSON.
    value: String,
    is_text: bool,
    is_number: bool,
}

/// Choices of the form, as they were sent or as they begin.
#[derive(Debug)]
struct Choices {
    scope: String,
    uses: String,
    expires_in: String,
    reason: String,
    edited: String,
    /// Digest of the edited arguments that were reviewed.
    reviewed: String,
}

impl Default for Choices {
    fn default() -> Self {
        let text = |text: &str| text.to_owned();
        Self {
            scope: text("once"),
            uses: String::new(),
            expires_in: text("1h"),
            reason: String::new(),
            edited: String::new(),
            reviewed: String::new(),
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "hold.html")]
struct ReadPage {
    shell: Shell,
    id: String,
    id_view: Html,
    tool: String,
    version: String,
    tool_digest: Html,
    /// State of a call that is not held any more.
    state: Html,
    is_held: bool,
    effect: String,
    details: Vec<String>,
    risks: Vec<&'static str>,
    args: Html,
    pretty: String,
    asked_args: Option<Html>,
    metadata: Option<Html>,
    reasons: Vec<ReasonRow>,
    policy: Option<Html>,
    changed: Vec<String>,
    votes: Vec<VoteRow>,
    needed: u32,
    since: Html,
    expires: Html,
    key: String,
    persona: Option<String>,
    session: Option<String>,
    shown: String,
    conditions: Vec<ConditionRow>,
    choices: Choices,
    diff: Vec<Line>,
    is_own: bool,
    may_approve: bool,
    may_read: bool,
    problem: Option<String>,
}

/// Shows a held call: exactly what would happen.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    Named(id): Named<CallId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let done = Query::of(&uri).optional::<String>("done");
    let mut page = view(&shared, &caller, id, Choices::default()).await?;
    page.shell = page.shell.done(done.as_deref());
    Ok(shell::render(StatusCode::OK, &page))
}

async fn view(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    choices: Choices,
) -> Result<ReadPage, Problem> {
    let who = caller.principal();
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let may_read = who.scopes.allow(Scope::Read);
    // A key that may only decide sees calls while there is something to decide.
    if call.hold().is_none() && !may_read {
        return Err(Problem::new(&problem_codes::NOT_HELD, "this call is not held any more"));
    }
    let mut shell = Shell::new(shared, caller, "Holds").await?;
    let key = shared.edge.access().key(call.asked.key).await?;
    let asked = &call.asked;
    shell.title = format!("Hold · {}", asked.tool.name);
    let catalogue = shared.engine.tools();
    let nothing = Hold::new(Vec::new(), call.changed_at, call.changed_at, 0);
    let hold = call.hold().unwrap_or(&nothing);
    let votes = hold.votes.iter().map(|vote| vote_row(&shell, vote)).collect();
    let text = id.to_string();
    Ok(ReadPage {
        id_view: html::id(&text, &text),
        tool: asked.tool.name.to_string(),
        version: asked.tool.version.clone(),
        tool_digest: html::digest(&asked.tool.digest.to_string()),
        state: calls::state_of(&call),
        is_held: call.hold().is_some(),
        effect: effect::sentence(&catalogue, &call),
        details: effect::details(&catalogue, &call),
        risks: risk::reasons(call.args().as_str()),
        args: json_view::marked_tree(call.args()),
        pretty: Node::of(call.args()).pretty(),
        asked_args: call.edited.as_ref().map(|_| json_view::marked_tree(&asked.args)),
        metadata: (asked.metadata.as_str() != "{}").then(|| json_view::tree(&asked.metadata)),
        reasons: reasons(&hold.reasons),
        policy: call.decision.as_ref().map(|decision| html::digest(&decision.policy.to_string())),
        changed: hold.changed.clone(),
        votes,
        needed: hold.needed,
        since: shell.time(&hold.since),
        expires: shell.time(&hold.expires_at),
        is_own: key.as_ref().is_some_and(|key| who.is(key.id, key.person.as_ref())),
        key: key.map_or_else(|| asked.key.to_string(), |key| key.label),
        persona: asked.persona.as_ref().map(ToString::to_string),
        session: asked.session.as_ref().map(ToString::to_string),
        shown: shown(&call).to_string(),
        conditions: conditions(call.args()),
        choices,
        diff: Vec::new(),
        may_approve: who.scopes.allow(Scope::Approve),
        may_read,
        problem: None,
        id: text,
        shell,
    })
}

fn vote_row(shell: &Shell, vote: &Vote) -> VoteRow {
    VoteRow {
        label: vote.label.clone(),
        person: vote.person.as_ref().map(ToString::to_string).unwrap_or_default(),
        at: shell.time(&vote.at),
        reason: vote.reason.clone().unwrap_or_default(),
    }
}

/// Conditions that are offered for an approval as a rule.
const MAX_CONDITIONS: usize = 16;

/// Arguments that a condition can be about: those without members of their own.
fn conditions(args: &Json) -> Vec<ConditionRow> {
    let Node::Object(members) = Node::of(args) else { return Vec::new() };
    let row = |(name, value): (String, Node)| {
        let path = ringfence_edge::problem::pointer("", &name);
        let (is_text, is_number) = match &value {
            Node::Text(_) => (true, false),
            Node::Literal(text) => (false, text.parse::<f64>().is_ok()),
            Node::Object(_) | Node::Array(_) => return None,
        };
        Some(ConditionRow { path, value: value.pretty(), is_text, is_number })
    };
    members.into_iter().filter_map(row).take(MAX_CONDITIONS).collect()
}

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
