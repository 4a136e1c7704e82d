//! Tools that run or change something in a sandbox that is kept.
//!
//! Their calls take no place from one-shot calls: a terminal may live for hours, and what runs in a
//! sandbox is bounded by it and by the number of sandboxes. They are pure as far as the world outside
//! the sandbox goes. A call that an earlier process left unfinished finds no sandbox and says so: none
//! outlives its process.

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

use super::{Builtin, Given, Job, UsedSandbox, error, object};
use crate::{runners::work::Started, sandboxes::Attachment};

/// Characters of a sandbox's id.
const ID: &str = "^[0-9a-f]{32}$";
/// Seconds that a timeout may have: longer programs are services, bounded by the sandbox's lifetime.
const MAX_TIMEOUT_SECS: f64 = 86_400.0;
/// Seconds until a program is killed that asks for no other time.
const DEFAULT_TIMEOUT_SECS: f64 = 60.0;
/// Bytes of each output stream that a result repeats; all that is kept is in the call's output.
const MAX_RESULT_OUTPUT: usize = 64 << 10;

fn sandbox_schema() -> Value {
    json!({"type": "string", "pattern": ID, "description": "The sandbox's id"})
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

/// The environment and directory that a program or an interpreter starts with.
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
    /// The arguments as the tool reads them; the schema has checked them.
    fn read<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        self.args().read().map_err(|problem| refusal("invalid_request", &problem))
    }

    /// The tenant's sandbox of this id.
    fn session(&self, id: &SessionId) -> Result<Session, CallError> {
        let found = self.inner().sandbox_of(&self.asked().tenant, id);
        found.ok_or_else(|| {
            let message = format!("there is no sandbox `{id}`; it may have ended");
            refusal("sandbox_not_found", &message)
        })
    }

    /// The bytes that came with the call, if they are those that were judged.
    fn attachment(&self, digest: Digest) -> Result<Attachment, CallError> {
        let lost = "the bytes that came with the call were not kept; send them again";
        let found = self.inner().sandboxes.attachments.take(self.asked().id);
        let found = found.ok_or_else(|| refusal("attachment_lost", &lost))?;
        if Digest::of(found.as_ref()) == digest {
            return Ok(found);
        }
        let message =
            "the bytes that came with the call have another digest than its arguments say";
        Err(refusal("attachment_changed", &message))
    }

    /// The interpreter of this number in a sandbox.
    fn interpreter(&self, session: &Session, number: u32) -> Result<Interpreter, CallError> {
        let found = self.inner().sandbox_table(session).interpreter(number);
        found.ok_or_else(|| {
            let message = format!("the sandbox has no interpreter {number}");
            refusal("interpreter_not_found", &message)
        })
    }
}

/// Ends a call that could not start, or gives what did.
fn started(job: &Job<'_>, started: Result<Started, CallError>) -> Started {
    started.unwrap_or_else(|error| job.inline(Err(error)))
}

/// Refuses obligations to mask output: clients read it from the sandbox itself.
fn refuse_masks(permit: &Permit) -> Result<(), CallError> {
    let masked = [RedactRoot::Result, RedactRoot::Stdout, RedactRoot::Stderr];
    if masked.into_iter().any(|root| permit.obligations().redact.has(root)) {
        let message = "policy wants output masked, and that of a sandbox's programs cannot be";
        return Err(error(ErrorCode::IsolationUnavailable, &message));
    }
    Ok(())
}

/// A timeout within what policy allows.
fn timeout(obligations: &Obligations, secs: Option<f64>) -> Duration {
    let asked = Duration::from_secs_f64(secs.unwrap_or(DEFAULT_TIMEOUT_SECS));
    match &obligations.limits {
        Some(caps) => caps.apply(Limits { wall: asked, ..Limits::default() }).wall,
        None => asked,
    }
}

/// The error of a call whose sandbox could not do it.
fn refused(refused: &Error) -> CallError {
    match refused {
        Error::Sandbox(cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "a sandbox failed");
            error(cause.code(), refused)
        }
        other => refusal(other.code(), other),
    }
}

/// The error of a call that its sandbox refused; `reason` is for programs.
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
