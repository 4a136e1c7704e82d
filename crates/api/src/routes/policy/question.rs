//! What others ask policy about: read from their words into the one document.

use ringfence_edge::{Problem, identity::Caller, problem_codes};
use ringfence_policy::{Action, Decided, Input, ToolFacts};
use ringfence_types::{
    Decision, Json, Obligations, PersonaId, Principal, Reason, SessionId, TenantId, ToolName,
    Verdict,
};

use crate::{metrics::Evaluated, shared::Shared};

/// A question, whichever door it came through.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) tenant: TenantId,
    pub(super) persona: Option<PersonaId>,
    pub(super) action: Action,
    /// A tool, or what the action is about.
    pub(super) resource: ToolName,
    pub(super) args: Json,
    pub(super) metadata: Json,
    pub(super) session: Option<SessionId>,
}

/// What was decided, on record.
#[derive(Debug)]
pub(super) struct Answered {
    /// Of the decision; none if there was nothing to decide about.
    pub(super) id: Option<u64>,
    pub(super) decision: Decision,
}

/// The rule that is named when a tool is not known here.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// Asks policy. The answer is for whoever asked to keep to: nothing runs here.
pub(super) async fn ask(
    shared: &Shared,
    caller: &Caller,
    question: Question,
) -> Result<Answered, Problem> {
    let started = std::time::Instant::now();
    let question = Question { persona: persona(caller.principal(), question.persona)?, ..question };
    let engine = &shared.engine;
    let Some(about) = about(shared, &question) else {
        return Ok(unknown(shared, &question));
    };
    let (now, name) = (engine.clock().now(), engine.new_name());
    let input = Input {
        args: question.args,
        metadata: question.metadata,
        persona_id: question.persona,
        session_id: question.session,
        tenant: question.tenant,
        trace: Some(caller.trace().parent),
        ..Input::about(question.action, caller.principal(), about, now, name)
    };
    let judged = engine.decide_action(&input).await?;
    let decision = match judged.decided {
        // Somebody else acts on it, under a permit of their own.
        Decided::Allow(_permit, decision) => decision,
        Decided::Hold(decision) | Decided::Deny(decision) => decision,
    };
    shared.metrics.evaluated(&Evaluated { verdict: decision.verdict, took: started.elapsed() });
    Ok(Answered { id: Some(judged.id), decision })
}

/// On whose behalf: as for a call, a key of one persona asks for that one only.
fn persona(who: &Principal, asked: Option<PersonaId>) -> Result<Option<PersonaId>, Problem> {
    match (&who.persona, asked) {
        (Some(own), Some(other)) if *own != other => {
            let detail = format!("this key may not ask for persona `{other}`");
            Err(Problem::new(&problem_codes::PERSONA_FOREIGN, detail))
        }
        (Some(own), _) => Ok(Some(own.clone())),
        (None, asked) => Ok(asked),
    }
}

/// The facts of a tool that is known here; of anything else its name. Nothing of what the asker
/// says about a tool is taken for a fact.
fn about(shared: &Shared, question: &Question) -> Option<ToolFacts> {
    let catalogue = shared.engine.registry().catalogue();
    let known = catalogue.get(question.resource.as_str(), None);
    match question.action {
        Action::ToolExecute | Action::ToolRemove => known.map(|entry| ToolFacts::from(&entry.tool)),
        _ => Some(known.map_or_else(
            || ToolFacts::named(question.resource.clone(), ""),
            |entry| ToolFacts::from(&entry.tool),
        )),
    }
}

fn unknown(shared: &Shared, question: &Question) -> Answered {
    let message = format!("there is no tool `{}` here, so nothing allows it", question.resource);
    let policy = shared.engine.policy();
    let decision = Decision {
        verdict: Verdict::Deny,
        reasons: vec![Reason { rule: UNKNOWN_TOOL.to_owned(), message }],
        obligations: Obligations::default(),
        approvals: None,
        approval: None,
        engine: policy.name().to_owned(),
        policy: policy.revision(),
        input: ringfence_types::Digest::of_json(&question.args),
        fail_open: false,
    };
    Answered { id: None, decision }
}
