//! View of a hold: exactly what would run, and what it waits for.

use std::collections::HashMap;

use ringfence_types::{
    Call, CallId, Digest, Hold, Json, KeyId, PersonaId, Reason, SessionId, Timestamp, shown,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::approval::{TermsView, VoteView, votes};

/// Hold of a call, within the call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Waits)]
pub(crate) struct WaitsView<'a> {
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Time of expiry.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Number of different people who must approve.
    approvals_needed: u32,
    /// Approvals so far.
    votes: Vec<VoteView<'a>>,
    /// Reasons why an existing approval does not apply.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    changed: &'a [String],
    /// Link for approvers to decide.
    #[schema(value_type = String)]
    resolve: Place,
}

/// A held call, for approvers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Hold)]
pub(crate) struct HoldView<'a> {
    /// The call.
    #[schema(value_type = String)]
    id: CallId,
    /// Name of the tool that would run.
    tool: &'a str,
    /// Version of the tool.
    version: &'a str,
    /// Digest of that version.
    #[schema(value_type = String)]
    digest: Digest,
    /// Arguments that it would run with.
    #[schema(value_type = Object)]
    args: &'a Json,
    /// Requested arguments, if an approver edited them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    asked_args: Option<&'a Json>,
    /// Whether it has no effect outside its sandbox.
    pure: bool,
    /// Key that made the call; neither that key nor another of the same person can approve it.
    #[schema(value_type = String)]
    key: KeyId,
    /// Label of that key.
    #[schema(required = false)]
    key_label: &'a str,
    #[schema(value_type = Option<String>)]
    persona_id: Option<&'a PersonaId>,
    #[schema(value_type = Option<String>)]
    session_id: Option<&'a SessionId>,
    /// The client's own data, unverified.
    #[schema(value_type = Object)]
    metadata: &'a Json,
    /// Reasons by rule.
    #[schema(value_type = Vec<Object>)]
    reasons: &'a [Reason],
    /// Digest of the rules that hold it.
    #[schema(value_type = Option<String>)]
    policy: Option<Digest>,
    /// Terms that the approvers so far agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<TermsView<'a>>,
    #[serde(flatten)]
    waits: WaitsView<'a>,
    /// Digest of everything that an approval is bound to. Send it back with a resolution, and the
    /// resolution counts only if nothing has changed.
    #[schema(value_type = String)]
    shown: Digest,
    /// Trace id.
    trace_id: &'a str,
}

/// Page of holds, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HoldList)]
pub(crate) struct HoldListView<'a> {
    pub(crate) holds: Vec<HoldView<'a>>,
    /// Cursor of the next page; none at the end.
    pub(crate) next_cursor: Option<String>,
}

/// The path where a hold is resolved.
#[derive(Debug)]
struct Place(CallId);

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("/v1/holds/{}/resolve", self.0))
    }
}

impl<'a> WaitsView<'a> {
    pub(crate) fn of(call: &'a Call, hold: &'a Hold) -> Self {
        Self {
            since: hold.since,
            expires_at: hold.expires_at,
            approvals_needed: hold.needed,
            votes: votes(&hold.votes),
            changed: &hold.changed,
            resolve: Place(call.asked.id),
        }
    }
}

impl<'a> HoldView<'a> {
    /// The view; none for a call that is not held.
    pub(crate) fn of(call: &'a Call, labels: &'a HashMap<KeyId, String>) -> Option<Self> {
        let (asked, hold) = (&call.asked, call.hold()?);
        Some(Self {
            id: asked.id,
            tool: asked.tool.name.as_str(),
            version: &asked.tool.version,
            digest: asked.tool.digest,
            args: call.args(),
            asked_args: call.edited.as_ref().map(|_| &asked.args),
            pure: asked.pure,
            key: asked.key,
            key_label: labels.get(&asked.key).map_or("", String::as_str),
            persona_id: asked.persona.as_ref(),
            session_id: asked.session.as_ref(),
            metadata: &asked.metadata,
            reasons: &hold.reasons,
            policy: call.decision.as_ref().map(|decision| decision.policy),
            proposal: hold.proposal.as_ref().map(|proposal| TermsView::of(&proposal.terms)),
            waits: WaitsView::of(call, hold),
            shown: shown(call),
            trace_id: &asked.trace_id,
        })
    }
}
