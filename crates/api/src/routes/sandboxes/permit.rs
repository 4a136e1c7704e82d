//! Asking policy about a sandbox that is kept.

use ringfence_edge::{Problem, identity::Caller, problem_codes};
use ringfence_engine::{
    Refused,
    data::{Action, ToolFacts},
};
use ringfence_policy::{Permit, local_permit};
use ringfence_types::{Json, RedactRoot, ToolName};

use crate::shared::Shared;

/// What rules see as the tool.
const TOOL: &str = "sandbox";

/// For a program or a file of a sandbox that policy allowed to be made.
pub(super) fn within() -> Permit {
    local_permit()
}

/// Proof that a sandbox is allowed, with what it must keep to; or why there is none. `args` is what was asked for.
pub(super) async fn decide(
    shared: &Shared,
    caller: &Caller,
    args: Json,
) -> Result<Permit, Problem> {
    if shared.engine.is_stopping() {
        return Err((&Refused::Stopping).into());
    }
    let name: ToolName = TOOL.parse().expect("our own name is valid");
    let about = ToolFacts::named(name, env!("CARGO_PKG_VERSION"));
    let (who, trace) = (caller.principal(), caller.trace());
    let permit =
        shared.engine.permit_action(who, trace, Action::SandboxCreate, about, args).await?;
    let obligations = permit.obligations();
    // Each is built for whoever asked and reaches no network: tiers and hosts are kept as it is.
    if let Some(least) = &obligations.min_isolation {
        shared.engine.sandbox().check(&least.layers).map_err(|error| {
            let detail = format!("policy demands more: {}", error.public_message());
            Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail)
        })?;
    }
    let kept = [RedactRoot::Result, RedactRoot::Stdout, RedactRoot::Stderr];
    if kept.into_iter().any(|root| obligations.redact.has(root)) {
        let detail = "policy wants output masked, and that of a sandbox's programs cannot be";
        return Err(Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail));
    }
    Ok(permit)
}
