//! Importing tools: manifests and OpenAPI documents.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem, body,
    identity::{self, May, check_operator},
    problem::Fault,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{
    ImportDocument, ImportError, ImportedTools,
    data::{OpenapiOptions, SkippedOperation},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::tool_lifecycle;
use crate::{shared::Shared, views::tool_state::ProposedToolView};

/// Imported tools.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolImport)]
pub(crate) struct ImportView<'a> {
    /// File, URL or server that they came from.
    source: &'a str,
    /// The tools, which wait for an approval.
    proposed: Vec<ProposedToolView<'a>>,
    /// Operations that cannot be used: `operation` and `problem`.
    #[schema(value_type = Vec<Object>)]
    skipped: &'a [SkippedOperation],
    /// Parts that have no effect, with the reason.
    notes: &'a [String],
}

/// Imports the tools of a document, which is the body, or is fetched from `url`. They wait for an approval.
/// Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tool-imports", tag = "tools",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(
        ("kind" = String, Query, description = "`manifest` or `openapi`"),
        ("source" = Option<String>, Query, description = "Name of the document, such as its file; `url` by default"),
        ("url" = Option<String>, Query, description = "URL that the server fetches the document from"),
        ("prefix" = Option<String>, Query, description = "`openapi`: beginning of the names of the tools"),
        ("server" = Option<String>, Query, description = "`openapi`: URL of the API, if not the document's own"),
    ),
    responses(
        (status = 201, description = "The tools wait for an approval", body = ImportView<'static>),
        (status = 409, description = "The name belongs to another tool"),
        (status = 422, description = "The document has problems, or cannot be fetched"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let kind = query.optional::<String>("kind");
    let url = query.optional::<String>("url");
    let source = query.optional::<String>("source").or_else(|| url.clone());
    let (prefix, server) = (query.optional::<String>("prefix"), query.optional::<String>("server"));
    if !matches!(kind.as_deref(), Some("manifest" | "openapi")) {
        query.fault("kind", "must be `manifest` or `openapi`");
    }
    query.finish()?;
    let source = source.unwrap_or_else(|| "upload".to_owned());
    let limit = shared.edge.config().max_upload;
    let bytes = body::take(&shared.edge, request, limit).await?.bytes.to_vec();
    let document = match url {
        Some(url) => ImportDocument::Url(url),
        None => ImportDocument::Text(bytes),
    };
    let (who, trace, engine) = (caller.principal(), caller.trace(), &shared.engine);
    let imported = match kind.as_deref() {
        Some("openapi") => {
            let options = OpenapiOptions { prefix, server, url: None };
            engine.import_openapi(who, trace, &source, document, options).await
        }
        _ => engine.import_manifest(who, trace, &source, document).await,
    };
    let ImportedTools { source, proposed, skipped, notes } = imported.map_err(problem)?;
    let view = ImportView {
        source: &source,
        proposed: proposed.iter().map(ProposedToolView::of).collect(),
        skipped: &skipped,
        notes: &notes,
    };
    Ok(reply::json(StatusCode::CREATED, &view))
}

fn problem(error: ImportError) -> Problem {
    let detail = error.to_string();
    match error {
        ImportError::Document { problems } => {
            let fault = |detail: String| Fault { pointer: String::new(), detail };
            let faults = problems.into_iter().map(fault).collect();
            Problem::new(&problem_codes::TOOL_INVALID, "the document cannot be imported")
                .faults(faults)
        }
        ImportError::Fetch { .. } => Problem::new(&problem_codes::TOOL_INVALID, detail),
        ImportError::Lifecycle(error) => tool_lifecycle::problem(error),
    }
}
