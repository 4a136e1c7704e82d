//! The record of a call: what was asked, decided, run, produced, and what nobody could see.
//!
//! It is the predicate of the call's entry in the ledger, and kept nowhere else.

mod unseen;

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Call, CallId, Cause, Decision, Digest, ErrorCode, Isolation, Json, KeyId, Layers, Limits,
    Memoised, Outcome, PersonaId, Produced, SessionId, State, Stream, TenantId, Timestamp, ToolRef,
    Usage,
};

/// What only whoever ran the call could see, and no row of the call says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// What its sandbox was allowed to use.
    pub limits: Option<Limits>,
    /// Where it went on the network through us, in order.
    pub egress: Vec<Flow>,
}

/// One exchange with a server outside, or one that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The host that was asked for.
    pub host: String,
    /// The address that answered, with its port; none if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The status of the answer; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of body taken from it; none where nobody read the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Everything about a call that somebody may ask for proof of, as digests where it is data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The call.
    pub call: CallId,
    /// Whose.
    pub tenant: TenantId,
    /// The key that made it.
    pub key: KeyId,
    /// On whose behalf.
    pub persona: Option<PersonaId>,
    /// What it belongs to.
    pub session: Option<SessionId>,
    /// Cause of the call, if no client asked for it directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
    /// The exact tool.
    pub tool: ToolRef,
    /// Of the arguments that it ran with.
    pub args: Digest,
    /// Of those that were asked for, if a person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_args: Option<Digest>,
    /// What policy said.
    pub decision: Option<Decision>,
    /// How it ended: the name of a final state.
    pub state: String,
    /// Of the result, if there is one. Like that of the arguments it is of the true value, whatever
    /// `decision.obligations.redact` says is masked.
    pub result: Option<Digest>,
    /// The stable code of the error, if there is one.
    pub error: Option<ErrorCode>,
    /// How its program ended.
    pub outcome: Option<Outcome>,
    /// What it printed.
    pub stdout: Stream,
    /// What it complained.
    pub stderr: Stream,
    /// What it used.
    pub usage: Option<Usage>,
    /// How its sandbox came about.
    pub isolation: Option<Isolation>,
    /// The walls that stood and those that were absent.
    pub layers: Option<Layers>,
    /// What its sandbox was allowed to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Where it went on the network through us, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Flow>,
    /// In the form of the skills API.
    pub inputs_hash: String,
    /// In the form of the skills API; empty without a result.
    pub outputs_hash: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// When it came to its final state.
    pub ended_at: Timestamp,
    /// How long it ran.
    pub duration: Option<Duration>,
    /// Where the result comes from, if nothing ran for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memoised: Option<Memoised>,
    /// For finding it in traces.
    pub trace_id: String,
    /// What nobody could see, or what there was no room for, in plain words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_observed: Vec<Cow<'static, str>>,
}

/// Reasons that a shortened receipt keeps, and characters of each of their messages.
const REASONS: (usize, usize) = (16, 256);

impl Receipt {
    /// The receipt of a call that has come to its end; none before.
    pub fn of(call: &Call, seen: Seen) -> Option<Self> {
        if !call.state.is_final() {
            return None;
        }
        let finished = match &call.state {
            State::Finished(finished) => Some(finished.as_ref()),
            _ => None,
        };
        let asked = &call.asked;
        let produced = finished.map(|finished| &finished.produced);
        Some(Self {
            call: asked.id,
            tenant: asked.tenant.clone(),
            key: asked.key,
            persona: asked.persona.clone(),
            session: asked.session.clone(),
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
            not_observed: unseen::words(&call.state, &seen),
            limits: seen.limits,
            egress: seen.egress,
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

    /// Leaves out most of what policy said, for a receipt that would be too long. The call has all
    /// of it.
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
        let words = "what policy said beyond the beginning of its first reasons: there is no room";
        self.not_observed.push(Cow::Borrowed(words));
        self
    }

    /// Of its canonical form.
    pub fn digest(&self) -> Digest {
        let json = Json::of(self).expect("a receipt is plain data of bounded depth");
        Digest::of_json(&json)
    }
}
