//! Asking policy about what is done here beside calls. Each answer is on record before it counts.

use ringfence_edge::{Problem, identity::Caller, problem_codes};
use ringfence_policy::{Action, Decided, Input, Permit, ToolFacts};
use ringfence_types::{Decision, Json};

use crate::shared::Shared;

/// Proof that the action is allowed, with what it must keep to; or why it is not. `args` is what was asked for.
pub(crate) async fn decide(
    shared: &Shared,
    caller: &Caller,
    action: Action,
    about: ToolFacts,
    args: Json,
) -> Result<Permit, Problem> {
    let engine = &shared.engine;
    let name = action.name().to_owned();
    let (now, id) = (engine.clock().now(), engine.new_name());
    let input = Input::about(action, caller.principal(), about, now, id);
    let trace = Some(caller.trace().parent);
    let judged = engine.decide_action(&Input { args, trace, ..input }).await?;
    match judged.decided {
        Decided::Allow(permit, _) => Ok(permit),
        Decided::Hold(decision) => {
            let detail =
                format!("policy wants a person to decide, and `{name}` is not kept waiting");
            Err(refusal(&problem_codes::POLICY_HELD, detail, &decision))
        }
        Decided::Deny(decision) => Err(refusal(
            &problem_codes::POLICY_DENIED,
            format!("policy does not allow `{name}`"),
            &decision,
        )),
    }
}

fn refusal(
    kind: &'static problem_codes::ProblemCode,
    detail: String,
    decision: &Decision,
) -> Problem {
    Problem::new(kind, detail).with("reasons", &decision.reasons)
}
