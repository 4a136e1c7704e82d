//! `artifact_write`: changes of artifacts. Each is a call, so it is decided, recorded and receipted.
//!
//! Invariant: a call changes an artifact once, however often it is begun: a new artifact has the id of its
//! call, and a version names the call that made it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_policy::{Action, Permit};
use ringfence_store::{
    ArtifactAbout, ArtifactChange, ArtifactChanged, ArtifactRef, ArtifactVersion, Error,
    NewArtifact, NewVersion, VerdictAbout, VersionAbout,
};
use ringfence_types::{
    ArtifactId, ArtifactKind, CallError, Digest, ErrorCode, Json, artifact_label as label,
    error_chain, media_type_of,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, error, object};

pub(super) const TOOL: Builtin = Builtin {
    name: "artifact_write",
    description: "Changes artifacts: creates one, adds a version, rolls back to an earlier version, adds \
                  a verdict or labels, removes one.",
    flags: &["none"],
    input: || {
        let text = |most: u64| json!({"type": "string", "maxLength": most});
        let texts = json!({"type": "array", "maxItems": 32, "items": text(100)});
        let number = json!({"type": "integer", "minimum": 1, "maximum": u32::MAX});
        let attached = json!({"digest": text(71), "bytes": {"type": "integer", "minimum": 0}});
        let kinds = ArtifactKind::ALL.map(ArtifactKind::name);
        object(
            &["operation"],
            json!({
                "operation": {"enum": ["create", "update", "rollback", "verdict", "label", "remove"]},
                "artifact": {"type": "string", "description": "Id of the artifact, unless it is created"},
                "version": number, "after": number,
                "kind": {"enum": kinds}, "title": text(500), "description": text(4_000),
                "media_type": text(200), "tags": texts, "labels": texts,
                "intent": text(200), "task": text(200),
                "changes": text(4_000), "author": text(200),
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "content": {"type": "string"}, "base64": {"type": "string"},
                "attached": object(&["digest", "bytes"], attached),
                "type": {"enum": VERDICT_KINDS}, "score": {"type": "number"},
                "decision": {"enum": DECISIONS}, "evidence": {"type": "object"},
                "reviewer": text(200),
            }),
        )
    },
    output: || {
        object(
            &["artifact", "version"],
            json!({
                "artifact": {"type": "string"}, "version": {"type": "integer"},
                "digest": {"type": "string"}, "size": {"type": "integer"},
                "verdict": {"type": "integer"},
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

/// Kinds of verdicts.
const VERDICT_KINDS: [&str; 5] = ["confidence", "review", "test", "security", "compliance"];
/// Decisions of verdicts.
const DECISIONS: [&str; 4] = ["accept", "reject", "escalate", "revision-needed"];

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(run(&job).await) })
}

#[derive(Deserialize)]
#[serde(tag = "operation", rename_all = "lowercase")]
enum Asked {
    Create(Create),
    Update(Update),
    Rollback { artifact: ArtifactId, version: u32, author: Option<String> },
    Verdict(Box<Verdict>),
    Label { artifact: ArtifactId, labels: Vec<String> },
    Remove { artifact: ArtifactId },
}

#[derive(Deserialize)]
struct Create {
    title: String,
    kind: Option<ArtifactKind>,
    #[serde(default)]
    description: String,
    media_type: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    intent: Option<String>,
    task: Option<String>,
    #[serde(flatten)]
    version: Content,
}

#[derive(Deserialize)]
struct Update {
    artifact: ArtifactId,
    after: Option<u32>,
    #[serde(flatten)]
    version: Content,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    changes: String,
    author: Option<String>,
    confidence: Option<f64>,
    #[serde(default)]
    labels: Vec<String>,
    content: Option<String>,
    base64: Option<String>,
    attached: Option<Attached>,
}

#[derive(Deserialize)]
struct Attached {
    digest: Digest,
}

#[derive(Deserialize)]
struct Verdict {
    artifact: ArtifactId,
    version: Option<u32>,
    #[serde(rename = "type")]
    kind: String,
    score: Option<f64>,
    decision: String,
    evidence: Option<Json>,
    reviewer: Option<String>,
}

async fn run(job: &Job<'_>) -> InlineResult {
    let asked: Asked = job.args().read().map_err(|problem| invalid(&problem))?;
    match asked {
        Asked::Create(create) => created(job, create).await,
        Asked::Update(update) => updated(job, update).await,
        Asked::Rollback { artifact, version, author } => {
            rolled_back(job, artifact, version, author).await
        }
        Asked::Verdict(verdict) => judged(job, *verdict).await,
        Asked::Label { artifact, labels } => {
            check_labels(&labels)?;
            let change = ArtifactChange::AddLabels { id: artifact, labels };
            changed(job, artifact, change, None).await
        }
        Asked::Remove { artifact } => {
            changed(job, artifact, ArtifactChange::Remove { id: artifact }, None).await
        }
    }
}

async fn created(job: &Job<'_>, create: Create) -> InlineResult {
    let id = ArtifactId(job.asked().id.0);
    if let Some(earlier) = made_before(job, id).await? {
        return Ok(answer(id, &earlier));
    }
    let (version, bytes) = content(job, create.version).await?;
    let media_type = create.media_type.unwrap_or_else(|| media_type_of(&create.title).to_owned());
    let about = ArtifactAbout {
        description: create.description,
        media_type,
        tags: create.tags,
        created_by: version.about.author.clone(),
        intent: create.intent,
        task: create.task,
        path: None,
    };
    let kind = create.kind.unwrap_or_else(|| ArtifactKind::of_path(&create.title));
    let kept = version.clone();
    let artifact = NewArtifact { id, kind, title: create.title, about, version };
    changed(job, id, ArtifactChange::Create { artifact, bytes }, Some(kept)).await
}

async fn updated(job: &Job<'_>, update: Update) -> InlineResult {
    let id = update.artifact;
    if let Some(earlier) = made_before(job, id).await? {
        return Ok(answer(id, &earlier));
    }
    let (version, bytes) = content(job, update.version).await?;
    let (kept, bytes) = (version.clone(), Some(bytes));
    let change = ArtifactChange::AddVersion { id, version, bytes, after: update.after };
    changed(job, id, change, Some(kept)).await
}

async fn rolled_back(
    job: &Job<'_>,
    id: ArtifactId,
    number: u32,
    author: Option<String>,
) -> InlineResult {
    if let Some(earlier) = made_before(job, id).await? {
        return Ok(answer(id, &earlier));
    }
    let wanted = ArtifactRef::Version(id, Some(number));
    let found = job.inner().parts.store.artifact_version(&job.asked().tenant, wanted).await;
    let (_, earlier) = found.map_err(failed)?.ok_or_else(|| not_found(id))?;
    let about = VersionAbout {
        changes: format!("Rolled back to version {number}"),
        author: author.unwrap_or_else(|| "system-rollback".to_owned()),
        confidence: None,
        labels: label::union(&earlier.content.about.labels, &job.asked().taint),
        copy_of: Some(number),
    };
    let (at, call) = (job.started_at, Some(job.asked().id));
    let version = NewVersion { at, call, about, ..earlier.content };
    let kept = version.clone();
    let change = ArtifactChange::AddVersion { id, version, bytes: None, after: None };
    changed(job, id, change, Some(kept)).await
}

async fn judged(job: &Job<'_>, verdict: Verdict) -> InlineResult {
    let call = Some(job.asked().id);
    let (store, tenant) = (&job.inner().parts.store, &job.asked().tenant);
    let given = store.verdicts(tenant, verdict.artifact, 100).await.map_err(failed)?;
    if let Some(earlier) = given.iter().find(|earlier| earlier.about.call == call) {
        let (version, number) = (earlier.version, earlier.number);
        return Ok(json!({"artifact": verdict.artifact, "version": version, "verdict": number}));
    }
    let about = VerdictAbout {
        kind: verdict.kind,
        score: verdict.score,
        decision: verdict.decision,
        evidence: verdict.evidence.unwrap_or_else(Json::empty_object),
        reviewer: verdict.reviewer.unwrap_or_else(|| format!("key {}", job.asked().key)),
        call,
    };
    let (id, at) = (verdict.artifact, job.started_at);
    let change = ArtifactChange::AddVerdict { id, version: verdict.version, at, about };
    changed(job, id, change, None).await
}

/// Version that this call made when it was begun before.
async fn made_before(job: &Job<'_>, id: ArtifactId) -> Result<Option<ArtifactVersion>, CallError> {
    let (store, asked) = (&job.inner().parts.store, job.asked());
    let versions = store.artifact_versions(&asked.tenant, id, None, 20).await.map_err(failed)?;
    Ok(versions.into_iter().find(|version| version.content.call == Some(asked.id)))
}

/// The version that is asked for, and its bytes.
async fn content(job: &Job<'_>, asked: Content) -> Result<(NewVersion, Vec<u8>), CallError> {
    check_labels(&asked.labels)?;
    let bytes = match (asked.content, asked.base64, asked.attached) {
        (Some(text), None, None) => text.into_bytes(),
        (None, Some(encoded), None) => STANDARD
            .decode(encoded)
            .map_err(|_| invalid(&"`base64` must be base64 with padding"))?,
        (None, None, Some(attached)) => attachment(job, attached.digest)?,
        _ => return Err(invalid(&"one of `content`, `base64` and `attached` is required")),
    };
    let (limits, size) = (job.inner().parts.settings.artifacts, bytes.len() as u64);
    let totals = job.inner().parts.store.artifact_totals(&job.asked().tenant).await;
    let used = totals.map_err(failed)?.bytes;
    if size > limits.bytes_per_call || used.saturating_add(size) > limits.bytes_per_tenant {
        let message = format!(
            "{size} bytes are too many: at most {} at once and {} of all artifacts, of which {used} are used",
            limits.bytes_per_call, limits.bytes_per_tenant
        );
        return Err(error(ErrorCode::ArtifactQuota, &message));
    }
    let own = label::union(&asked.labels, &[label::UPLOAD.to_owned()]);
    let about = VersionAbout {
        changes: asked.changes,
        author: asked.author.unwrap_or_else(|| format!("key {}", job.asked().key)),
        confidence: asked.confidence,
        labels: label::union(&own, &job.asked().taint),
        copy_of: None,
    };
    let (at, call) = (job.started_at, Some(job.asked().id));
    Ok((NewVersion { digest: Digest::of(&bytes), size, at, call, about }, bytes))
}

/// The bytes beside the arguments, if their digest is the one that policy decided about.
fn attachment(job: &Job<'_>, digest: Digest) -> Result<Vec<u8>, CallError> {
    let found = job.inner().sandboxes.attachments.take(job.asked().id);
    let bytes = found.ok_or_else(|| invalid(&"the attached bytes are gone; send them again"))?;
    if Digest::of(bytes.as_ref()) == digest {
        return Ok(bytes.as_ref().to_vec());
    }
    Err(invalid(&"the attached bytes do not match the digest in the arguments"))
}

async fn changed(
    job: &Job<'_>,
    id: ArtifactId,
    change: ArtifactChange,
    made: Option<NewVersion>,
) -> InlineResult {
    let store = &job.inner().parts.store;
    match store.change_artifact(&job.asked().tenant, change).await.map_err(failed)? {
        ArtifactChanged::Done { version, verdict: 0 } => {
            let made = made.map(|content| ArtifactVersion { number: version, content });
            let plain = || json!({"artifact": id, "version": version});
            Ok(made.map_or_else(plain, |made| answer(id, &made)))
        }
        ArtifactChanged::Done { version, verdict } => {
            Ok(json!({"artifact": id, "version": version, "verdict": verdict}))
        }
        ArtifactChanged::NotFound => Err(not_found(id)),
        ArtifactChanged::NotNewest(newest) => {
            let message = format!("version {newest} of artifact {id} is the newest: read it first");
            Err(error(ErrorCode::ArtifactNotNewest, &message))
        }
    }
}

fn answer(id: ArtifactId, version: &ArtifactVersion) -> Value {
    let NewVersion { digest, size, .. } = &version.content;
    json!({"artifact": id, "version": version.number, "digest": digest, "size": size})
}

fn check_labels(labels: &[String]) -> Result<(), CallError> {
    if labels.len() <= label::MAX_COUNT && labels.iter().all(|text| label::is_valid(text)) {
        return Ok(());
    }
    let (most, length) = (label::MAX_COUNT, label::MAX_CHARS);
    let message = format!(
        "at most {most} labels of 1 to {length} lower-case letters, digits, `-`, `_`, `.` and `:`"
    );
    Err(invalid(&message))
}

fn not_found(id: ArtifactId) -> CallError {
    error(ErrorCode::ArtifactNotFound, &format!("artifact {id}, or that version, does not exist"))
}

fn invalid(problem: &dyn std::fmt::Display) -> CallError {
    error(ErrorCode::ContentInvalid, problem)
}

fn failed(source: Error) -> CallError {
    let cause = error_chain(&source);
    tracing::error!(error = cause, "an artifact could not be read or changed");
    error(ErrorCode::FileUnreadable, &"the artifact could not be read or changed; try again")
}
