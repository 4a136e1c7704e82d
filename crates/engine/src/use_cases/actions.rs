//! Policy decisions about actions other than calls. Each answer is recorded before it counts.

use ringfence_policy::{Action, Decided, Input, Permit, ToolFacts};
use ringfence_store::Error;
use ringfence_types::{Json, Principal, Reason, TraceContext};

use crate::Engine;

/// Reason why an action is not allowed.
#[derive(Debug, thiserror::Error)]
pub enum ActionRefused {
    /// Policy holds it, and only calls can be held.
    #[error("policy wants a person to decide, and `{action}` is not kept waiting")]
    Held {
        /// The action.
        action: String,
        /// Reasons of policy.
        reasons: Vec<Reason>,
    },
    /// Policy denies it.
    #[error("policy does not allow `{action}`")]
    Denied {
        /// The action.
        action: String,
        /// Reasons of policy.
        reasons: Vec<Reason>,
    },
    /// The decision could not be put on record.
    #[error("record the decision")]
    Store(#[from] Error),
}

impl Engine {
    /// Proof that policy allows an action, with its obligations. `args` is the request.
    pub async fn permit_action(
        &self,
        who: &Principal,
        trace: &TraceContext,
        action: Action,
        about: ToolFacts,
        args: Json,
    ) -> Result<Permit, ActionRefused> {
        let name = action.name().to_owned();
        let input = Input::about(action, who, about, self.clock().now(), self.new_name());
        let input = Input { args, trace: Some(trace.parent), ..input };
        match self.decide_action(&input).await?.decided {
            Decided::Allow(permit, _) => Ok(permit),
            Decided::Hold(decision) => {
                Err(ActionRefused::Held { action: name, reasons: decision.reasons })
            }
            Decided::Deny(decision) => {
                Err(ActionRefused::Denied { action: name, reasons: decision.reasons })
            }
        }
    }
}
