//! The document that is judged.
//!
//! Invariant: it is written with sorted keys and canonical arguments, so its text is its RFC 8785
//! form, and the digest in a decision is the digest of exactly what the rules saw.

use ringfence_types::{
    ApprovalId, Asked, CallId, Digest, Json, KeyId, Origin, PersonaId, Principal, Scopes,
    SessionId, TenantId, Timestamp, Tool, ToolName, TraceParent, json::canonical,
};
use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::value::RawValue;

use crate::Action;

// The fields of each struct stay in alphabetical order: that is what makes the text canonical.

/// Everything that rules may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What is about to happen.
    pub action: Action,
    /// What people said about this call, if they were asked and it applies.
    pub approval: Option<Approval>,
    /// The real arguments.
    #[serde(serialize_with = "canonically")]
    pub args: Json,
    /// The call.
    pub call_id: CallId,
    /// What the tool was granted when it was approved. None is granted anything yet.
    #[serde(default)]
    pub grants: Vec<String>,
    /// Data of the client's. Nobody checked it, so rules must not trust it.
    #[serde(serialize_with = "canonically")]
    pub metadata: Json,
    /// The call that led to this one, if one did and is known.
    #[serde(default)]
    pub parent_call_id: Option<CallId>,
    /// On whose behalf.
    pub persona_id: Option<PersonaId>,
    /// The step of a plan that this is, if it is one.
    #[serde(default)]
    pub plan_step: Option<PlanStep>,
    /// Who is asking.
    pub principal: Subject,
    /// What the call belongs to.
    pub session_id: Option<SessionId>,
    /// Labels of what the arguments were made of, such as `web`. None are known yet.
    #[serde(default)]
    pub taint: Vec<String>,
    /// Whose call it is.
    pub tenant: TenantId,
    /// When it is judged. Rules have no other clock.
    pub time: Timestamp,
    /// What would run; for actions that run no tool, what they are about, by name.
    pub tool: ToolFacts,
    /// The work that it is part of, for whoever logs the decision. Rules do not see it, and it is no
    /// part of the document.
    #[serde(skip)]
    pub trace: Option<TraceParent>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// The plan.
    pub plan: String,
    /// The step's name within it.
    pub step: String,
}

/// A yes of as many people as were needed, to exactly what they were shown. It is here only if it
/// applies: to this tool, these arguments, this principal, under these rules, now. A no ends the
/// call and is never judged again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The keys of the people.
    pub by: Vec<KeyId>,
    /// When the last of them said so.
    pub decided_at: Timestamp,
    /// Its name.
    pub id: ApprovalId,
    /// How far it reaches: `once`, `session` or `rule`.
    pub reach: String,
    /// Of what they were shown.
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

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The key.
    pub key: KeyId,
    /// What it may do.
    pub scopes: Scopes,
}

/// What rules may know of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFacts {
    /// Of everything that makes it what it is.
    pub digest: Digest,
    /// Its name.
    pub name: ToolName,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it has no effect outside its sandbox.
    pub pure: bool,
    /// Whether its author wants a person to decide about every call.
    pub requires_approval: bool,
    /// What it may do.
    pub safety_flags: Vec<String>,
    /// For finding it.
    pub tags: Vec<String>,
    /// Three numbers with dots.
    pub version: String,
}

impl Input {
    /// The document about an accepted call of `tool`, without an approval.
    pub fn tool_execute(asked: &Asked, tool: &Tool, scopes: &Scopes, time: Timestamp) -> Self {
        Self {
            action: Action::ToolExecute,
            approval: None,
            args: asked.args.clone(),
            call_id: asked.id,
            grants: Vec::new(),
            metadata: asked.metadata.clone(),
            parent_call_id: None,
            persona_id: asked.persona.clone(),
            plan_step: None,
            principal: Subject { key: asked.key, scopes: scopes.clone() },
            session_id: asked.session.clone(),
            taint: Vec::new(),
            tenant: asked.tenant.clone(),
            time,
            tool: ToolFacts::from(tool),
            trace: asked.trace_context(),
        }
    }

    /// The document about something that `who` is about to do beside calls. `about` is what the
    /// action names, as the tool of the document; the rest is for the caller to fill in.
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
            parent_call_id: None,
            persona_id: who.persona.clone(),
            plan_step: None,
            principal: Subject { key: who.key, scopes: who.scopes.clone() },
            session_id: None,
            taint: Vec::new(),
            tenant: who.tenant.clone(),
            time,
            tool: about,
            trace: None,
        }
    }

    /// Its canonical text.
    pub fn text(&self) -> String {
        // Room for most documents, so that the text is not moved while it grows.
        let mut text = Vec::with_capacity(1_024);
        serde_json::to_writer(&mut text, self).expect("plain data with text keys can be written");
        String::from_utf8(text).expect("JSON is text")
    }

    /// Of its canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }
}

impl ToolFacts {
    /// What stands in a document's `tool` for something that is no tool, by name.
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
    let raw = RawValue::from_string(canonical::jcs(json)).map_err(ser::Error::custom)?;
    raw.serialize(serializer)
}
