//! Policy for clients: questions, rules in force, decisions and explanations.

use std::sync::Arc;

use ringfence_access::is_operator_admin;
use ringfence_policy::{Action, Bundle, Decided, Explanation, Input, Part, Status, ToolFacts};
use ringfence_store::{Error, KeptDecision};
use ringfence_types::{
    CallId, Decision, Digest, Json, Obligations, PersonaId, Principal, Reason, SessionId, TenantId,
    ToolName, TraceContext, Verdict,
};

use crate::Engine;

/// A question to policy about an action that is done elsewhere.
#[derive(Debug, Clone)]
pub struct PolicyQuestion {
    /// Tenant of the action.
    pub tenant: TenantId,
    /// Persona that it is done for.
    pub persona: Option<PersonaId>,
    /// The action.
    pub action: Action,
    /// The resource that it acts on.
    pub resource: ToolName,
    /// Arguments of the action.
    pub args: Json,
    /// Metadata of the client.
    pub metadata: Json,
    /// Session of the action.
    pub session: Option<SessionId>,
}

/// Answer of policy.
#[derive(Debug)]
pub struct PolicyAnswer {
    /// The decision on record; none about tools that do not exist.
    pub id: Option<u64>,
    /// The decision.
    pub decision: Decision,
}

/// Rules in force, where they are files of this server.
#[derive(Debug, Clone)]
pub struct PolicyInForce {
    /// The engine that decides.
    pub engine: String,
    /// The revision of its rules.
    pub revision: Digest,
    /// Its rules, if they are files.
    pub bundle: Option<Arc<Bundle>>,
}

/// State of the policy engines.
#[derive(Debug, Clone)]
pub struct PolicyStatus {
    /// The revision of the rules in force.
    pub revision: Digest,
    /// All engines.
    pub engines: Vec<Status>,
    /// Tenants whose calls run while no engine answers.
    pub fail_open: Vec<TenantId>,
}

/// Explanation of the decision about a call.
#[derive(Debug)]
pub struct ExplainedCall {
    /// The decision that is explained: the newest about the call.
    pub kept: KeptDecision,
    /// The revision of the rules that explain it.
    pub explained_by: Digest,
    /// Whether the client may see rules beyond their reasons: files and constants may name other
    /// tenants.
    pub sees_rules: bool,
    /// Explanations of each engine.
    pub parts: Vec<ExplainedPart>,
}

/// Explanation of one engine.
#[derive(Debug)]
pub struct ExplainedPart {
    /// The engine.
    pub engine: String,
    /// The revision of its rules.
    pub revision: Digest,
    /// The explanation, where its rules are files of this server.
    pub explanation: Option<Explanation>,
}

/// Reason why a decision is not explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The rules are not files of this server.
    #[error("the rules are not files of this server: {} has them", .0.join(", "))]
    RulesElsewhere(Vec<String>),
    /// The document was written by another version and cannot be read.
    #[error("the document that was judged is of another version of this server")]
    OtherVersion,
    /// Evaluating took too long.
    #[error("the rules took too long to explain themselves")]
    TookTooLong,
    /// The store failed.
    #[error("read the decision")]
    Store(#[from] Error),
}

/// Rule named in the answer about a tool that does not exist.
const UNKNOWN_TOOL: &str = "unknown_tool";

impl Engine {
    /// Asks policy about an action that is done elsewhere, under a permit of its own there.
    pub async fn ask_policy(
        &self,
        who: &Principal,
        trace: &TraceContext,
        question: PolicyQuestion,
    ) -> Result<PolicyAnswer, Error> {
        let Some(about) = self.resource(&question) else {
            return Ok(PolicyAnswer { id: None, decision: self.unknown(&question) });
        };
        let input = Input::about(question.action, who, about, self.clock().now(), self.new_name());
        let input = Input {
            args: question.args,
            metadata: question.metadata,
            persona_id: question.persona,
            session_id: question.session,
            tenant: question.tenant,
            trace: Some(trace.parent),
            ..input
        };
        let recorded = self.decide_action(&input).await?;
        let decision = match recorded.decided {
            Decided::Allow(_permit, decision) => decision,
            Decided::Hold(decision) | Decided::Deny(decision) => decision,
        };
        Ok(PolicyAnswer { id: Some(recorded.id), decision })
    }

    /// The tool as rules see it; none if the action needs an existing tool and there is none.
    fn resource(&self, question: &PolicyQuestion) -> Option<ToolFacts> {
        let tools = self.tools();
        let known = tools.get(question.resource.as_str(), None);
        match question.action {
            Action::ToolExecute | Action::ToolRemove => {
                known.map(|entry| ToolFacts::from(&entry.tool))
            }
            _ => Some(known.map_or_else(
                || ToolFacts::named(question.resource.clone(), ""),
                |entry| ToolFacts::from(&entry.tool),
            )),
        }
    }

    fn unknown(&self, question: &PolicyQuestion) -> Decision {
        let policy = &self.inner.parts.policy;
        let name = &question.resource;
        let message = format!("tool `{name}` does not exist here, so no rule allows it");
        Decision {
            verdict: Verdict::Deny,
            reasons: vec![Reason { rule: UNKNOWN_TOOL.to_owned(), message }],
            obligations: Obligations::default(),
            approvals: None,
            approval: None,
            engine: policy.name().to_owned(),
            policy: policy.revision(),
            input: Digest::of_json(&question.args),
            fail_open: false,
        }
    }

    /// The revision of the rules in force.
    pub fn policy_revision(&self) -> Digest {
        self.inner.parts.policy.revision()
    }

    /// The rules in force.
    pub fn policy_in_force(&self) -> PolicyInForce {
        let policy = &self.inner.parts.policy;
        PolicyInForce {
            engine: policy.name().to_owned(),
            revision: policy.revision(),
            bundle: policy.bundle(),
        }
    }

    /// State of the policy engines.
    pub fn policy_status(&self) -> PolicyStatus {
        let policy = &self.inner.parts.policy;
        PolicyStatus {
            revision: policy.revision(),
            engines: policy.status(),
            fail_open: policy.fail_open(),
        }
    }

    /// One decision; admins of the operator see those of any tenant.
    pub async fn decision(&self, who: &Principal, id: u64) -> Result<Option<KeptDecision>, Error> {
        self.inner.parts.store.decision(readable(who), id).await
    }

    /// Decisions about a call, oldest first; admins of the operator see those of any tenant.
    pub async fn decisions_of(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Vec<KeptDecision>, Error> {
        self.inner.parts.store.decisions_of(readable(who), call).await
    }

    /// Explanation of the decision about a call; none if there is no decision about it.
    pub async fn explain(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Option<ExplainedCall>, ExplainError> {
        let Some(kept) = self.decisions_of(who, call).await?.pop() else { return Ok(None) };
        let parts = self.explained_parts(&kept.kept.input).await?;
        let (explained_by, sees_rules) = (self.policy_revision(), is_operator_admin(who));
        Ok(Some(ExplainedCall { kept, explained_by, sees_rules, parts }))
    }

    async fn explained_parts(&self, document: &str) -> Result<Vec<ExplainedPart>, ExplainError> {
        let input: Input =
            serde_json::from_str(document).map_err(|_| ExplainError::OtherVersion)?;
        let parts = self.inner.parts.policy.parts(&input);
        if parts.iter().all(|part| part.bundle.is_none()) {
            let names = parts.into_iter().map(|part| part.engine).collect();
            return Err(ExplainError::RulesElsewhere(names));
        }
        // Explaining keeps a processor busy for seconds.
        let _turn = self.inner.replay_turn.acquire().await;
        let mut explained = Vec::new();
        for Part { engine, revision, bundle } in parts {
            let explanation = match bundle {
                Some(bundle) => Some(explanation(bundle, document.to_owned()).await?),
                None => None,
            };
            explained.push(ExplainedPart { engine, revision, explanation });
        }
        Ok(explained)
    }
}

/// The tenant whose decisions the principal may read; none, for any tenant, for admins of the
/// operator.
fn readable(who: &Principal) -> Option<&TenantId> {
    (!is_operator_admin(who)).then_some(&who.tenant)
}

async fn explanation(bundle: Arc<Bundle>, document: String) -> Result<Explanation, ExplainError> {
    let work = tokio::task::spawn_blocking(move || Explanation::of(&bundle, &document));
    work.await.ok().and_then(Result::ok).ok_or(ExplainError::TookTooLong)
}
