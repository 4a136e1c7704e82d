//! `embed_text`: the vector of a text, by a model that runs in the server.

use ringfence_models::Error as ModelError;
use ringfence_policy::{Action, Permit};
use ringfence_types::{CallError, ErrorCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, error, object, produced, text};
use crate::{
    engine::Inner,
    record::Ended,
    runners::work::{Started, Work, without_program},
};

pub(super) const TOOL: Builtin = Builtin {
    name: "embed_text",
    description: "Turns a text into a vector for comparing meanings. Texts of similar meaning have \
                  vectors with a high dot product.",
    flags: &["none"],
    input: || {
        object(
            &["text"],
            json!({
                "text": {"type": "string", "minLength": 1, "maxLength": 10_000},
                "model": {
                    "enum": ["all-MiniLM-L6-v2", "all-mpnet-base-v2", "paraphrase-MiniLM-L6-v2"],
                    "description": "Default: the one that the server is configured with",
                },
                "normalize": {"type": "boolean", "default": true},
            }),
        )
    },
    output: || {
        object(
            &["embedding", "dimension", "model_used", "text_length", "normalized"],
            json!({
                "embedding": {"type": "array", "items": {"type": "number"}},
                "dimension": {"type": "integer"},
                "model_used": {"type": "string"},
                "text_length": {"type": "integer"},
                "normalized": {"type": "boolean"},
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    // It also depends on the weights that are installed.
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { embedding(&job) })
}

/// A text that waits for the model.
fn embedding(job: &Job<'_>) -> Started {
    let (inner, entry, started_at) = (job.inner().clone(), job.entry.clone(), job.started_at);
    let args = job.args().to_value();
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let work = async move {
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => return Ended::Stopped { details: Default::default() },
            given = run(&inner, &args) => given,
        };
        let took = inner.parts.clock.now().since(started_at);
        without_program(produced(&entry, given), started_at, took)
    };
    Started::Running(Work::ours(work, stop))
}

async fn run(inner: &Inner, args: &Value) -> InlineResult {
    let source = text(args, "text");
    let model = args.get("model").and_then(Value::as_str);
    let is_normalised = args.get("normalize").and_then(Value::as_bool).unwrap_or(true);
    let embedded = inner.parts.models.embed(model, source, is_normalised).await;
    let embedded = embedded.map_err(|problem| failed(&problem))?;
    Ok(json!({
        "embedding": embedded.vector,
        "dimension": embedded.vector.len(),
        "model_used": embedded.model,
        "text_length": source.chars().count(),
        "normalized": is_normalised,
    }))
}

fn failed(problem: &ModelError) -> CallError {
    let code = match problem {
        ModelError::Missing { .. } => ErrorCode::ModelMissing,
        ModelError::Unknown { .. } | ModelError::Unsupported { .. } => ErrorCode::ModelUnsupported,
        ModelError::Busy | ModelError::Stopped => ErrorCode::ModelBusy,
        _ => ErrorCode::ModelFailed,
    };
    error(code, problem)
}
