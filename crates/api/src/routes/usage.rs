//! Usage of calls, per tenant, key and tool.

use std::{str::FromStr, sync::Arc};

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May, check_operator, scope_missing},
    query::Query,
    reply,
};
use ringfence_engine::data::{PAGE, Period, UsageQuery, UsageRow, hour_of, start_of_hour};
use ringfence_types::{InvalidTimestamp, KeyId, Scope, TenantId, Timestamp, ToolName};

use crate::{
    shared::Shared,
    views::{
        budget::BudgetView,
        usage::{UsageListView, UsageRowView, UsedView},
    },
};

/// Longest range by day, in days.
const MAX_DAYS: i64 = 366;
/// Longest range by hour, in days.
const MAX_DAYS_BY_HOUR: i64 = 31;
/// Range if none is asked for, in days, today included.
const USUAL_DAYS: i64 = 7;
const HOURS: i64 = 24;

/// A moment, or a date that stands for its first one.
struct Moment(Timestamp);

impl FromStr for Moment {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        match text.len() {
            10 => format!("{text}T00:00:00Z").parse().map(Self),
            _ => text.parse().map(Self),
        }
    }
}

/// Adds up what ended calls took: number, failures, CPU and wall time, bytes of output. Of your own tenant;
/// admin keys of the operator may name another, or `*` for all.
#[utoipa::path(
    get, path = "/v1/usage", tag = "usage",
    params(
        ("from" = Option<String>, Query, description = "First day or moment, such as 2026-11-01; six days ago without"),
        ("until" = Option<String>, Query, description = "End, not included; the next midnight (UTC) without. At most 366 days after `from`, 31 days by hour"),
        ("per" = Option<String>, Query, description = "`day` (the default) or `hour`, in UTC"),
        ("by" = Option<String>, Query, description = "A row for each `key`, `tool` or both (`key,tool`); one row per period without"),
        ("key" = Option<String>, Query, description = "Only of this key"),
        ("tool" = Option<String>, Query, description = "Only of this tool"),
        ("tenant" = Option<String>, Query, description = "Another tenant, or `*`"),
    ),
    responses((status = 200, description = "Sums, in the order of time", body = UsageListView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let tenant = query.optional::<String>("tenant");
    let asked = asked(&mut query, shared.engine.clock().now());
    let tenant = match tenant.as_deref() {
        None => Some(caller.principal().tenant.clone()),
        Some("*") => None,
        Some(name) => match name.parse::<TenantId>() {
            Ok(tenant) => Some(tenant),
            Err(error) => {
                query.fault("tenant", error.to_string());
                None
            }
        },
    };
    query.finish()?;
    check_tenant(&caller, tenant.as_ref())?;
    let wanted = UsageQuery { tenant: tenant.clone(), ..asked.clone() };
    let mut rows = shared.engine.usage(wanted).await?;
    // One more than is shown was asked for.
    let has_more = rows.len() >= PAGE;
    rows.truncate(PAGE - 1);
    let budgets = match &tenant {
        Some(tenant) => shared.engine.budgets(tenant).await?,
        None => Vec::new(),
    };
    let budgets = budgets.iter().map(BudgetView::of).collect();
    Ok(reply::ok(&UsageListView { budgets, ..view(&asked, &rows, has_more) }))
}

/// Other tenants are for the operator's admins.
fn check_tenant(caller: &Caller, tenant: Option<&TenantId>) -> Result<(), Problem> {
    let who = caller.principal();
    if tenant == Some(&who.tenant) {
        return Ok(());
    }
    check_operator(caller)?;
    match who.scopes.allow(Scope::Admin) {
        true => Ok(()),
        false => Err(scope_missing(Scope::Admin)),
    }
}

/// Everything but the tenant; faults are noted in the query.
fn asked(query: &mut Query, now: Timestamp) -> UsageQuery {
    let per = match query.optional::<String>("per").as_deref() {
        None | Some("day") => Period::Day,
        Some("hour") => Period::Hour,
        Some(_) => {
            query.fault("per", "is neither `day` nor `hour`");
            Period::Day
        }
    };
    let by = query.optional::<String>("by").unwrap_or_default();
    let by: Vec<_> = by.split(',').filter(|part| !part.is_empty()).collect();
    if by.iter().any(|part| !["key", "tool"].contains(part)) {
        query.fault("by", "is none of `key`, `tool` and `key,tool`");
    }
    let tomorrow = (hour_of(now) / HOURS + 1) * HOURS;
    let end = |moment: Moment| {
        hour_of(moment.0) + i64::from(start_of_hour(hour_of(moment.0)) != moment.0)
    };
    let until = query.optional::<Moment>("until").map_or(tomorrow, end);
    let from = query.optional::<Moment>("from").map(|moment| hour_of(moment.0));
    let from = from.unwrap_or(until - USUAL_DAYS * HOURS);
    let most = match per {
        Period::Day => MAX_DAYS,
        Period::Hour => MAX_DAYS_BY_HOUR,
    };
    if until <= from || until - from > most * HOURS {
        query.fault("until", format!("must be after `from`, by at most {most} days"));
    }
    UsageQuery {
        tenant: None,
        key: query.optional::<KeyId>("key"),
        tool: query.optional::<ToolName>("tool").map(|name| name.to_string()),
        from,
        until,
        per,
        by_key: by.contains(&"key"),
        by_tool: by.contains(&"tool"),
        limit: PAGE,
    }
}

fn view(asked: &UsageQuery, rows: &[UsageRow], has_more: bool) -> UsageListView {
    UsageListView {
        from: start_of_hour(asked.from),
        until: start_of_hour(asked.until),
        per: match asked.per {
            Period::Day => "day",
            Period::Hour => "hour",
        },
        total: UsedView::sum(rows.iter().map(|row| &row.used)),
        rows: rows.iter().map(UsageRowView::of).collect(),
        has_more,
        budgets: Vec::new(),
    }
}
