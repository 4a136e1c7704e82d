//! Reading and ending sandboxes.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    reply,
};
use ringfence_engine::sandbox::session::{Metrics, SessionId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{SandboxView, find, secs, why};
use crate::{shared::Shared, views::call::millis};

/// Sandboxes, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxList)]
pub(crate) struct SandboxListView {
    sandboxes: Vec<SandboxView>,
    count: usize,
}

/// Lists the tenant's sandboxes.
#[utoipa::path(
    get, path = "/v1/sandboxes", tag = "sandboxes",
    responses((status = 200, description = "Sandboxes", body = SandboxListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
) -> Response {
    let own = shared.engine.sandboxes(caller.principal());
    let sandboxes: Vec<_> = own.into_iter().map(SandboxView::of).collect();
    reply::ok(&SandboxListView { count: sandboxes.len(), sandboxes })
}

/// Shows a sandbox.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses((status = 200, description = "The sandbox", body = SandboxView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    Ok(reply::ok(&SandboxView::of(session.info())))
}

/// Usage of a sandbox; null where this host does not count.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxMetrics)]
pub(crate) struct MetricsView {
    /// Seconds since its creation, pauses included.
    uptime_secs: f64,
    /// CPU time of all its processes, including ended ones.
    cpu_total_ms: Option<f64>,
    cpu_user_ms: Option<f64>,
    cpu_system_ms: Option<f64>,
    memory_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    oom_kills: Option<u64>,
    processes: Option<u64>,
    processes_peak: Option<u64>,
    /// Bytes in workspace, `/tmp` and `/dev/shm`.
    disk_used_bytes: u64,
    disk_total_bytes: u64,
    files_used: u64,
    files_total: u64,
}

impl From<Metrics> for MetricsView {
    fn from(metrics: Metrics) -> Self {
        Self {
            uptime_secs: secs(metrics.uptime),
            cpu_total_ms: metrics.cpu_total.map(millis),
            cpu_user_ms: metrics.cpu_user.map(millis),
            cpu_system_ms: metrics.cpu_system.map(millis),
            memory_bytes: metrics.memory_now.map(|bytes| bytes.0),
            memory_peak_bytes: metrics.memory_peak.map(|bytes| bytes.0),
            oom_kills: metrics.oom_kills,
            processes: metrics.processes_now,
            processes_peak: metrics.processes_peak,
            disk_used_bytes: metrics.disk_used.0,
            disk_total_bytes: metrics.disk_total.0,
            files_used: metrics.files_used,
            files_total: metrics.files_total,
        }
    }
}

/// Shows the usage of a sandbox.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/metrics", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses((status = 200, description = "The usage", body = MetricsView))
)]
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let metrics = session.metrics().await.map_err(|error| why(&error))?;
    Ok(reply::ok(&MetricsView::from(metrics)))
}

/// Ends a sandbox with everything in it. A repeated request is answered with 404.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses((status = 204, description = "Ended: its last process is dead"))
)]
pub(crate) async fn stop(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?.session.stop().await;
    Ok(reply::nothing())
}
