//! Artifacts: files with versions, verdicts and lineage. A change is a call of `artifact_write`.

pub(crate) mod lineage;
pub(crate) mod read;
pub(crate) mod tooloo;
pub(crate) mod write;

use axum::{
    Router,
    routing::{get, post},
};
use ringfence_edge::Problem;
use ringfence_engine::data::{Artifact, ArtifactVerdict, ArtifactVersion};
use ringfence_types::{ArtifactId, CallId, Digest, Json, Principal, Timestamp};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Versions in an answer.
const MAX_VERSIONS: usize = 200;

/// Routes of artifacts.
pub(super) fn routes(router: Router<Arc<Shared>>) -> Router<Arc<Shared>> {
    let own = |rest: &str| format!("/v1/artifacts/{{id}}{rest}");
    router
        .route("/v1/artifacts", get(read::list).post(write::create))
        .route("/v1/artifacts/upload", post(write::upload))
        .route("/v1/artifacts/stats", get(read::stats))
        .route(&own(""), get(read::read).delete(write::remove))
        .route(&own("/content"), get(read::content).put(write::update))
        .route(&own("/versions"), get(read::versions))
        .route(&own("/verdicts"), get(read::verdicts).post(write::verdict))
        .route(&own("/labels"), post(write::label))
        .route(&own("/rollback"), post(write::rollback))
        .route(&own("/verify"), get(read::verify))
        .route(&own("/provenance"), get(lineage::provenance))
        .route(&own("/lineage"), get(lineage::of_artifact))
        .route("/v1/lineage", get(lineage::of_node))
        .route("/api/v1/artifacts/register", post(tooloo::register))
        .route("/api/v1/artifacts/search", get(tooloo::search))
        .route("/api/v1/artifacts/stats", get(tooloo::stats))
        .route("/api/v1/artifacts/{id}", get(tooloo::read))
        .route("/api/v1/artifacts/{id}/update", post(tooloo::update))
        .route("/api/v1/artifacts/{id}/verdict", post(tooloo::verdict))
        .route("/api/v1/artifacts/{id}/history", get(tooloo::history))
        .route("/api/v1/artifacts/{id}/rollback", post(tooloo::rollback))
        .route("/api/v1/artifacts/{id}/provenance", get(tooloo::provenance))
        .route("/api/v1/artifacts/{id}/export", get(tooloo::export))
}

/// An artifact with its newest version.
#[derive(Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactView {
    #[schema(value_type = String)]
    id: ArtifactId,
    /// `code`, `document`, `design`, `analysis`, `config` or `data`.
    kind: &'static str,
    title: String,
    description: String,
    media_type: String,
    tags: Vec<String>,
    /// Maker: a tool, or the author of the first version.
    created_by: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Intent that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<String>,
    /// Task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// Path in the workspace of the call that left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Number of the newest version.
    newest: u32,
    /// The newest version; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<VersionView>,
}

/// A version of an artifact.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactVersion)]
pub(crate) struct VersionView {
    version: u32,
    #[schema(value_type = String)]
    digest: Digest,
    size: u64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    author: String,
    changes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// Labels of the sources of the content.
    labels: Vec<String>,
    /// Version whose content it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_of: Option<u32>,
    /// Call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    /// Link to the content.
    href: String,
}

/// A verdict about a version.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactVerdict)]
pub(crate) struct VerdictView {
    verdict: u32,
    version: u32,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `confidence`, `review`, `test`, `security` or `compliance`.
    #[serde(rename = "type")]
    kind: String,
    score: Option<f64>,
    /// `accept`, `reject`, `escalate` or `revision-needed`.
    decision: String,
    #[schema(value_type = Object)]
    evidence: Json,
    reviewer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
}

impl ArtifactView {
    fn of(artifact: Artifact, version: Option<ArtifactVersion>) -> Self {
        let Artifact { id, kind, title, about, created_at, newest, .. } = artifact;
        Self {
            id,
            kind: kind.name(),
            title,
            description: about.description,
            media_type: about.media_type,
            tags: about.tags,
            created_by: about.created_by,
            created_at,
            intent: about.intent,
            task: about.task,
            path: about.path,
            newest,
            version: version.map(|version| VersionView::of(id, version)),
        }
    }
}

impl VersionView {
    fn of(id: ArtifactId, version: ArtifactVersion) -> Self {
        let ArtifactVersion { number, content } = version;
        Self {
            version: number,
            digest: content.digest,
            size: content.size,
            at: content.at,
            author: content.about.author,
            changes: content.about.changes,
            confidence: content.about.confidence,
            labels: content.about.labels,
            copy_of: content.about.copy_of,
            call_id: content.call,
            href: format!("/v1/artifacts/{id}/content?version={number}"),
        }
    }
}

impl VerdictView {
    fn of(verdict: ArtifactVerdict) -> Self {
        let ArtifactVerdict { version, number, at, about } = verdict;
        Self {
            verdict: number,
            version,
            at,
            kind: about.kind,
            score: about.score,
            decision: about.decision,
            evidence: about.evidence,
            reviewer: about.reviewer,
            call_id: about.call,
        }
    }
}

/// The artifact of this id, or 404.
async fn find(shared: &Shared, who: &Principal, id: ArtifactId) -> Result<Artifact, Problem> {
    shared.engine.artifact(who, id).await?.ok_or_else(Problem::not_found)
}
