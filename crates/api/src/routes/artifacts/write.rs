//! Changing artifacts: each change is a call of `artifact_write`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem, body,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_types::{ArtifactId, CallId, Digest, Json};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::find;
use crate::{
    routes::sandboxes::calls::{HeldView, Made, SandboxCall, with_call},
    shared::Shared,
};

/// Result of a change.
#[derive(Serialize, ToSchema)]
#[schema(as = ArtifactChange)]
pub(crate) struct ChangeView {
    #[schema(value_type = String)]
    id: ArtifactId,
    /// Version that was added or judged, or the newest.
    version: u32,
    /// Digest of the content of a version that was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// Number of the verdict that was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<u32>,
    /// The call that made the change.
    #[schema(value_type = String)]
    call_id: CallId,
}

/// An artifact to be made.
#[derive(ToSchema)]
#[schema(as = ArtifactRequest)]
#[expect(dead_code, reason = "it documents the arguments of `artifact_write`")]
pub(crate) struct CreateBody {
    /// Title, such as the name of a file.
    #[schema(max_length = 500)]
    title: String,
    /// `code`, `document`, `design`, `analysis`, `config` or `data`; by the title without one.
    kind: Option<String>,
    #[schema(max_length = 4000)]
    description: Option<String>,
    /// Media type; by the title without one.
    #[schema(max_length = 200)]
    media_type: Option<String>,
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
    /// Labels of the sources of the content; `upload` is added.
    #[schema(max_items = 32)]
    labels: Option<Vec<String>>,
    intent: Option<String>,
    task: Option<String>,
    changes: Option<String>,
    author: Option<String>,
    confidence: Option<f64>,
    /// Content as text; or use `base64`.
    content: Option<String>,
    /// Content in base64.
    base64: Option<String>,
}

/// A verdict about a version.
#[derive(ToSchema)]
#[schema(as = ArtifactVerdictRequest)]
#[expect(dead_code, reason = "it documents the arguments of `artifact_write`")]
pub(crate) struct VerdictBody {
    /// The version; the newest by default.
    #[schema(minimum = 1)]
    version: Option<u32>,
    /// `confidence`, `review`, `test`, `security` or `compliance`.
    #[schema(rename = "type")]
    r#type: String,
    score: Option<f64>,
    /// `accept`, `reject`, `escalate` or `revision-needed`.
    decision: String,
    #[schema(value_type = Option<Object>)]
    evidence: Option<Json>,
    reviewer: Option<String>,
}

/// Labels to be added.
#[derive(ToSchema)]
#[schema(as = ArtifactLabelRequest)]
#[expect(dead_code, reason = "it documents the arguments of `artifact_write`")]
pub(crate) struct LabelBody {
    #[schema(max_items = 32)]
    labels: Vec<String>,
}

/// The version to go back to.
#[derive(ToSchema)]
#[schema(as = ArtifactRollbackRequest)]
#[expect(dead_code, reason = "it documents the arguments of `artifact_write`")]
pub(crate) struct RollbackBody {
    #[schema(minimum = 1)]
    version: u32,
    author: Option<String>,
}

/// Makes an artifact from JSON.
#[utoipa::path(
    post, path = "/v1/artifacts", tag = "artifacts", request_body = CreateBody,
    responses(
        (status = 201, description = "The artifact", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let args = object(&body::json(&shared.edge, request).await?)?;
    change(&shared, &caller, ("create", None), args, StatusCode::CREATED).await
}

/// Makes an artifact from the bytes of the body.
#[utoipa::path(
    post, path = "/v1/artifacts/upload", tag = "artifacts",
    params(
        ("title" = String, Query, description = "Title, such as the name of a file"),
        ("type" = Option<String>, Query, description = "Kind; by the title without one"),
        ("media_type" = Option<String>, Query, description = "Media type; by the title without one"),
        ("author" = Option<String>, Query, description = "Author"),
        ("tag" = Option<Vec<String>>, Query, description = "A tag; may be repeated"),
        ("label" = Option<Vec<String>>, Query, description = "A label; may be repeated"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The artifact", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn upload(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let mut query = Query::of(request.uri());
    let mut args = texts(&mut query, &["title", "media_type", "author"]);
    args.extend(query.optional::<String>("type").map(|kind| ("kind".to_owned(), kind.into())));
    for (name, list) in [("tag", "tags"), ("label", "labels")] {
        let all = query.all(name);
        args.extend((!all.is_empty()).then(|| (list.to_owned(), all.into())));
    }
    if !args.contains_key("title") {
        query.fault("title", "is required");
    }
    query.finish()?;
    attach(&shared, &caller, ("create", None), args, request).await
}

/// Adds a version with the bytes of the body.
#[utoipa::path(
    put, path = "/v1/artifacts/{id}/content", tag = "artifacts",
    params(
        ("id" = String, Path, description = "The artifact"),
        ("after" = Option<u32>, Query, description = "Only if this is the newest version", minimum = 1),
        ("changes" = Option<String>, Query, description = "Description of the changes"),
        ("author" = Option<String>, Query, description = "Author"),
        ("label" = Option<Vec<String>>, Query, description = "A label; may be repeated"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "The version", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "Another version is the newest, or the built-in tool is not active"),
    )
)]
pub(crate) async fn update(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await?;
    let mut query = Query::of(request.uri());
    let mut args = texts(&mut query, &["changes", "author"]);
    let after = query.number("after", 1, u32::MAX.into());
    args.extend(after.map(|after| ("after".to_owned(), after.into())));
    let labels = query.all("label");
    args.extend((!labels.is_empty()).then(|| ("labels".to_owned(), labels.into())));
    query.finish()?;
    attach(&shared, &caller, ("update", Some(id)), args, request).await
}

/// Adds a verdict about a version.
#[utoipa::path(
    post, path = "/v1/artifacts/{id}/verdicts", tag = "artifacts", request_body = VerdictBody,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "The verdict", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn verdict(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await?;
    let args = object(&body::json(&shared.edge, request).await?)?;
    change(&shared, &caller, ("verdict", Some(id)), args, StatusCode::OK).await
}

/// Adds labels to all versions of an artifact. Labels cannot be taken away.
#[utoipa::path(
    post, path = "/v1/artifacts/{id}/labels", tag = "artifacts", request_body = LabelBody,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "The artifact", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn label(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await?;
    let args = object(&body::json(&shared.edge, request).await?)?;
    change(&shared, &caller, ("label", Some(id)), args, StatusCode::OK).await
}

/// Adds a version with the content of an earlier one.
#[utoipa::path(
    post, path = "/v1/artifacts/{id}/rollback", tag = "artifacts", request_body = RollbackBody,
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "The new version", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn rollback(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), id).await?;
    let args = object(&body::json(&shared.edge, request).await?)?;
    change(&shared, &caller, ("rollback", Some(id)), args, StatusCode::OK).await
}

/// Removes an artifact with all its versions. Its lineage stays; its bytes go when nothing else refers to
/// them.
#[utoipa::path(
    delete, path = "/v1/artifacts/{id}", tag = "artifacts",
    params(("id" = String, Path, description = "The artifact")),
    responses(
        (status = 200, description = "Removed", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The built-in tool is not active"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<ArtifactId>,
) -> Result<Response, Problem> {
    change(&shared, &caller, ("remove", Some(id)), Map::new(), StatusCode::OK).await
}

/// An operation of `artifact_write`, and the artifact that it is about.
pub(super) type Operation = (&'static str, Option<ArtifactId>);

fn texts(query: &mut Query, names: &[&str]) -> Map<String, Value> {
    let read = |name: &&str| Some(((*name).to_owned(), query.optional::<String>(name)?.into()));
    names.iter().filter_map(read).collect()
}

fn object(body: &Json) -> Result<Map<String, Value>, Problem> {
    let problem = || {
        let (pointer, detail) = (String::new(), "must be an object".to_owned());
        ringfence_edge::fields::invalid(vec![ringfence_edge::problem::Fault { pointer, detail }])
    };
    match body.to_value() {
        // What is null is left out.
        Value::Object(fields) => {
            Ok(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
        }
        _ => Err(problem()),
    }
}

/// The call of an operation. Fields of the request cannot stand for the operation or the artifact.
pub(super) async fn made(
    shared: &Shared,
    caller: &Caller,
    (operation, id): Operation,
    mut args: Map<String, Value>,
    bytes: Option<bytes::Bytes>,
) -> Result<Made, Problem> {
    args.remove("artifact");
    args.insert("operation".to_owned(), operation.into());
    args.extend(id.map(|id| ("artifact".to_owned(), id.to_string().into())));
    if let Some(bytes) = &bytes {
        let attached = json!({"digest": Digest::of(bytes), "bytes": bytes.len()});
        args.insert("attached".to_owned(), attached);
    }
    let mut call = SandboxCall::new(shared, "artifact_write", &args.into());
    if let Some(bytes) = bytes {
        call = call.attach(bytes);
    }
    call.call(shared, caller).await
}

async fn attach(
    shared: &Shared,
    caller: &Caller,
    operation: Operation,
    args: Map<String, Value>,
    request: Request,
) -> Result<Response, Problem> {
    body::check_type(request.headers(), "application/octet-stream")?;
    let most =
        usize::try_from(shared.engine.artifact_limits().bytes_per_call).unwrap_or(usize::MAX);
    let most = most.min(shared.edge.config().max_upload);
    let taken = body::take(&shared.edge, request, most).await?;
    let status = if operation.1.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    let bytes = Some(taken.bytes.clone());
    answer(&made(shared, caller, operation, args, bytes).await?, status)
}

async fn change(
    shared: &Shared,
    caller: &Caller,
    operation: Operation,
    args: Map<String, Value>,
    status: StatusCode,
) -> Result<Response, Problem> {
    answer(&made(shared, caller, operation, args, None).await?, status)
}

fn answer(made: &Made, status: StatusCode) -> Result<Response, Problem> {
    let result = match made.result()? {
        Ok(result) => result,
        Err(waits) => return Ok(waits),
    };
    let number = |name: &str| result[name].as_u64().and_then(|n| u32::try_from(n).ok());
    let id = result["artifact"].as_str().and_then(|id| id.parse::<ArtifactId>().ok());
    let id = id.ok_or_else(Problem::not_found)?;
    let view = ChangeView {
        id,
        version: number("version").unwrap_or(0),
        digest: result["digest"].as_str().map(str::to_owned),
        verdict: number("verdict"),
        call_id: made.id(),
    };
    let mut response = reply::json(status, &view);
    if status == StatusCode::CREATED {
        let place = HeaderValue::try_from(format!("/v1/artifacts/{id}"));
        response.headers_mut().extend(place.map(|place| (header::LOCATION, place)));
    }
    Ok(with_call(response, made.id()))
}
