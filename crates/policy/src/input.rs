//! Document that rules judge.
//!
//! Invariant: it is written with sorted keys and canonical arguments, so its text is its RFC 8785
//! form, and the digest in a decision is the digest of exactly what the rules saw.

use ringfence_types::{
    ApprovalId, Asked, CallId, Digest, Json, KeyId, Origin, PersonaId, PlanStep, Principal, Scopes,
    SessionId, TenantId, Timestamp, Tool, ToolName, TraceParent, json::canonical,
};
use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::value::RawValue;

use crate::Action;

// The fields of each struct stay in alphabetical order: that is what makes the text canonical.

/// Policy document: everything that rules may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Kind of action.
    pub action: Action,
    /// Approval by people, if one was given and applies.
    pub approval: Option<Approval>,
    /// Arguments of the call.
    #[serde(serialize_with = "canonically")]
    pub args: Json,
    /// Id of the call.
    pub call_id: CallId,
    /// Grants of the tool at its approval: `host:…`, `secret:…`, `tool:…`, `storage`; and `tool:…` for each
    /// tool that the call asks for, so that its programs may call it.
    #[serde(default)]
    pub grants: Vec<String>,
    /// Client metadata. It is unverified, so rules must not trust it.
    #[serde(serialize_with = "canonically")]
    pub metadata: Json,
    /// Hosts that the tool or the call asks for: `[METHOD[,METHOD] ]host[:port][/path]`.
    #[serde(default)]
    pub network: Vec<String>,
    /// Call that caused this one, if known.
    #[serde(default)]
    pub parent_call_id: Option<CallId>,
    /// Persona on whose behalf the call is made.
    pub persona_id: Option<PersonaId>,
    /// Plan step that this call performs, if any.
    #[serde(default)]
    pub plan_step: Option<PlanStep>,
    /// Authenticated caller.
    pub principal: Subject,
    /// Names of the secrets that the tool or the call asks for.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Session of the call.
    pub session_id: Option<SessionId>,
    /// Labels of the sources of the arguments, such as `web`: of artifacts that the call is given, and of the
    /// call that made it.
    #[serde(default)]
    pub taint: Vec<String>,
    /// Tenant of the call.
    pub tenant: TenantId,
    /// Time of the evaluation. Rules have no other clock.
    pub time: Timestamp,
    /// Tool that would run; for actions without a tool, their subject by name.
    pub tool: ToolFacts,
    /// Trace context for the decision log. It is not part of the document, so rules do not see it.
    #[serde(skip)]
    pub trace: Option<TraceParent>,
}

/// Approval by the required number of people of exactly what they were shown. It is present only if
/// it applies: to this tool, these arguments, this principal, under these rules, now. A refusal ends
/// the call, which is never judged again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Keys of the approvers.
    pub by: Vec<KeyId>,
    /// Time of the last approval.
    pub decided_at: Timestamp,
    /// Id of the approval.
    pub id: ApprovalId,
    /// Scope: `once`, `session` or `rule`.
    pub reach: String,
    /// Digest of what the approvers were shown.
    pub shown: Digest,
}

impl From<&ringfence_types::Approval> for Approval {
    fn from(approval: &ringfence_types::Approval) -> Self {
        let last = approval.votes.last();
        Self {
            by: approval.votes.iter().map(|vote| vote.by).collect(),
            decided_at: approval.given_at,
            id: approval.id,
            reach: approval.terms.reach.name().to_owned(),
            shown: last.map_or(Digest::of(b""), |vote| vote.shown),
        }
    }
}

/// Authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Id of the API key.
    pub key: KeyId,
    /// Scopes of the key.
    pub scopes: Scopes,
}

/// Facts about a tool that rules may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFacts {
    /// Digest of the tool's definition and files.
    pub digest: Digest,
    /// Name of the tool.
    pub name: ToolName,
    /// Source of the tool.
    pub origin: Origin,
    /// Whether the tool has no effect outside its sandbox.
    pub pure: bool,
    /// Whether its author requires an approval of every call.
    pub requires_approval: bool,
    /// Declared capabilities.
    pub safety_flags: Vec<String>,
    /// Tags for search.
    pub tags: Vec<String>,
    /// Version: three numbers separated by dots.
    pub version: String,
}

impl Input {
    /// Document about an accepted call of `tool`, without an approval.
    pub fn tool_execute(asked: &Asked, tool: &Tool, scopes: &Scopes, time: Timestamp) -> Self {
        Self {
            action: Action::ToolExecute,
            approval: None,
            args: asked.args.clone(),
            call_id: asked.id,
            grants: Vec::new(),
            metadata: asked.metadata.clone(),
            network: tool.network.clone(),
            parent_call_id: asked.cause.as_ref().and_then(|cause| cause.parent),
            persona_id: asked.persona.clone(),
            plan_step: asked.cause.as_ref().and_then(|cause| cause.step.clone()),
            principal: Subject { key: asked.key, scopes: scopes.clone() },
            secrets: tool.secrets.values().map(ToString::to_string).collect(),
            session_id: asked.session.clone(),
            taint: Vec::new(),
            tenant: asked.tenant.clone(),
            time,
            tool: ToolFacts::from(tool),
            trace: asked.trace_context(),
        }
    }

    /// Document about an action of `who` other than a call. `about` is the subject of the action and
    /// stands in place of the tool; the caller fills in the rest.
    pub fn about(
        action: Action,
        who: &Principal,
        about: ToolFacts,
        time: Timestamp,
        id: CallId,
    ) -> Self {
        Self {
            action,
            approval: None,
            args: Json::empty_object(),
            call_id: id,
            grants: Vec::new(),
            metadata: Json::empty_object(),
            network: Vec::new(),
            parent_call_id: None,
            persona_id: who.persona.clone(),
            plan_step: None,
            principal: Subject { key: who.key, scopes: who.scopes.clone() },
            secrets: Vec::new(),
            session_id: None,
            taint: Vec::new(),
            tenant: who.tenant.clone(),
            time,
            tool: about,
            trace: None,
        }
    }

    /// Canonical text.
    pub fn text(&self) -> String {
        // Capacity for most documents, so that the text is not reallocated while it grows.
        let mut text = Vec::with_capacity(1_024);
        serde_json::to_writer(&mut text, self).expect("plain data with text keys can be written");
        String::from_utf8(text).expect("JSON is text")
    }

    /// Digest of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }
}

impl ToolFacts {
    /// Facts about a subject that is not a tool, by name.
    pub fn named(name: ToolName, version: &str) -> Self {
        Self {
            digest: Digest::of(format!("{name} {version}").as_bytes()),
            name,
            origin: Origin::Builtin,
            pure: true,
            requires_approval: false,
            safety_flags: Vec::new(),
            tags: Vec::new(),
            version: version.to_owned(),
        }
    }
}

impl From<&Tool> for ToolFacts {
    fn from(tool: &Tool) -> Self {
        Self {
            digest: tool.digest,
            name: tool.name.clone(),
            origin: tool.origin,
            pure: tool.is_pure(),
            requires_approval: tool.requires_approval,
            safety_flags: tool.safety_flags.clone(),
            tags: tool.tags.clone(),
            version: tool.version.clone(),
        }
    }
}

fn canonically<S: Serializer>(json: &Json, serializer: S) -> Result<S::Ok, S::Error> {
    let raw = RawValue::from_string(canonical::jcs(json).to_owned()).map_err(ser::Error::custom)?;
    raw.serialize(serializer)
}
