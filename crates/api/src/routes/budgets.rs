//! Budgets of tenants and keys.

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
    query::Query,
    reply,
};
use ringfence_engine::data::{Budget, BudgetBounds, BudgetFor, Period};
use ringfence_types::{Json, KeyId, TenantId};
use utoipa::ToSchema;

use crate::{
    shared::Shared,
    views::budget::{BudgetListView, BudgetView},
};

/// Budget to set. An omitted bound is unlimited, whatever the settings of the server say.
#[derive(ToSchema)]
#[schema(as = BudgetRequest)]
#[expect(dead_code, reason = "it documents what `read_budget` reads field by field")]
pub(crate) struct BudgetBody {
    /// Tenant of the calls.
    tenant: String,
    /// Only calls of this key.
    key_id: Option<String>,
    /// `day` or `hour`, in UTC.
    per: String,
    /// Calls.
    calls: Option<u64>,
    /// CPU seconds of sandboxes.
    cpu_seconds: Option<f64>,
    /// Bytes that programs print, and of results.
    output_bytes: Option<u64>,
    /// Tokens that models read and write.
    tokens: Option<u64>,
}

/// Lists the budgets of a tenant, and how much of each is gone: of your own, or as operator of another.
#[utoipa::path(
    get, path = "/v1/budgets", tag = "usage",
    params(("tenant" = Option<String>, Query, description = "Another tenant")),
    responses((status = 200, description = "Budgets", body = BudgetListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let tenant = query.optional::<TenantId>("tenant");
    query.finish()?;
    let own = &caller.principal().tenant;
    if tenant.as_ref().is_some_and(|tenant| tenant != own) {
        check_operator(&caller)?;
    }
    let states = shared.engine.budgets(tenant.as_ref().unwrap_or(own)).await?;
    let budgets = states.iter().map(BudgetView::of).collect();
    Ok(reply::ok(&BudgetListView { budgets }))
}

/// Sets a budget in the place of an earlier one for the same tenant, key and period. Calls that wait for it
/// are looked at again. Only for keys of the operator.
#[utoipa::path(
    put, path = "/v1/budgets", tag = "usage", request_body = BudgetBody,
    responses(
        (status = 200, description = "Budgets of the tenant", body = BudgetListView),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let budget = read_budget(&body)?;
    let tenant = budget.of.tenant.clone();
    shared.engine.set_budget(budget).await?;
    let states = shared.engine.budgets(&tenant).await?;
    let budgets = states.iter().map(BudgetView::of).collect();
    Ok(reply::ok(&BudgetListView { budgets }))
}

/// Most CPU seconds of a budget: some thousand years.
const MAX_CPU_SECONDS: f64 = 1e11;

fn read_budget(body: &Json) -> Result<Budget, Problem> {
    let mut fields = Fields::of(body)?;
    let tenant: Option<TenantId> = fields.required("tenant");
    let key: Option<KeyId> = fields.optional("key_id");
    let per: Option<String> = fields.required("per");
    let period = per.as_deref().and_then(period);
    if per.is_some() && period.is_none() {
        fields.fault("per", "is neither `day` nor `hour`");
    }
    let calls = fields.whole("calls");
    let seconds: Option<f64> = fields.optional("cpu_seconds");
    let cpu = seconds.filter(|seconds| (0.0..=MAX_CPU_SECONDS).contains(seconds));
    if seconds.is_some() && cpu.is_none() {
        fields.fault("cpu_seconds", "must be from 0 to 100000000000");
    }
    let output_bytes = fields.whole("output_bytes");
    let (cpu, tokens) = (cpu.map(Duration::from_secs_f64), fields.whole("tokens"));
    let bounds = BudgetBounds { calls, cpu, output_bytes, tokens };
    let (tenant, per) = fields.finish(tenant.zip(period))?;
    Ok(Budget { of: BudgetFor { tenant, key, per }, bounds })
}

fn period(text: &str) -> Option<Period> {
    match text {
        "day" => Some(Period::Day),
        "hour" => Some(Period::Hour),
        _ => None,
    }
}

/// Removes a budget. Calls that wait for it are looked at again. Only for keys of the operator.
#[utoipa::path(
    delete, path = "/v1/budgets", tag = "usage",
    params(
        ("tenant" = String, Query, description = "Whose"),
        ("key" = Option<String>, Query, description = "The one of this key"),
        ("per" = String, Query, description = "`day` or `hour`"),
    ),
    responses(
        (status = 204, description = "It is removed"),
        (status = 404, description = "There is none"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let (tenant, key) = (query.optional::<TenantId>("tenant"), query.optional::<KeyId>("key"));
    let per = query.optional::<String>("per").as_deref().and_then(period);
    if per.is_none() {
        query.fault("per", "must be `day` or `hour`");
    }
    if tenant.is_none() {
        query.fault("tenant", "is required");
    }
    query.finish()?;
    let Some((tenant, per)) = tenant.zip(per) else { return Err(Problem::not_found()) };
    match shared.engine.remove_budget(BudgetFor { tenant, key, per }).await? {
        true => Ok(reply::nothing()),
        false => Err(Problem::not_found()),
    }
}
