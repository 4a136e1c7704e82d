//! Receipt of a call: request, decision, run, result, and what was not observed.
//!
//! It is the predicate of the call's entry in the ledger, and stored nowhere else.

mod not_observed;

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Call, CallFile, CallId, Cause, ContainerRecord, Decision, Digest, ErrorCode, GivenArtifact,
    Isolation, Json, KeyId, Layers, Limits, Memoised, Outcome, PersonaId, Produced, SessionId,
    State, Stream, TenantId, Timestamp, ToolRef, Usage,
};

/// Facts known only to the runner; on the receipt, not in the call row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptDetails {
    /// Limits of the sandbox.
    pub limits: Option<Limits>,
    /// Hosts that were granted to the sandbox.
    pub network: Vec<String>,
    /// Network exchanges through the server, in order.
    pub egress: Vec<Flow>,
    /// Artifacts that the program was given.
    pub inputs: Vec<GivenArtifact>,
    /// Container in which the program ran, if it was one.
    pub container: Option<Box<ContainerRecord>>,
    /// Tools that its programs were allowed to call.
    pub tools: Vec<String>,
}

/// Exchange with an external server, perhaps without an answer; for programs, all equal ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Requested host.
    pub host: String,
    /// Requested port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Method of the request; `CONNECT` for an encrypted connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Reason why it was refused; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Number of exchanges, if this stands for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Names of the secrets that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Address and port that answered; `None` without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Status of the answer; `None` without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of body received; `None` if the body was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes of body sent, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_up: Option<u64>,
}

/// Everything about a call that may need proof, as digests where it is data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The call.
    pub call: CallId,
    /// Tenant of the call.
    pub tenant: TenantId,
    /// Key that made the call.
    pub key: KeyId,
    /// Persona on whose behalf it was made.
    pub persona: Option<PersonaId>,
    /// Session of the call.
    pub session: Option<SessionId>,
    /// Agent among those that share the key, as the client named it (`actor_id` of its metadata). Nothing
    /// is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Cause of the call, if no client asked for it directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
    /// Exact version of the tool.
    pub tool: ToolRef,
    /// Digest of the arguments with which it ran.
    pub args: Digest,
    /// Digest of the requested arguments, if a person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_args: Option<Digest>,
    /// Policy decision.
    pub decision: Option<Decision>,
    /// Name of the final state.
    pub state: String,
    /// Digest of the result, if there is one. Like that of the arguments it is of the true value,
    /// whatever `decision.obligations.redact` masks.
    pub result: Option<Digest>,
    /// Stable code of the error, if there is one.
    pub error: Option<ErrorCode>,
    /// Outcome of the program.
    pub outcome: Option<Outcome>,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Resources used.
    pub usage: Option<Usage>,
    /// Way in which the sandbox was started.
    pub isolation: Option<Isolation>,
    /// Isolation layers, active and absent.
    pub layers: Option<Layers>,
    /// Limits of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Container in which the program ran; none for native sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<ContainerRecord>>,
    /// Hosts that were granted to the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Network exchanges through the server, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Flow>,
    /// Tools that its programs were allowed to call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Artifacts that the program was given: the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<GivenArtifact>,
    /// Files that the program left and that were stored: the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CallFile>,
    /// Digest of the list of all stored files, if not all are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_digest: Option<Digest>,
    /// Labels of the sources of the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<String>,
    /// Digest of the arguments in the form of the skills API.
    pub inputs_hash: String,
    /// Digest of the result in the form of the skills API; empty without a result.
    pub outputs_hash: String,
    /// Time of acceptance.
    pub accepted_at: Timestamp,
    /// Time at which it began to run.
    pub started_at: Option<Timestamp>,
    /// Time of the final state.
    pub ended_at: Timestamp,
    /// Duration of the run.
    pub duration: Option<Duration>,
    /// Source of the result, if nothing ran for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memoised: Option<Memoised>,
    /// Trace id, for finding the call in traces.
    pub trace_id: String,
    /// Facts that were not observed, or left out for size, in plain words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_observed: Vec<Cow<'static, str>>,
}

/// Reasons kept by a shortened receipt, and characters of each of their messages.
const REASONS: (usize, usize) = (16, 256);

/// Files, and artifacts that were given, on a receipt; a digest stands for the list if there are more files.
const MAX_FILES: usize = 64;
/// Characters of the name of an actor.
const MAX_ACTOR_CHARS: usize = 200;

/// `actor_id` of a client's metadata.
fn actor(metadata: &Json) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        actor_id: String,
    }
    let named: Named = metadata.read().ok()?;
    Some(named.actor_id.chars().take(MAX_ACTOR_CHARS).collect())
}

impl Receipt {
    /// Receipt of a call in a final state; `None` before.
    pub fn of(call: &Call, details: ReceiptDetails) -> Option<Self> {
        if !call.state.is_final() {
            return None;
        }
        let finished = match &call.state {
            State::Finished(finished) => Some(finished.as_ref()),
            _ => None,
        };
        let asked = &call.asked;
        let produced = finished.map(|finished| &finished.produced);
        let files = finished.and_then(|finished| finished.files.as_ref());
        let files = files.map_or(&[][..], |files| &files.stored);
        Some(Self {
            call: asked.id,
            tenant: asked.tenant.clone(),
            key: asked.key,
            persona: asked.persona.clone(),
            session: asked.session.clone(),
            actor: actor(&asked.metadata),
            cause: asked.cause.clone(),
            tool: asked.tool.clone(),
            args: call.args_digest(),
            asked_args: call.edited.as_ref().map(|_| asked.args_digest),
            decision: call.decision.clone(),
            state: call.state.name().to_owned(),
            result: match produced {
                Some(Produced::Result(result)) => {
                    let true_result = finished.and_then(|finished| finished.true_result);
                    Some(true_result.unwrap_or_else(|| Digest::of_json(result)))
                }
                _ => None,
            },
            error: match produced {
                Some(Produced::Error(error)) => Some(error.code),
                _ => None,
            },
            outcome: finished.and_then(|finished| finished.outcome.clone()),
            stdout: finished.map(|finished| finished.stdout.clone()).unwrap_or_default(),
            stderr: finished.map(|finished| finished.stderr.clone()).unwrap_or_default(),
            usage: finished.and_then(|finished| finished.usage),
            isolation: finished.and_then(|finished| finished.isolation),
            layers: finished.and_then(|finished| finished.layers.clone()),
            not_observed: not_observed::words(&call.state, &details),
            limits: details.limits,
            container: details.container,
            network: details.network,
            egress: details.egress,
            tools: details.tools,
            inputs: details.inputs.into_iter().take(MAX_FILES).collect(),
            files: files.iter().take(MAX_FILES).cloned().collect(),
            files_digest: (files.len() > MAX_FILES).then(|| Digest::of_json(&Json::plain(&files))),
            taint: call.taint(),
            inputs_hash: call.inputs_hash().to_owned(),
            outputs_hash: finished.map(|f| f.outputs_hash.clone()).unwrap_or_default(),
            accepted_at: asked.accepted_at,
            started_at: finished.map(|finished| finished.started_at),
            ended_at: call.changed_at,
            duration: finished.map(|finished| finished.duration),
            memoised: finished.and_then(|finished| finished.memoised),
            trace_id: asked.trace_id.clone(),
        })
    }

    /// Shortens the decision, for a receipt that would be too long. The call row has all of it.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        if let Some(decision) = &mut self.decision {
            let (most, length) = REASONS;
            decision.reasons.truncate(most);
            for reason in &mut decision.reasons {
                reason.message = reason.message.chars().take(length).collect();
                reason.rule = reason.rule.chars().take(length).collect();
            }
        }
        let words = "reasons of policy beyond the first ones: left out for size";
        self.not_observed.push(Cow::Borrowed(words));
        self
    }

    /// Digest of the canonical form.
    pub fn digest(&self) -> Digest {
        let json = Json::of(self).expect("a receipt is plain data of bounded depth");
        Digest::of_json(&json)
    }
}
