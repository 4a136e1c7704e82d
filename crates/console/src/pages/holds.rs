//! Holds: calls that wait for a person, and the decision about one.

mod detail;
pub(crate) mod diff;
mod effect;
mod resolve;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use askama::Template;
use axum::{extract::State, response::Response};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
};
use ringfence_engine::data::CallQuery;
use ringfence_types::{Call, CallId, Hold, KeyId, Principal, Scope};

pub(crate) use self::{detail::read, resolve::resolve};
use super::calls;
use crate::{
    Shared,
    html::Html,
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
    let tool_filter = Some(tool.clone()).filter(|tool| !tool.is_empty());
    let wanted = held(who, tool_filter, before);
    let (calls, next) = calls::page_of(&shared, who, wanted).await?;
    let shell = Shell::new(&shared, &caller, "Holds").await?.done(done.as_deref());
    let labels = labels(&shared, &calls).await?;
    let row = |call: &Call| call.hold().map(|hold| row(&shared, &shell, call, hold, &labels));
    let rows = calls.iter().filter_map(row).collect();
    let older = next.map(|next| format!("tool={}&before={next}", crate::error::escape(&tool)));
    let may_approve = who.scopes.allow(Scope::Approve);
    Ok(shell::render(StatusCode::OK, &ListPage { shell, rows, tool, older, may_approve }))
}

/// Held calls of the principal's tenant.
fn held(who: &Principal, tool: Option<String>, before: Option<CallId>) -> CallQuery {
    CallQuery {
        tenant: who.tenant.clone(),
        state: Some("held".to_owned()),
        tool,
        session: None,
        parent: None,
        before,
        limit: PAGE,
    }
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
        summary: calls::summary(call.args()),
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
