//! Health and readiness, for frequent probes without a key.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem, append_metrics,
    exposition::Format,
    identity::{self, OptionalCaller},
    reply,
};
use ringfence_engine::StoreState;
use ringfence_types::{Layer, Scope};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Name and version of the service.
#[derive(Serialize, ToSchema)]
#[schema(as = Root)]
pub(crate) struct RootView {
    service: &'static str,
    status: &'static str,
    skills_loaded: usize,
    /// Path of the documentation.
    docs: &'static str,
}

/// Health of the service.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthView {
    status: &'static str,
    registry_loaded: bool,
    executor_ready: bool,
    skills_count: usize,
}

/// Answer to a probe.
#[derive(Serialize, ToSchema)]
#[schema(as = Probe)]
pub(crate) struct ProbeView {
    /// `alive`, `ready`, `degraded` (ready, without services that `missing` names), `stopping`, `store_unavailable`, `storage_low`, `sandbox_unavailable`, or
    /// `store_gone` if files of the database were deleted or replaced: then only a restart helps.
    status: &'static str,
    /// Reason why sandboxes cannot be made at the moment, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    sandbox: Option<SandboxProbeView>,
    /// Layers that this host lacks and the operator allowed to be missing
    /// (`sandbox.allow_missing`).
    #[serde(skip_serializing_if = "<[Layer]>::is_empty")]
    #[schema(required = false, value_type = Vec<String>)]
    missing_layers: Vec<Layer>,
    /// State of policy, if asked for. Calls are accepted in any state: undecided ones are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    policy: Option<PolicyProbeView>,
    /// Services beside the server that do not answer: `redis`, `kafka`. Calls are accepted all the same.
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    #[schema(required = false, value_type = Vec<String>)]
    missing: Vec<&'static str>,
}

/// Reason why sandboxes cannot be made at the moment.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxProbe)]
pub(crate) struct SandboxProbeView {
    /// Observation.
    reason: String,
    /// Remedy for the operator of the host.
    hint: String,
    /// Processes of the host that hang and cannot be killed.
    processes: Vec<i32>,
}

fn sandbox(shared: &Shared) -> Option<SandboxProbeView> {
    let why = shared.engine.sandbox_readiness().err()?;
    let (reason, hint) = (why.to_string(), why.hint());
    Some(SandboxProbeView { reason, hint, processes: why.processes })
}

/// State of policy, without details.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyProbe)]
pub(crate) struct PolicyProbeView {
    /// The worst state of an engine: `well`, `stale`, `troubled` or `down`.
    state: &'static str,
    /// Number of tenants whose calls run while no engine answers.
    fail_open_tenants: usize,
    /// Number of other servers on the same database whose rules differ from those of this one; null if
    /// it is unknown.
    differing_servers: Option<usize>,
}

async fn policy(shared: &Shared, is_store_well: bool) -> PolicyProbeView {
    let policy = shared.engine.policy_status();
    let worst = policy.engines.into_iter().map(|status| status.state).max();
    PolicyProbeView {
        state: worst.map_or("well", |state| state.name()),
        fail_open_tenants: policy.fail_open.len(),
        differing_servers: match is_store_well {
            true => shared.engine.differing_policies().await.ok(),
            false => None,
        },
    }
}

/// Shows name and version of the service. Redirects browsers to the documentation.
#[utoipa::path(
    get, path = "/", tag = "health",
    responses(
        (status = 200, description = "It is", body = RootView),
        (status = 303, description = "The documentation, for clients that accept `text/html`"),
    )
)]
pub(crate) async fn root(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.into_iter().any(|value| value.contains("text/html")) {
        let mut response = reply::nothing();
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs"));
        return response;
    }
    reply::ok(&RootView {
        service: "code-executor",
        status: "healthy",
        skills_loaded: skills(&shared),
        docs: "/docs",
    })
}

/// Shows the health of the service.
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, description = "It is well", body = HealthView)))]
pub(crate) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    reply::ok(&HealthView {
        status: "healthy",
        registry_loaded: true,
        executor_ready: !shared.engine.is_stopping() && sandbox(&shared).is_none(),
        skills_count: skills(&shared),
    })
}

fn skills(shared: &Shared) -> usize {
    shared.engine.tools().newest().filter(|entry| entry.is_skill()).count()
}

/// Liveness probe: the process answers.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, description = "It does", body = ProbeView)))]
pub(crate) async fn live() -> Response {
    reply::ok(&ProbeView {
        status: "alive",
        sandbox: None,
        missing_layers: Vec::new(),
        policy: None,
        missing: Vec::new(),
    })
}

/// Liveness probe under the name that many tools use.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "It does", body = ProbeView)))]
pub(crate) async fn healthz() -> Response {
    live().await
}

/// Readiness probe: the store can be written, the disk has more than its reserve, the host can make
/// sandboxes, and the server is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses(
        (status = 200, description = "They can", body = ProbeView),
        (status = 503, description = "They cannot", body = ProbeView),
    )
)]
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let (sandbox, missing) = (sandbox(&shared), shared.engine.missing_dependencies());
    let status = if shared.engine.is_stopping() {
        "stopping"
    } else {
        match shared.engine.probe_store().await {
            StoreState::Unavailable => "store_unavailable",
            StoreState::Gone => "store_gone",
            StoreState::DiskLow => "storage_low",
            StoreState::Writable if sandbox.is_some() => "sandbox_unavailable",
            StoreState::Writable if !missing.is_empty() => "degraded",
            StoreState::Writable => "ready",
        }
    };
    let is_ready = matches!(status, "ready" | "degraded");
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let missing_layers = shared.engine.missing_layers();
    let policy = Some(policy(&shared, status != "store_unavailable").await);
    let probe = ProbeView { status, sandbox, missing_layers, policy, missing };
    let mut response = reply::json(code, &probe);
    if !is_ready {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS);
    }
    response
}

/// Retry delay for a probe that finds the server not ready.
const RETRY_AFTER_SECS: HeaderValue = HeaderValue::from_static("5");

/// Metrics for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Prometheus text format, or OpenMetrics on request", content(
        (String = "text/plain"), (String = "application/openmetrics-text"),
    )))
)]
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    OptionalCaller(caller): OptionalCaller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // Requests without a key get here only if the operator allowed it: the edge has checked.
    if caller.is_some_and(|caller| !caller.principal().scopes.allow(Scope::Read)) {
        return Err(identity::scope_missing(Scope::Read));
    }
    let format = Format::wanted(&headers);
    let text = append_metrics(&shared.edge.metrics_text(), &shared.metrics.registry);
    let text = format.write(text);
    Ok(reply::of(StatusCode::OK, format.content_type(), text.into()))
}
