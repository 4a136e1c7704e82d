//! Artifacts at the paths and in the forms of TooLoo: `{ok: true, …}`, or a problem with `ok: false` and `error`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use ringfence_edge::{
    Problem, body,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::data::{Artifact, ArtifactVerdict, ArtifactVersion};
use ringfence_types::{ArtifactId, Principal};
use serde_json::{Map, Value, json};

use super::{
    MAX_VERSIONS, find,
    read::wanted,
    write::{Operation, made},
};
use crate::shared::Shared;

/// Text of a version in an answer; longer ones are at `/v1/artifacts/{id}/content`.
const MAX_CONTENT: u64 = 1 << 20;

/// Registers an artifact, in the form of TooLoo.
#[utoipa::path(
    post, path = "/api/v1/artifacts/register", tag = "artifacts", request_body = Object,
    responses(
        (status = 200, description = "`{ok, artifactId, versionId, timestamp}`", body = Object),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn register(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = body::json(&shared.edge, request).await?.to_value();
    let names = [
        ("type", "kind"),
        ("title", "title"),
        ("description", "description"),
        ("mimeType", "media_type"),
        ("tags", "tags"),
        ("relatedIntentId", "intent"),
        ("intentId", "intent"),
        ("relatedTaskId", "task"),
        ("taskId", "task"),
        ("createdBy", "author"),
        ("author", "author"),
        ("changes", "changes"),
        ("confidence", "confidence"),
        ("content", "content"),
    ];
    let mut args = renamed(&fields, &names);
    // Some callers send these within `metadata`.
    for (name, value) in renamed(&fields["metadata"], &names) {
        args.entry(name).or_insert(value);
    }
    let done =
        |result: &Value| json!({"artifactId": result["artifact"], "versionId": result["version"]});
    changed(&shared, &caller, ("create", None), args, done).await
}

/// Adds a version, in the form of TooLoo.
#[utoipa::path(
    post, path = "/api/v1/artifacts/{id}/update", tag = "artifacts", request_body = Object,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "`{ok, artifactId, versionId, timestamp}`", body = Object),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn update(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await.map_err(refused)?;
    let fields = body::json(&shared.edge, request).await?.to_value();
    let same = ["content", "changes", "author", "confidence"].map(|name| (name, name));
    let done =
        |result: &Value| json!({"artifactId": result["artifact"], "versionId": result["version"]});
    changed(&shared, &caller, ("update", Some(id)), renamed(&fields, &same), done).await
}

/// Adds a verdict, in the form of TooLoo.
#[utoipa::path(
    post, path = "/api/v1/artifacts/{id}/verdict", tag = "artifacts", request_body = Object,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "`{ok, artifactId, versionId, verdictId, timestamp}`", body = Object),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn verdict(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await.map_err(refused)?;
    let fields = body::json(&shared.edge, request).await?.to_value();
    let names = [
        ("versionId", "version"),
        ("type", "type"),
        ("score", "score"),
        ("decision", "decision"),
        ("evidence", "evidence"),
        ("reviewer", "reviewer"),
    ];
    let done = |result: &Value| {
        json!({
            "artifactId": result["artifact"], "versionId": result["version"],
            "verdictId": result["verdict"],
        })
    };
    changed(&shared, &caller, ("verdict", Some(id)), renamed(&fields, &names), done).await
}

/// Adds a version with the content of an earlier one, in the form of TooLoo.
#[utoipa::path(
    post, path = "/api/v1/artifacts/{id}/rollback", tag = "artifacts", request_body = Object,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "`{ok, artifactId, rolledBackTo, newVersionId, timestamp}`", body = Object),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn rollback(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await.map_err(refused)?;
    let fields = body::json(&shared.edge, request).await?.to_value();
    let target = fields["targetVersionId"].clone();
    let args = renamed(&fields, &[("targetVersionId", "version")]);
    let done = |result: &Value| {
        json!({
            "artifactId": result["artifact"], "rolledBackTo": target,
            "newVersionId": result["version"],
        })
    };
    changed(&shared, &caller, ("rollback", Some(id)), args, done).await
}

/// Shows an artifact with its versions, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/{id}", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("versionId" = Option<u32>, Query, description = "Only this version", minimum = 1),
    ),
    responses((status = 200, description = "`{ok, artifact}`", body = Object))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let only = query.number("versionId", 1, u32::MAX.into()).map(|number| number as u32);
    query.finish()?;
    let artifact = match whole(&shared, caller.principal(), id, only).await? {
        Some(artifact) => artifact,
        None => return Err(not_found()),
    };
    Ok(reply::ok(&json!({"ok": true, "artifact": artifact})))
}

/// Lists the versions of an artifact, oldest first, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/{id}/history", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "`{ok, history}`", body = Object))
)]
pub(crate) async fn history(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    let Some(artifact) = whole(&shared, caller.principal(), id, None).await? else {
        return Err(not_found());
    };
    Ok(reply::ok(&json!({"ok": true, "history": artifact["versions"]})))
}

/// Shows where an artifact comes from, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/{id}/provenance", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "`{ok, provenance}`", body = Object))
)]
pub(crate) async fn provenance(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let Ok(artifact) = find(&shared, who, id).await else { return Err(not_found()) };
    let verdicts = shared.engine.artifact_verdicts(who, id, MAX_VERSIONS).await?;
    let scores = verdicts.iter().map(|v| json!({"timestamp": v.at, "score": v.about.score}));
    let decisions =
        verdicts.iter().map(|v| json!({"timestamp": v.at, "decision": v.about.decision}));
    let provenance = json!({
        "artifactId": id, "intentId": artifact.about.intent, "dagId": null,
        "nodeId": artifact.about.task,
        "tasks": artifact.about.task.iter().collect::<Vec<_>>(),
        "verdicts": verdicts.iter().map(verdict_value).collect::<Vec<_>>(),
        "scoreTimeline": scores.collect::<Vec<_>>(),
        "decisionTimeline": decisions.collect::<Vec<_>>(),
        "createdAt": artifact.created_at,
    });
    Ok(reply::ok(&json!({"ok": true, "provenance": provenance})))
}

/// Searches artifacts, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/search", tag = "artifacts",
    params(
        ("type" = Option<String>, Query, description = "Only of this kind"),
        ("title" = Option<String>, Query, description = "Only with this text in the title"),
        ("tag" = Option<String>, Query, description = "Only with this tag"),
        ("intentId" = Option<String>, Query, description = "Only of this intent"),
    ),
    responses((status = 200, description = "`{ok, artifacts, count}`", body = Object))
)]
pub(crate) async fn search(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let intent = query.optional::<String>("intentId");
    let mut wanted = wanted(&mut query, caller.principal(), "type");
    wanted.intent = intent.or(wanted.intent);
    query.finish()?;
    let page = shared.engine.artifacts(wanted).await?;
    let artifacts: Vec<_> =
        page.artifacts.iter().map(|artifact| head(artifact, &[], &[])).collect();
    Ok(reply::ok(&json!({"ok": true, "count": artifacts.len(), "artifacts": artifacts})))
}

/// Counts artifacts, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/stats", tag = "artifacts",
    responses((status = 200, description = "`{ok, stats}`", body = Object))
)]
pub(crate) async fn stats(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let totals = shared.engine.artifact_totals(caller.principal()).await?;
    let stats = json!({
        "totalArtifacts": totals.artifacts, "totalVersions": totals.versions,
        "totalBytes": totals.bytes,
    });
    Ok(reply::ok(&json!({"ok": true, "stats": stats})))
}

/// Returns an artifact whole, in the form of TooLoo.
#[utoipa::path(
    get, path = "/api/v1/artifacts/{id}/export", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses((status = 200, description = "`{ok, export}`", body = Object))
)]
pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    let Some(artifact) = whole(&shared, caller.principal(), id, None).await? else {
        return Err(not_found());
    };
    Ok(reply::ok(&json!({"ok": true, "export": artifact})))
}

/// Fields under other names; those that are null or missing are left out.
fn renamed(fields: &Value, names: &[(&str, &str)]) -> Map<String, Value> {
    let mut args = Map::new();
    for (theirs, ours) in names {
        if let Some(value) = fields.get(*theirs).filter(|value| !value.is_null()) {
            args.entry((*ours).to_owned()).or_insert_with(|| value.clone());
        }
    }
    args
}

async fn changed(
    shared: &Shared,
    caller: &Caller,
    operation: Operation,
    args: Map<String, Value>,
    done: impl FnOnce(&Value) -> Value,
) -> Result<Response, Problem> {
    let made = match made(shared, caller, operation, args, None).await {
        Ok(made) => made,
        Err(problem) => return Err(refused(problem)),
    };
    match made.result() {
        Ok(Ok(result)) => {
            let mut answer = done(&result);
            answer["ok"] = json!(true);
            answer["timestamp"] = json!(made.call.changed_at);
            Ok(reply::ok(&answer))
        }
        Ok(Err(waits)) => Ok(waits),
        Err(problem) => Err(refused(problem)),
    }
}

/// A refusal in the form of TooLoo, which is a problem as well.
fn refused(problem: Problem) -> Problem {
    let error = problem.detail().to_owned();
    problem.with("ok", false).with("error", error)
}

fn not_found() -> Problem {
    Problem::not_found().with("ok", false).with("error", "Artifact not found")
}

/// An artifact with its versions, oldest first, and their content as text.
async fn whole(
    shared: &Shared,
    who: &Principal,
    id: ArtifactId,
    only: Option<u32>,
) -> Result<Option<Value>, Problem> {
    let Some(artifact) = shared.engine.artifact(who, id).await? else { return Ok(None) };
    let verdicts = shared.engine.artifact_verdicts(who, id, MAX_VERSIONS).await?;
    let before = only.map(|only| only.saturating_add(1));
    let limit = if only.is_some() { 1 } else { MAX_VERSIONS };
    let mut found = shared.engine.artifact_versions(who, id, before, limit).await?;
    found.retain(|version| only.is_none_or(|only| only == version.number));
    if found.is_empty() {
        return Ok(None);
    }
    found.reverse();
    let mut versions = Vec::new();
    for version in found {
        let bytes = shared.engine.artifact_bytes(&version, 0, MAX_CONTENT).await?;
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        versions.push((version, text));
    }
    Ok(Some(head(&artifact, &versions, &verdicts)))
}

fn head(
    artifact: &Artifact,
    versions: &[(ArtifactVersion, String)],
    verdicts: &[ArtifactVerdict],
) -> Value {
    let version = |(version, text): &(ArtifactVersion, String)| {
        let own = verdicts.iter().filter(|verdict| verdict.version == version.number).rev();
        json!({
            "versionId": version.number, "timestamp": version.content.at, "content": text,
            "contentHash": version.content.digest, "changes": version.content.about.changes,
            "author": version.content.about.author, "confidence": version.content.about.confidence,
            "verdicts": own.map(verdict_value).collect::<Vec<_>>(),
        })
    };
    json!({
        "id": artifact.id, "type": artifact.kind.name(), "title": artifact.title,
        "description": artifact.about.description, "mimeType": artifact.about.media_type,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "metadata": {
            "createdBy": artifact.about.created_by, "createdAt": artifact.created_at,
            "tags": artifact.about.tags, "relatedIntentId": artifact.about.intent,
            "relatedTaskId": artifact.about.task,
        },
    })
}

fn verdict_value(verdict: &ArtifactVerdict) -> Value {
    json!({
        "verdictId": verdict.number, "timestamp": verdict.at, "type": verdict.about.kind,
        "score": verdict.about.score, "decision": verdict.about.decision,
        "evidence": verdict.about.evidence, "reviewer": verdict.about.reviewer,
    })
}
