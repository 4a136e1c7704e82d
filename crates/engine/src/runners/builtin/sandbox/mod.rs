//! Tools that run or change something in a session sandbox.
//!
//! Their calls take no place from one-shot calls: a terminal may live for hours, and programs in a
//! sandbox are bounded by it and by the number of sandboxes. They are pure towards the world
//! outside the sandbox. A call that an earlier process left unfinished finds no sandbox and fails:
//! sandboxes end with their process.

pub(super) mod create;
pub(super) mod exec;
pub(super) mod execute;
pub(super) mod files;
pub(super) mod fork;
pub(super) mod interpreter;
pub(super) mod restart;

use std::{collections::BTreeMap, fmt, time::Duration};

use ringfence_policy::Permit;
use ringfence_sandbox::{
    Output,
    session::{Error, Interpreter, Session, SessionId},
};
use ringfence_types::{CallError, Digest, ErrorCode, Json, Limits, Obligations, RedactRoot};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Builtin, InlineResult, Job, UsedSandbox, error, hosts_schema, image_schema, object,
    secrets_schema, tools_schema,
};
use crate::{runners::work::Started, sandboxes::Attachment};

/// Pattern of sandbox ids.
const ID_PATTERN: &str = "^[0-9a-f]{32}$";
/// Maximum timeout in seconds: longer programs are services, bounded by the sandbox's lifetime.
const MAX_TIMEOUT_SECS: f64 = 86_400.0;
/// Default timeout in seconds.
const DEFAULT_TIMEOUT_SECS: f64 = 60.0;
/// Bytes of each output stream that a result repeats; the call's output has all stored bytes.
const MAX_RESULT_OUTPUT: usize = 64 << 10;

fn sandbox_schema() -> Value {
    json!({"type": "string", "pattern": ID_PATTERN, "description": "The sandbox's id"})
}

fn env_schema() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn cwd_schema() -> Value {
    json!({"type": "string", "pattern": "^/", "maxLength": 4095})
}

fn timeout_schema() -> Value {
    json!({"type": "number", "minimum": 0.001, "maximum": MAX_TIMEOUT_SECS})
}

fn number_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": u32::MAX})
}

/// Environment and directory of a new program or interpreter.
#[derive(Debug, serde::Deserialize)]
struct Start {
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

impl Start {
    fn cwd(&self) -> String {
        self.cwd.clone().unwrap_or_else(|| "/workspace".to_owned())
    }
}

impl Job<'_> {
    /// The parsed arguments; the schema has checked them.
    fn read<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        self.args().read().map_err(|problem| refusal("invalid_request", &problem))
    }

    /// The tenant's sandbox with this id.
    fn session(&self, id: &SessionId) -> Result<Session, CallError> {
        let found = self.inner().sandbox_for(self.asked(), id);
        found.ok_or_else(|| {
            let message = format!("sandbox `{id}` not found; it may have ended");
            refusal("sandbox_not_found", &message)
        })
    }

    /// The attachment of the call, if its digest is the one that policy decided about.
    fn attachment(&self, digest: Digest) -> Result<Attachment, CallError> {
        let lost = "the attached bytes of the call are gone; send them again";
        let found = self.inner().sandboxes.attachments.take(self.asked().id);
        let found = found.ok_or_else(|| refusal("attachment_lost", &lost))?;
        if Digest::of(found.as_ref()) == digest {
            return Ok(found);
        }
        let message = "the attached bytes do not match the digest in the arguments";
        Err(refusal("attachment_changed", &message))
    }

    /// The interpreter of a sandbox with this number.
    fn interpreter(&self, session: &Session, number: u32) -> Result<Interpreter, CallError> {
        let found = self.inner().sandbox_table(session).interpreter(number);
        found.ok_or_else(|| {
            let message = format!("interpreter {number} not found in the sandbox");
            refusal("interpreter_not_found", &message)
        })
    }
}

/// The started work, or the end of a call that could not start.
fn started(job: &Job<'_>, started: Result<Started, CallError>) -> Started {
    started.unwrap_or_else(|error| job.inline(Err(error)))
}

/// Refuses obligations to mask output: clients read the output from the sandbox itself.
fn refuse_masks(permit: &Permit) -> Result<(), CallError> {
    let masked = [RedactRoot::Result, RedactRoot::Stdout, RedactRoot::Stderr];
    if masked.into_iter().any(|root| permit.obligations().redact.has(root)) {
        let message = "policy requires masked output, which a session sandbox does not support";
        return Err(error(ErrorCode::IsolationUnavailable, &message));
    }
    Ok(())
}

/// The timeout, within the obligations.
fn timeout(obligations: &Obligations, secs: Option<f64>) -> Duration {
    let asked = Duration::from_secs_f64(secs.unwrap_or(DEFAULT_TIMEOUT_SECS));
    match &obligations.limits {
        Some(caps) => caps.apply(Limits { wall: asked, ..Limits::default() }).wall,
        None => asked,
    }
}

/// The error of a call whose sandbox failed.
fn refused(refused: &Error) -> CallError {
    match refused {
        Error::Sandbox(cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "session sandbox failed");
            error(cause.code(), refused)
        }
        other => refusal(other.code(), other),
    }
}

/// The error of a call that its sandbox refused; `reason` is machine-readable.
fn refusal(reason: &str, message: &dyn fmt::Display) -> CallError {
    let details = Json::of(&json!({"reason": reason})).ok();
    CallError { details, ..error(ErrorCode::SandboxRefused, message) }
}

/// The beginning of an output, as text.
fn head(output: &Output) -> String {
    let mut bytes = output.kept();
    bytes.truncate(MAX_RESULT_OUTPUT);
    String::from_utf8_lossy(&bytes).into_owned()
}
