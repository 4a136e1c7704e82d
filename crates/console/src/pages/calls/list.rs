//! The list of calls, with filters.

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
use ringfence_types::{
    Call, CallId, Principal, Scope, SessionId, State as CallState, Timestamp, ToolName,
};
use uuid::Uuid;

use super::{CallRow, page_of};
use crate::{
    Shared,
    error::escape,
    pages::parsed,
    shell::{self, Shell},
};

/// Calls on one page.
const PAGE: usize = 50;

#[derive(Debug, Template)]
#[template(path = "calls.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<CallRow>,
    filter: Filter,
    /// Query of the next page.
    older: Option<String>,
    states: &'static [&'static str],
    tools: Vec<String>,
    is_filtered: bool,
    may_call: bool,
}

/// Filters as the reader wrote them.
#[derive(Debug, Default)]
struct Filter {
    state: String,
    tool: String,
    session: String,
    parent: String,
    /// First minute, in UTC, as a browser writes it.
    from: String,
    /// End, not included.
    until: String,
}

/// Lists calls, newest first.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let text = |query: &mut Query, name| query.optional::<String>(name).unwrap_or_default();
    let filter = Filter {
        state: text(&mut query, "state"),
        tool: text(&mut query, "tool"),
        session: text(&mut query, "session"),
        parent: text(&mut query, "parent"),
        from: text(&mut query, "from"),
        until: text(&mut query, "until"),
    };
    let (before, done) = (query.optional::<CallId>("before"), query.optional::<String>("done"));
    if !filter.state.is_empty() && !CallState::NAMES.contains(&filter.state.as_str()) {
        query.fault("state", format!("must be one of {}", CallState::NAMES.join(", ")));
    }
    let tool = parsed::<ToolName>(&mut query, "tool", &filter.tool);
    let session = parsed::<SessionId>(&mut query, "session", &filter.session);
    let parent = parsed::<CallId>(&mut query, "parent", &filter.parent);
    let from = parsed::<Minute>(&mut query, "from", &filter.from).map(|minute| minute.0);
    let until =
        parsed::<Minute>(&mut query, "until", &filter.until).map(|minute| first_id(minute.0));
    query.finish()?;
    // Ids sort by time, so the end of the time is a place to begin.
    let before = [before, until].into_iter().flatten().min();
    let wanted = CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: Some(filter.state.clone()).filter(|state| !state.is_empty()),
        tool: tool.map(|tool| tool.to_string()),
        session,
        parent,
        before,
        limit: PAGE,
    };
    let (calls, next) = page_since(&shared, caller.principal(), wanted, from).await?;
    let shell = Shell::new(&shared, &caller, "Calls").await?.done(done.as_deref());
    let rows = calls.iter().map(|call| CallRow::of(call, &shell)).collect();
    let is_filtered = filter.fields().iter().any(|(_, text)| !text.is_empty());
    let mut tools: Vec<_> =
        shared.engine.tools().entries().iter().map(|entry| entry.tool.name.to_string()).collect();
    tools.dedup();
    let older = next.map(|next| filter.query(next));
    let states = CallState::NAMES.as_slice();
    let may_call = caller.principal().scopes.allow(Scope::Call);
    let page = ListPage { shell, rows, filter, older, states, tools, is_filtered, may_call };
    Ok(shell::render(StatusCode::OK, &page))
}

impl Filter {
    /// Fields with their names in a query.
    fn fields(&self) -> [(&'static str, &String); 6] {
        [
            ("state", &self.state),
            ("tool", &self.tool),
            ("session", &self.session),
            ("parent", &self.parent),
            ("from", &self.from),
            ("until", &self.until),
        ]
    }

    /// The query of the page after this call.
    fn query(&self, before: CallId) -> String {
        let fields = self.fields();
        let set = fields.iter().filter(|(_, value)| !value.is_empty());
        let mut parts: Vec<_> =
            set.map(|(name, value)| format!("{name}={}", escape(value))).collect();
        parts.push(format!("before={before}"));
        parts.join("&")
    }
}

/// A minute in UTC, such as `2026-03-01T09:30`; seconds may follow.
#[derive(Debug, PartialEq, Eq)]
struct Minute(Timestamp);

impl std::str::FromStr for Minute {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = if text.len() == 16 { ":00" } else { "" };
        let moment = format!("{}{seconds}Z", text.trim_end_matches('Z')).parse();
        moment.map(Self).map_err(|_| "must be a minute in UTC, such as 2026-03-01T09:30")
    }
}

/// The smallest id of a moment. An id begins with the milliseconds since 1970.
fn first_id(at: Timestamp) -> CallId {
    let millis = u128::try_from(at.as_micros() / 1_000).unwrap_or(0) & 0xffff_ffff_ffff;
    CallId(Uuid::from_u128(millis << 80))
}

/// Calls by a query that were accepted since a moment, and where the next page begins.
async fn page_since(
    shared: &Shared,
    who: &Principal,
    query: CallQuery,
    since: Option<Timestamp>,
) -> Result<(Vec<Call>, Option<CallId>), Problem> {
    let (mut calls, mut next) = page_of(shared, who, query).await?;
    if let Some(since) = since {
        let oldest = first_id(since);
        calls.retain(|call| call.asked.id >= oldest);
        next = next.filter(|next| *next >= oldest);
    }
    Ok((calls, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_read_as_browsers_write_it_and_ids_sort_by_it() {
        let minute = |text: &str| text.parse::<Minute>().map(|minute| minute.0.to_string());
        assert_eq!(
            minute("2026-03-01T09:30").unwrap(),
            "2026-03-01T09:30:00Z".parse::<Timestamp>().unwrap().to_string()
        );
        assert_eq!(minute("2026-03-01T09:30:05"), minute("2026-03-01T09:30:05Z"));
        assert!(
            minute("soon").is_err() && minute("").is_err() && minute("2026-13-01T09:30").is_err()
        );
        let at = |micros| first_id(Timestamp::from_micros(micros));
        assert!(at(1_000_000) < at(1_001_000) && at(-5) < at(1_000));
        assert_eq!(
            at(1_700_000_000_000_000).0.get_version_num(),
            0,
            "smaller than any id of that moment"
        );
    }
}
