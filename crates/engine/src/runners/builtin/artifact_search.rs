//! `artifact_search`: artifacts of the tenant by kind, title, tag and so on.

use ringfence_policy::{Action, Permit};
use ringfence_store::ArtifactQuery;
use ringfence_types::{ArtifactId, ArtifactKind, CallError, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Builtin, Job, Starting, UsedSandbox, artifact_read::failed, error, object};

/// Artifacts in a result, if the caller names no number.
const DEFAULT_LIMIT: usize = 20;
/// Artifacts in a result.
const MAX_LIMIT: usize = 100;

pub(super) const TOOL: Builtin = Builtin {
    name: "artifact_search",
    description: "Finds artifacts by kind, text in the title, tag, label or intent, newest first.",
    flags: &["none"],
    input: || {
        let text = json!({"type": "string", "maxLength": 500});
        object(
            &[],
            json!({
                "kind": {"enum": ArtifactKind::ALL.map(ArtifactKind::name)},
                "title": text, "tag": text, "label": text, "intent": text,
                "before": {"type": "string", "description": "`next` of the page before"},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                },
            }),
        )
    },
    output: || {
        let text = json!({"type": "string"});
        let artifact = object(
            &["artifact", "kind", "title", "version", "created_at"],
            json!({
                "artifact": text, "kind": text, "title": text, "version": {"type": "integer"},
                "media_type": text, "created_at": text,
                "tags": {"type": "array", "items": text},
            }),
        );
        let list = json!({"type": "array", "items": artifact});
        object(&["artifacts"], json!({"artifacts": list, "next": text}))
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

#[derive(Deserialize)]
struct Asked {
    kind: Option<ArtifactKind>,
    title: Option<String>,
    tag: Option<String>,
    label: Option<String>,
    intent: Option<String>,
    before: Option<ArtifactId>,
    limit: Option<usize>,
}

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(search(&job).await) })
}

async fn search(job: &Job<'_>) -> Result<Value, CallError> {
    let asked: Asked =
        job.args().read().map_err(|problem| error(ErrorCode::ContentInvalid, &problem))?;
    let query = ArtifactQuery {
        tenant: job.asked().tenant.clone(),
        kind: asked.kind,
        title: asked.title,
        tag: asked.tag,
        label: asked.label,
        intent: asked.intent,
        call: None,
        before: asked.before,
        limit: asked.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
    };
    let page = job.inner().parts.store.artifacts(query).await.map_err(failed)?;
    let artifacts: Vec<Value> = page
        .artifacts
        .iter()
        .map(|one| {
            json!({
                "artifact": one.id, "kind": one.kind, "title": one.title, "version": one.newest,
                "media_type": one.about.media_type, "tags": one.about.tags,
                "created_at": one.created_at,
            })
        })
        .collect();
    let mut result = json!({"artifacts": artifacts});
    if let Some(next) = page.next {
        result["next"] = json!(next);
    }
    Ok(result)
}
