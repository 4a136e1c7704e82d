//! Reading artifacts.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::data::{ArtifactQuery, ArtifactRef, ArtifactVersion};
use ringfence_types::{ArtifactId, ArtifactKind, CallId, Digest, Principal};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ArtifactView, MAX_VERSIONS, VerdictView, VersionView, find};
use crate::shared::Shared;

/// Page of artifacts, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactList)]
pub(crate) struct ListView {
    artifacts: Vec<ArtifactView>,
    /// Cursor of the next page; none at the end.
    next_cursor: Option<String>,
}

/// Lists artifacts of the tenant, newest first.
///
/// A page may have fewer than `limit` artifacts, or none, without being the last: continue while there is a
/// `next_cursor`.
#[utoipa::path(
    get, path = "/v1/artifacts", tag = "artifacts",
    params(
        ("type" = Option<String>, Query, description = "Only of this kind"),
        ("title" = Option<String>, Query, description = "Only with this text in the title"),
        ("tag" = Option<String>, Query, description = "Only with this tag"),
        ("label" = Option<String>, Query, description = "Only with this label"),
        ("intent" = Option<String>, Query, description = "Only of this intent"),
        ("call_id" = Option<String>, Query, description = "Only those that this call made"),
        ("digest" = Option<String>, Query, description = "Only the newest with this content"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 200; default 50"),
    ),
    responses((status = 200, description = "Artifacts", body = ListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let digest = query.optional::<Digest>("digest");
    let wanted = wanted(&mut query, caller.principal(), "type");
    query.finish()?;
    if let Some(digest) = digest {
        return with_content(&shared, caller.principal(), digest).await;
    }
    let page = shared.engine.artifacts(wanted).await?;
    let next_cursor = page.next.map(|id| id.to_string());
    let artifacts = page.artifacts.into_iter();
    let artifacts = artifacts.map(|artifact| ArtifactView::of(artifact, None)).collect();
    Ok(reply::ok(&ListView { artifacts, next_cursor }))
}

/// The artifact whose newest fitting version has this content.
async fn with_content(
    shared: &Shared,
    who: &Principal,
    digest: Digest,
) -> Result<Response, Problem> {
    let found = shared.engine.artifact_version(who, ArtifactRef::Content(digest)).await?;
    let mut artifacts = Vec::new();
    if let Some((id, version)) = found {
        artifacts.push(ArtifactView::of(find(shared, who, id).await?, Some(version)));
    }
    Ok(reply::ok(&ListView { artifacts, next_cursor: None }))
}

/// Filters of a list.
pub(super) fn wanted(query: &mut Query, who: &Principal, kind: &str) -> ArtifactQuery {
    ArtifactQuery {
        kind: query.optional::<ArtifactKind>(kind),
        title: query.optional("title"),
        tag: query.optional("tag"),
        label: query.optional("label"),
        intent: query.optional("intent"),
        call: query.optional::<CallId>("call_id"),
        before: query.optional::<ArtifactId>("cursor"),
        limit: query.number("limit", 1, 200).unwrap_or(50) as usize,
        ..ArtifactQuery::of(who.tenant.clone())
    }
}

/// Shows an artifact with its newest version.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "The artifact", body = ArtifactView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    let artifact = find(&shared, caller.principal(), id).await?;
    let version = version(&shared, caller.principal(), id, None).await?;
    Ok(reply::ok(&ArtifactView::of(artifact, Some(version))))
}

/// A version of an artifact, or 404.
pub(super) async fn version(
    shared: &Shared,
    who: &Principal,
    id: ArtifactId,
    number: Option<u32>,
) -> Result<ArtifactVersion, Problem> {
    let found = shared.engine.artifact_version(who, ArtifactRef::Version(id, number)).await?;
    found.map(|(_, version)| version).ok_or_else(Problem::not_found)
}

/// Versions of an artifact.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactVersionList)]
pub(crate) struct VersionsView {
    versions: Vec<VersionView>,
    /// Value of `before` for the next page; none at the end.
    next_before: Option<u32>,
}

/// Lists the versions of an artifact, newest first.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/versions", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("before" = Option<u32>, Query, description = "Only older versions than this", minimum = 1),
    ),
    responses((status = 200, description = "Versions", body = VersionsView))
)]
pub(crate) async fn versions(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let before = query.number("before", 1, u32::MAX.into()).map(|before| before as u32);
    query.finish()?;
    find(&shared, caller.principal(), id).await?;
    let found = shared.engine.artifact_versions(caller.principal(), id, before, MAX_VERSIONS);
    let found = found.await?;
    let next_before = found.last().map(|last| last.number).filter(|last| *last > 1);
    let versions = found.into_iter().map(|version| VersionView::of(id, version)).collect();
    Ok(reply::ok(&VersionsView { versions, next_before }))
}

/// Bytes that one read takes from the store.
const READ_BYTES: u64 = 1 << 20;

/// Returns the content of a version.
///
/// It is sent as a download, and a browser is told to run nothing of it. `Digest-Sha256` is its digest.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/content", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("version" = Option<u32>, Query, description = "The version; the newest by default", minimum = 1),
    ),
    responses((status = 200, description = "The content", body = Vec<u8>, content_type = "application/octet-stream"))
)]
pub(crate) async fn content(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let number = only_version(&uri)?;
    let version = version(&shared, caller.principal(), id, number).await?;
    let digest = HeaderValue::try_from(version.content.digest.to_string());
    let size = version.content.size;
    let engine = shared.engine.clone();
    // In parts: the answer to a slow client does not hold all of it.
    let parts = futures_util::stream::try_unfold((engine, version, 0), async |state| {
        let (engine, version, offset) = state;
        if offset >= version.content.size {
            return Ok(None);
        }
        let read = engine.artifact_bytes(&version, offset, READ_BYTES).await;
        let bytes = read.map_err(std::io::Error::other)?.unwrap_or_default();
        if bytes.is_empty() {
            return Err(std::io::Error::other("the content of an artifact is missing"));
        }
        let next = offset + bytes.len() as u64;
        Ok(Some((bytes::Bytes::from(bytes), (engine, version, next))))
    });
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::of(StatusCode::OK, kind, bytes::Bytes::new());
    *response.body_mut() = axum::body::Body::from_stream(parts);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, size.into());
    headers.extend(digest.map(|digest| (HeaderName::from_static("digest-sha256"), digest)));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// The parameter `version` of a query without others.
pub(super) fn only_version(uri: &Uri) -> Result<Option<u32>, Problem> {
    let mut query = Query::of(uri);
    let number = query.number("version", 1, u32::MAX.into()).map(|number| number as u32);
    query.finish().map(|()| number)
}

/// Verdicts about an artifact.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactVerdictList)]
pub(crate) struct VerdictsView {
    verdicts: Vec<VerdictView>,
}

/// Lists the verdicts about an artifact, newest version and verdict first.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/verdicts", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "Verdicts", body = VerdictsView))
)]
pub(crate) async fn verdicts(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await?;
    let found = shared.engine.artifact_verdicts(caller.principal(), id, MAX_VERSIONS).await?;
    let verdicts = found.into_iter().map(VerdictView::of).collect();
    Ok(reply::ok(&VerdictsView { verdicts }))
}

/// Comparison of stored bytes with their digest.
#[derive(Serialize, ToSchema)]
#[schema(as = VerifiedArtifact)]
pub(crate) struct VerifiedView {
    #[schema(value_type = String)]
    id: ArtifactId,
    version: u32,
    /// Digest when the version was made.
    #[schema(value_type = String)]
    stored_digest: Digest,
    /// Digest of the bytes that are there now; none if they are missing or damaged.
    #[schema(value_type = Option<String>)]
    computed_digest: Option<Digest>,
    is_valid: bool,
}

/// Compares the content of a version with its digest.
#[utoipa::path(
    get, path = "/v1/artifacts/{id}/verify", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("version" = Option<u32>, Query, description = "The version; the newest by default", minimum = 1),
    ),
    responses((status = 200, description = "The comparison", body = VerifiedView))
)]
pub(crate) async fn verify(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let number = only_version(&uri)?;
    let found = shared.engine.verify_artifact(caller.principal(), id, number).await?;
    let found = found.ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&VerifiedView {
        id,
        version: found.version,
        stored_digest: found.stored,
        computed_digest: found.computed,
        is_valid: found.computed == Some(found.stored),
    }))
}

/// Numbers of a tenant's artifacts.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactStats)]
pub(crate) struct StatsView {
    artifacts: u64,
    versions: u64,
    /// Bytes of all versions, each counted by itself; equal content is stored once.
    bytes: u64,
    /// Bytes that the tenant may have.
    quota_bytes: u64,
}

/// Counts the artifacts of the tenant.
#[utoipa::path(
    get, path = "/v1/artifacts/stats", tag = "artifacts",
    responses((status = 200, description = "Numbers", body = StatsView))
)]
pub(crate) async fn stats(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let totals = shared.engine.artifact_totals(caller.principal()).await?;
    let quota_bytes = shared.engine.artifact_limits().bytes_per_tenant;
    let (artifacts, versions, bytes) = (totals.artifacts, totals.versions, totals.bytes);
    Ok(reply::ok(&StatsView { artifacts, versions, bytes, quota_bytes }))
}
