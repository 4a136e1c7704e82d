//! Asking policy about a sandbox, as about a call of a tool named `sandbox.create`.

use ringfence_policy::{self as policy, Action, Decided, Input, Subject, ToolFacts};
use ringfence_types::{CallId, Decision, Digest, Json, Obligations, Origin, Principal, ToolName};
use uuid::Uuid;

use crate::{kinds, problem::Problem, shared::Shared};

/// What rules see as the tool.
const TOOL: &str = "sandbox.create";

/// What an allowed sandbox must keep to; or why there is none. `args` is what was asked for.
pub(super) async fn decide(
    shared: &Shared,
    who: &Principal,
    args: Json,
) -> Result<Obligations, Problem> {
    let input = input(shared, who, args);
    match policy::decide(shared.engine.policy().as_ref(), &input).await {
        Decided::Allow(permit, _) => Ok(permit.obligations().clone()),
        Decided::Hold(decision) => {
            let detail = "policy wants a person to decide, and sandboxes are not kept waiting";
            Err(refusal(&kinds::POLICY_HELD, detail, &decision))
        }
        Decided::Deny(decision) => {
            Err(refusal(&kinds::POLICY_DENIED, "policy does not allow this sandbox", &decision))
        }
    }
}

fn refusal(kind: &'static kinds::Kind, detail: &str, decision: &Decision) -> Problem {
    Problem::new(kind, detail).with("reasons", &decision.reasons)
}

fn input(shared: &Shared, who: &Principal, args: Json) -> Input {
    let name: ToolName = TOOL.parse().expect("our own name is valid");
    Input {
        action: Action::ToolExecute,
        approval: None,
        args,
        call_id: CallId(Uuid::new_v4()),
        metadata: Json::empty_object(),
        persona_id: who.persona.clone(),
        principal: Subject { key: who.key, scopes: who.scopes.clone() },
        session_id: None,
        tenant: who.tenant.clone(),
        time: shared.engine.clock().now(),
        tool: ToolFacts {
            digest: Digest::of(concat!("sandbox.create ", env!("CARGO_PKG_VERSION")).as_bytes()),
            name,
            origin: Origin::Builtin,
            // Programs in it change it, and nothing outside.
            pure: true,
            requires_approval: false,
            safety_flags: vec!["none".to_owned()],
            tags: vec!["sandbox".to_owned()],
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    }
}
