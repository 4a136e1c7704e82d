//! Steps of a call that concern its hold.

use std::sync::Arc;

use ringfence_ledger::Entry;
use ringfence_store::Spend;
use ringfence_types::{
    Approval, Digest, Edited, FactKind, Hold, Json, KeyId, PersonId, Principal, State,
};
use serde::Serialize;

use crate::active_call::ActiveCall;

/// Fact about a resolution.
#[derive(Serialize)]
struct ResolutionFact<'a> {
    action: &'a str,
    by: KeyId,
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<&'a PersonId>,
    reason: Option<&'a str>,
}

/// Fact about arguments that an approver edited.
#[derive(Serialize)]
struct EditFact<'a> {
    action: &'static str,
    asked: Digest,
    by: KeyId,
    label: &'a str,
    now: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<&'a PersonId>,
}

/// Fact about a vote.
#[derive(Serialize)]
struct VoteFact {
    approval: Option<ringfence_types::ApprovalId>,
    approved: usize,
    needed: u32,
}

impl ActiveCall {
    /// Adds a vote to the hold, and the approval if it is complete.
    pub(crate) fn vote(&mut self, hold: Hold, approval: Option<Approval>) {
        let said = VoteFact {
            approval: approval.as_ref().map(|approval| approval.id),
            approved: hold.votes.len(),
            needed: hold.needed,
        };
        let call = Arc::make_mut(&mut self.call);
        call.state = State::Held(Box::new(hold));
        call.changed_at = self.inner.parts.clock.now();
        self.note(FactKind::Approval, Json::plain(&said));
        let about = self.about();
        self.pending.entries.extend(approval.as_ref().map(|given| Entry::approval(about, given)));
        self.pending.approval = approval;
    }

    /// Replaces the arguments of the request by edited ones.
    pub(crate) fn edit(&mut self, edited: Edited, who: &Principal) {
        let said = EditFact {
            action: "edit",
            asked: self.call.asked.args_digest,
            by: edited.by,
            label: &who.label,
            now: edited.args_digest,
            person: who.person.as_ref(),
        };
        Arc::make_mut(&mut self.call).edited = Some(edited);
        self.pending.entries.push(Entry::resolution(self.about(), &said));
        self.note(FactKind::Edited, Json::plain(&said));
    }

    /// Adds the fact about a resolution of the hold.
    pub(crate) fn note_resolution(&mut self, action: &str, who: &Principal, reason: Option<&str>) {
        let (label, person) = (who.label.as_str(), who.person.as_ref());
        let said = ResolutionFact { action, by: who.key, label, person, reason };
        self.pending.entries.push(Entry::resolution(self.about(), &said));
        self.note(FactKind::Resolved, Json::plain(&said));
    }

    /// Uses an approval with the next record.
    pub(crate) fn spend(&mut self, approval: &Approval) {
        let at = self.inner.parts.clock.now();
        self.pending.spends = Some(Spend::of(approval, at));
    }

    /// Rechecks the call, which another server or task has changed.
    pub(crate) fn look_again(&self) {
        self.inner.rechecks.recheck_now(self.call.asked.id, self.inner.parts.clock.now());
    }
}
