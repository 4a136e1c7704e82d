//! Decisions made from answers, and the proof that one was made.

use std::error::Error;

use ringfence_types::{CallId, Decision, Digest, Obligations, Reason, Verdict};

use crate::{Answer, Engine, Input, Trouble, Unavailable, answer};

/// Rule named by a decision when the engine gave no answer.
pub const POLICY_UNAVAILABLE: &str = "policy_unavailable";

/// Rule named by a decision when a call runs although the engine gave no answer.
pub const FAIL_OPEN: &str = "fail_open";

/// Proof that policy allowed one call of one tool with these arguments.
///
/// Only [`decide`] makes one, the runner consumes it, and it cannot be copied:
///
/// ```compile_fail,E0451
/// fn forge(call: ringfence_types::CallId, any: ringfence_types::Digest) -> ringfence_policy::Permit {
///     ringfence_policy::Permit { call, tool: any, args: any, obligations: Default::default() }
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn twice(permit: ringfence_policy::Permit) -> [ringfence_policy::Permit; 2] {
///     [permit.clone(), permit]
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn from_the_wire(text: &str) -> ringfence_policy::Permit {
///     serde_json::from_str(text).unwrap()
/// }
/// ```
///
/// Reading one is open to all code:
///
/// ```
/// fn is_for(permit: &ringfence_policy::Permit, call: ringfence_types::CallId) -> bool {
///     permit.call() == call
/// }
/// ```
#[derive(Debug)]
#[must_use = "an allowed call is run, or its permit is dropped on purpose"]
pub struct Permit {
    call: CallId,
    tool: Digest,
    args: Digest,
    /// Boxed, so that all variants of [`Decided`] are about the same size.
    obligations: Box<Obligations>,
}

impl Permit {
    /// The permitted call.
    pub const fn call(&self) -> CallId {
        self.call
    }

    /// Digest of the tool that was judged.
    pub const fn tool(&self) -> Digest {
        self.tool
    }

    /// Digest of the judged arguments in canonical form.
    pub const fn args(&self) -> Digest {
        self.args
    }

    /// Obligations of the run.
    pub const fn obligations(&self) -> &Obligations {
        &self.obligations
    }
}

/// Decision about a call.
#[derive(Debug)]
pub enum Decided {
    /// The call may run.
    Allow(Permit, Decision),
    /// The call waits for approval.
    Hold(Decision),
    /// The call may not run.
    Deny(Decision),
}

impl Decided {
    /// Recorded part of the decision.
    pub const fn decision(&self) -> &Decision {
        match self {
            Decided::Allow(_, decision) | Decided::Hold(decision) | Decided::Deny(decision) => {
                decision
            }
        }
    }
}

/// Asks `engine` about `input`. Without an answer the call is held, which fails closed and stays visible.
pub async fn decide(engine: &dyn Engine, input: &Input) -> Decided {
    decide_documented(engine, input).await.0
}

/// Like [`decide`], with the text of the judged document for the record.
pub async fn decide_documented(engine: &dyn Engine, input: &Input) -> (Decided, String) {
    let (answer, fail_open) = match engine.evaluate(input).await {
        Ok(answer) => (answer, false),
        Err(unavailable) => without_answer(engine, input, &unavailable),
    };
    // Serialized once: digested here and recorded by the caller.
    let document = input.text();
    let decision = Decision {
        verdict: answer.verdict,
        reasons: answer.reasons,
        obligations: answer.obligations,
        approvals: answer.approvals,
        approval: input.approval.as_ref().map(|approval| approval.id),
        engine: engine.answering(input),
        policy: answer.policy,
        input: Digest::of(document.as_bytes()),
        fail_open,
    };
    let decided = match decision.verdict {
        Verdict::Allow => Decided::Allow(permit(input, &decision), decision),
        Verdict::Hold => Decided::Hold(decision),
        Verdict::Deny => Decided::Deny(decision),
    };
    (decided, document)
}

fn permit(input: &Input, decision: &Decision) -> Permit {
    Permit {
        call: input.call_id,
        tool: input.tool.digest,
        args: Digest::of_json(&input.args),
        obligations: Box::new(decision.obligations.clone()),
    }
}

/// Hold, or allow where an operator configured fail-open for this tenant.
fn without_answer(engine: &dyn Engine, input: &Input, unavailable: &Unavailable) -> (Answer, bool) {
    let fail_open =
        may_fail_open(unavailable.trouble) && engine.fail_open().contains(&input.tenant);
    tracing::warn!(
        engine = engine.answering(input),
        error = %unavailable,
        cause = unavailable.source().map(tracing::field::display),
        "no answer from policy: the call {}",
        if fail_open { "RUNS, because its tenant fails open" } else { "is held" },
    );
    let (verdict, rule, then) = match fail_open {
        true => (Verdict::Allow, FAIL_OPEN, "this tenant is set to fail open"),
        false => (Verdict::Hold, POLICY_UNAVAILABLE, "the call waits until the policy answers"),
    };
    let reason = Reason { rule: rule.to_owned(), message: format!("{unavailable}; {then}") };
    (answer::plain(verdict, reason, engine.revision()), fail_open)
}

/// Whether fail-open applies. Rules that are undefined or malformed were asked and did not allow.
const fn may_fail_open(trouble: Trouble) -> bool {
    match trouble {
        Trouble::Slow | Trouble::Busy | Trouble::Failed | Trouble::Down => true,
        Trouble::Undefined | Trouble::Malformed | Trouble::Abstained => false,
    }
}
