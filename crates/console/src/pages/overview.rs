//! Overview: what happens now, what happened lately, and whether the server is well.

mod activity;
mod health;

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
};
use ringfence_engine::data::CallQuery;
use ringfence_types::Scope;

use self::{
    activity::{ActivityView, WINDOWS},
    health::{BudgetRow, Check, PoolRow},
};
use super::calls::{self, CallRow};
use crate::{
    Shared,
    shell::{self, Shell},
};

/// Calls shown that run now.
const MAX_RUNNING: usize = 6;

/// Newest calls shown.
const MAX_RECENT: usize = 8;

#[derive(Debug, Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    window: &'static str,
    windows: Vec<&'static str>,
    activity: ActivityView,
    running: usize,
    waiting: usize,
    now_running: Vec<CallRow>,
    holds: String,
    recent: Vec<CallRow>,
    checks: Vec<Check>,
    pools: Vec<PoolRow>,
    budgets: Vec<BudgetRow>,
    may_call: bool,
}

/// Shows the overview, or the holds to a key that may see nothing else.
pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    uri: Uri,
) -> Result<Response, Problem> {
    let who = caller.principal();
    if !who.scopes.allow(Scope::Read) {
        return Ok(shell::redirect("/console/holds"));
    }
    let mut query = Query::of(&uri);
    let wanted = query.optional::<String>("window");
    query.finish()?;
    let chosen = WINDOWS.into_iter().find(|window| Some(window.name) == wanted.as_deref());
    let window = chosen.unwrap_or(WINDOWS[1]);
    let shell = Shell::new(&shared, &caller, "Overview").await?;
    let activity = shared.engine.activity(who, window.steps, window.step).await?;
    let newest = CallQuery {
        tenant: who.tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: MAX_RECENT,
    };
    let running =
        CallQuery { state: Some("running".to_owned()), limit: MAX_RUNNING, ..newest.clone() };
    let (recent, _) = calls::page_of(&shared, who, newest).await?;
    let (now_running, _) = calls::page_of(&shared, who, running).await?;
    let (running, waiting) = shared.engine.load();
    let holds = shell.nav.iter().find(|item| item.name == "Holds");
    let holds = holds.map(|item| item.count.clone()).filter(|count| !count.is_empty());
    let mut checks = health::checks(&shared).await;
    checks.extend(health::shadows(&shared).await?);
    let page = OverviewPage {
        window: window.name,
        windows: WINDOWS.map(|window| window.name).to_vec(),
        activity: ActivityView::of(&activity, window),
        running,
        waiting,
        now_running: now_running.iter().map(|call| CallRow::of(call, &shell)).collect(),
        holds: holds.unwrap_or_else(|| "0".to_owned()),
        recent: recent.iter().map(|call| CallRow::of(call, &shell)).collect(),
        checks,
        pools: health::pools(&shared),
        budgets: health::budgets(&shared, &caller).await?,
        may_call: who.scopes.allow(Scope::Call),
        shell,
    };
    Ok(shell::render(StatusCode::OK, &page))
}
