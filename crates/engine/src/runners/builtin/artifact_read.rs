//! `artifact_read`: the content of one version of an artifact, for programs and agents.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_policy::{Action, Permit};
use ringfence_store::{ArtifactRef, Error};
use ringfence_types::{
    ArtifactId, Bytes, CallError, Digest, ErrorCode, GivenArtifact, error_chain,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Builtin, Job, Starting, UsedSandbox, error, object};
use crate::{record::Ended, runners::work::Started};

pub(super) const TOOL: Builtin = Builtin {
    name: "artifact_read",
    description: "Reads a version of an artifact: its description and its content, as text or base64. \
                  Larger ones are given to a call as files.",
    flags: &["none"],
    input: || {
        object(
            &["artifact"],
            json!({
                "artifact": {"type": "string", "maxLength": 71, "description": "Id, or digest of the content"},
                "version": {"type": "integer", "minimum": 1, "maximum": u32::MAX},
            }),
        )
    },
    output: || {
        let text = json!({"type": "string"});
        object(
            &["artifact", "version", "digest", "size", "labels"],
            json!({
                "artifact": text, "version": {"type": "integer"}, "digest": text,
                "size": {"type": "integer"}, "labels": {"type": "array", "items": text},
                "content": text, "base64": text,
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    // It also depends on the artifacts of the moment.
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

/// Largest content that fits into a result.
const MAX_CONTENT: Bytes = Bytes::mib(1);

#[derive(Deserialize)]
struct Asked {
    artifact: String,
    version: Option<u32>,
}

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move {
        let (result, given) = match read(&job).await {
            Ok((result, given)) => (Ok(result), Some(given)),
            Err(error) => (Err(error), None),
        };
        let mut started = job.inline(result);
        if let (Started::Ended(ended), Some(given)) = (&mut started, given)
            && let Ended::Finished { details, .. } = ended.as_mut()
        {
            details.inputs.push(given);
        }
        started
    })
}

async fn read(job: &Job<'_>) -> Result<(Value, GivenArtifact), CallError> {
    let missing =
        || error(ErrorCode::ArtifactNotFound, &"the artifact, or that version, does not exist");
    let asked: Asked =
        job.args().read().map_err(|problem| error(ErrorCode::ContentInvalid, &problem))?;
    let wanted = match (asked.artifact.parse::<Digest>(), asked.artifact.parse::<ArtifactId>()) {
        (Ok(digest), _) => ArtifactRef::Content(digest),
        (_, Ok(id)) => ArtifactRef::Version(id, asked.version),
        _ => return Err(missing()),
    };
    let (store, tenant) = (&job.inner().parts.store, &job.asked().tenant);
    let found = store.artifact_version(tenant, wanted).await.map_err(failed)?;
    let (artifact, version) = found.ok_or_else(missing)?;
    let (digest, size) = (version.content.digest, version.content.size);
    if size > MAX_CONTENT.0 {
        let message =
            format!("it has {size} bytes, and a result at most {MAX_CONTENT}: give it as a file");
        return Err(error(ErrorCode::OutputTooLarge, &message));
    }
    let bytes = store.blob(digest, 0, u64::MAX).await.map_err(failed)?.ok_or_else(missing)?;
    let labels = store.labels_of(tenant, digest).await.map_err(failed)?;
    job.in_flight().learn(&labels);
    let mut result = Map::new();
    match String::from_utf8(bytes) {
        Ok(text) => result.insert("content".to_owned(), text.into()),
        Err(other) => {
            result.insert("base64".to_owned(), STANDARD.encode(other.into_bytes()).into())
        }
    };
    result.extend([
        ("artifact".to_owned(), json!(artifact)),
        ("version".to_owned(), json!(version.number)),
        ("digest".to_owned(), json!(digest)),
        ("size".to_owned(), json!(size)),
        ("labels".to_owned(), json!(labels)),
    ]);
    let given = GivenArtifact { path: None, artifact, version: version.number, digest };
    Ok((Value::Object(result), given))
}

pub(super) fn failed(source: Error) -> CallError {
    let cause = error_chain(&source);
    tracing::error!(error = cause, "an artifact could not be read");
    error(ErrorCode::FileUnreadable, &"the artifacts could not be read; try again")
}
