//! Questions to policy about actions that are done elsewhere, and their metrics.

use ringfence_edge::{Problem, identity::Caller, problem_codes};
use ringfence_engine::{PolicyAnswer, PolicyQuestion};
use ringfence_types::{PersonaId, Principal};

use crate::{metrics::Evaluated, shared::Shared};

/// Asks policy, and counts the recorded decisions.
pub(super) async fn ask(
    shared: &Shared,
    caller: &Caller,
    question: PolicyQuestion,
) -> Result<PolicyAnswer, Problem> {
    let started = std::time::Instant::now();
    let who = caller.principal();
    let question = PolicyQuestion { persona: persona(who, question.persona)?, ..question };
    let answer = shared.engine.ask_policy(who, caller.trace(), question).await?;
    if answer.id.is_some() {
        let verdict = answer.decision.verdict;
        shared.metrics.evaluated(&Evaluated { verdict, took: started.elapsed() });
    }
    Ok(answer)
}

/// The persona of a question: as for a call, a key bound to a persona asks for that one only.
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
