//! One held call: exactly what would happen.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem_codes,
    query::Query,
};
use ringfence_types::{Call, CallId, Hold, Json, Scope, Vote, shown};

use super::{diff::Line, effect, held};
use crate::{
    Shared,
    html::{self, Html},
    json_view::{self, Node},
    pages::calls::{self, ReasonRow, reasons},
    risk,
    shell::{self, Shell},
};

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
pub(super) struct Choices {
    pub(super) scope: String,
    pub(super) uses: String,
    pub(super) expires_in: String,
    pub(super) reason: String,
    pub(super) edited: String,
    /// Digest of the edited arguments that were reviewed.
    pub(super) reviewed: String,
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
pub(super) struct ReadPage {
    pub(super) shell: Shell,
    pub(super) id: String,
    pub(super) id_view: Html,
    pub(super) tool: String,
    pub(super) version: String,
    pub(super) tool_digest: Html,
    /// State of a call that is not held any more.
    pub(super) state: Html,
    pub(super) is_held: bool,
    pub(super) effect: String,
    pub(super) details: Vec<String>,
    pub(super) risks: Vec<&'static str>,
    pub(super) args: Html,
    pub(super) pretty: String,
    pub(super) asked_args: Option<Html>,
    pub(super) metadata: Option<Html>,
    pub(super) reasons: Vec<ReasonRow>,
    pub(super) policy: Option<Html>,
    pub(super) changed: Vec<String>,
    /// Effects of an approval, line by line.
    pub(super) unlocks: Vec<String>,
    votes: Vec<VoteRow>,
    pub(super) needed: u32,
    pub(super) since: Html,
    pub(super) expires: Html,
    pub(super) key: String,
    pub(super) persona: Option<String>,
    pub(super) session: Option<String>,
    pub(super) shown: String,
    conditions: Vec<ConditionRow>,
    pub(super) choices: Choices,
    pub(super) diff: Vec<Line>,
    pub(super) is_own: bool,
    pub(super) may_approve: bool,
    pub(super) may_read: bool,
    pub(super) problem: Option<String>,
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

pub(super) async fn view(
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
        unlocks: unlocks(shared, caller, &call).await?,
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

/// Effects of an approval: on the call itself, the call that waits for it, and held calls like it.
async fn unlocks(shared: &Shared, caller: &Caller, call: &Call) -> Result<Vec<String>, Problem> {
    let Some(hold) = call.hold() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    let missing =
        usize::try_from(hold.needed).unwrap_or(usize::MAX).saturating_sub(hold.votes.len());
    lines.push(match missing {
        0 | 1 => "Your approval lets this call run at once.".to_owned(),
        missing => {
            format!("Your approval is one of {missing} that are missing; the last one lets it run.")
        }
    });
    if let Some(parent) = call.asked.cause.as_ref().and_then(|cause| cause.parent) {
        let parent = parent.to_string();
        lines
            .push(format!("Call {} made it and goes on with its result.", html::short_id(&parent)));
    }
    let tool = Some(call.asked.tool.name.to_string());
    let (others, next) =
        calls::page_of(shared, caller.principal(), held(caller.principal(), tool, None)).await?;
    let is_like = |other: &&Call| {
        other.asked.id != call.asked.id
            && other.asked.key == call.asked.key
            && other.asked.tool.digest == call.asked.tool.digest
    };
    let like: Vec<_> = others.iter().filter(is_like).collect();
    let equal = like.iter().filter(|other| other.args().digest() == call.args().digest()).count();
    let more = if next.is_some() { " at least" } else { "" };
    if !like.is_empty() {
        lines.push(format!(
            "{}{more} of the same tool and key wait too, {equal} with the same arguments: an approval for \
             the session or as a rule can release them.",
            like.len()
        ));
    }
    Ok(lines)
}
