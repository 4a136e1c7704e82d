//! Registering an uploaded skill.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, Multipart, Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem, body,
    fields::{self, Fields},
    identity::check_operator,
    identity::{self, May},
    problem::{self, Fault, pointer},
    problem_codes, reply,
};
use ringfence_engine::{
    InstallError,
    data::{RegisterError, Upload},
};
use ringfence_types::Json;
use serde::Deserialize;
use utoipa::ToSchema;

use super::SkillView;
use crate::{base64, shared::Shared};

/// A skill folder as JSON.
#[derive(ToSchema)]
#[schema(as = SkillUpload)]
#[expect(dead_code, reason = "it documents what `of_json` reads field by field")]
pub(crate) struct RegisterBody {
    /// Every file by its path: its text, or `{"base64": "..."}`.
    #[schema(value_type = Object)]
    files: Json,
}

/// Registers a skill: `skill.yaml`, `schema.json`, `handler.py` and further files.
///
/// As `multipart/form-data` (each part named by its path, or one part `archive`), as a tar, tar.gz
/// or zip archive, or as JSON. Tools are shared by all tenants, so only the operator can register
/// them.
#[utoipa::path(
    post, path = "/skills/register", tag = "skills",
    request_body(content(
        (RegisterBody = "application/json"),
        (Vec<u8> = "multipart/form-data"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses(
        (status = 201, description = "Registered", body = SkillView<'static>),
        (status = 403, description = "Policy does not allow the action `tool.install`"),
        (status = 409, description = "Name and version exist"),
        (status = 422, description = "The skill is invalid"),
    )
)]
pub(crate) async fn register(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let upload = upload(&shared, request).await?;
    let (who, trace) = (caller.principal(), caller.trace());
    let entry = shared.engine.install_tool(who, trace, upload).await.map_err(why)?;
    Ok(reply::json(StatusCode::CREATED, &SkillView::of(&entry)))
}

async fn upload(shared: &Shared, request: Request) -> Result<Upload, Problem> {
    let kind = body::media_type(request.headers()).to_ascii_lowercase();
    let headers = request.headers().clone();
    let is_archive = matches!(
        kind.as_str(),
        "application/octet-stream" | "application/x-tar" | "application/gzip" | "application/zip"
    );
    if !is_archive && kind != "multipart/form-data" && kind != "application/json" {
        let detail = "send `multipart/form-data`, `application/json` or an archive as \
                      `application/octet-stream`";
        return Err(Problem::new(&problem_codes::MEDIA_TYPE_UNSUPPORTED, detail));
    }
    let taken = body::take(&shared.edge, request, shared.edge.config().max_upload).await?;
    match kind.as_str() {
        "application/json" => of_json(&problem::parse(&taken.bytes)?),
        "multipart/form-data" => {
            let mut again = Request::new(Body::from(taken.bytes.clone()));
            *again.headers_mut() = headers;
            of_parts(again).await
        }
        _ => Ok(Upload::Archive(taken.bytes.to_vec())),
    }
}

/// Maximum parts of a form; the registry has its own bound on files.
const MAX_PARTS: usize = 2_000;

async fn of_parts(request: Request) -> Result<Upload, Problem> {
    let unreadable =
        |_| Problem::new(&problem_codes::BODY_MALFORMED, "the multipart body is malformed");
    let mut parts = Multipart::from_request(request, &()).await.map_err(|_| {
        Problem::new(&problem_codes::BODY_MALFORMED, "the `Content-Type` has no valid boundary")
    })?;
    let mut files = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(unreadable)? {
        let name = part.name().unwrap_or("").to_owned();
        let file = part.file_name().unwrap_or("").to_owned();
        let content = part.bytes().await.map_err(unreadable)?.to_vec();
        if name == "archive" {
            return Ok(Upload::Archive(content));
        }
        // Parts of a file list are named by their file; others by their path.
        let is_of_list = matches!(name.as_str(), "" | "file" | "files" | "files[]");
        files.push((if is_of_list { file } else { name }, content));
        if files.len() > MAX_PARTS {
            return Err(Problem::new(
                &problem_codes::BODY_TOO_LARGE,
                format!("more than {MAX_PARTS} parts"),
            ));
        }
    }
    Ok(Upload::Files(files))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Base64(Base64Content),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64Content {
    base64: String,
}

fn of_json(body: &Json) -> Result<Upload, Problem> {
    let mut fields = Fields::of(body)?;
    if fields.has("handler_path") && !fields.has("files") {
        let detail = "`handler_path` names code that this server does not have: send the files";
        let pointer = pointer("", "files");
        let fault = Fault { pointer, detail: "is required, with the code of the handler".into() };
        return Err(Problem::new(&problem_codes::SKILL_INVALID, detail).faults(vec![fault]));
    }
    let files: Option<std::collections::BTreeMap<String, Content>> = fields.required("files");
    let files = fields.finish(files)?;
    let mut faults = Vec::new();
    let mut out = Vec::with_capacity(files.len());
    for (path, content) in files {
        let bytes = match content {
            Content::Text(text) => Some(text.into_bytes()),
            Content::Base64(coded) => base64::decode(&coded.base64),
        };
        match bytes {
            Some(bytes) => out.push((path, bytes)),
            None => faults.push(Fault {
                pointer: pointer(&pointer("/files", &path), "base64"),
                detail: "is not base64".to_owned(),
            }),
        }
    }
    if faults.is_empty() { Ok(Upload::Files(out)) } else { Err(fields::invalid(faults)) }
}

fn why(error: InstallError) -> Problem {
    let error = match error {
        InstallError::Policy(refused) => return refused.into(),
        InstallError::Registry(error) => error,
        InstallError::Store(error) => return error.into(),
    };
    match &error {
        RegisterError::Refused(refused) => Problem::new(
            &problem_codes::SKILL_INVALID,
            format!("the upload was refused: {refused}"),
        ),
        RegisterError::Broken { problems } => {
            let fault =
                |problem: &String| Fault { pointer: String::new(), detail: problem.clone() };
            Problem::new(&problem_codes::SKILL_INVALID, error.to_string())
                .faults(problems.iter().map(fault).collect())
        }
        RegisterError::Taken { .. } => Problem::new(&problem_codes::TOOL_TAKEN, error.to_string()),
        RegisterError::Full => Problem::new(&problem_codes::CONFLICT, error.to_string()),
        RegisterError::Keep(_) => {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot store a skill");
            Problem::new(&problem_codes::STORE_UNAVAILABLE, "the skill could not be stored")
        }
    }
}
