//! Decisions about what is no call: asked here, so that they are kept like any other.

use ringfence_policy::{self as policy, Action, Decided, Input};
use ringfence_store::{Error, NewDecision};
use ringfence_types::{RedactRoot, Verdict};

use crate::Engine;

/// A decision that is on record.
#[derive(Debug)]
pub struct RecordedDecision {
    /// Its name.
    pub id: u64,
    /// What was decided.
    pub decided: Decided,
}

impl Engine {
    /// Asks policy about something that is no call, and keeps the answer before giving it.
    pub async fn decide_action(&self, input: &Input) -> Result<RecordedDecision, Error> {
        let parts = &self.inner.parts;
        // What removes something makes room.
        if input.action != Action::ToolRemove {
            parts.store.room().admit(&input.tenant)?;
        }
        let (decided, document) = policy::decide_documented(parts.policy.as_ref(), input).await;
        let decision = decided.decision().clone();
        let redact = &decision.obligations.redact;
        let input_kept = match decision.verdict {
            Verdict::Allow if redact.has(RedactRoot::Args) => {
                let args = redact.apply(RedactRoot::Args, &input.args);
                Input { args, ..input.clone() }.text()
            }
            _ => document,
        };
        let kept = NewDecision { at: input.time, decision, input: input_kept };
        let tool = input.tool.name.as_str();
        let id = parts.store.add_decision(&input.tenant, tool, input.call_id, kept).await?;
        Ok(RecordedDecision { id, decided })
    }

    /// A name for something that policy is asked about beside calls.
    pub fn new_name(&self) -> ringfence_types::CallId {
        self.inner.ids.call(self.inner.parts.clock.now())
    }
}
