//! Resolutions of holds by people: approve, deny, discard, ask policy again.

use std::sync::Arc;

use ringfence_registry::{Entry, Violation};
use ringfence_store::{Error, Stored};
use ringfence_types::{
    Approval, Call, CallId, Digest, Edited, Event, Hold, Json, Principal, Proposal, Reason, Scope,
    State, Stopper, Terms, Vote, shown,
};

use super::terms::{InvalidTerms, TermsRequest, agree};
use crate::{
    Engine,
    active_call::ActiveCall,
    decide::{self, PolicyOutcome},
    engine::Inner,
    given::{self, Unresolved},
    pipeline,
    queue::Claim,
};

/// Maximum bytes of a reason.
const MAX_REASON_BYTES: usize = 2_000;

/// Request to resolve a hold.
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    /// The action.
    pub action: Action,
    /// Reason given by the approver.
    pub reason: Option<String>,
    /// Digest of what the approver was shown; without it, the current state counts as shown.
    pub shown: Option<Digest>,
}

/// Action on a hold.
#[derive(Debug, Clone, Default)]
pub enum Action {
    /// Ask policy again.
    #[default]
    Reevaluate,
    /// Allow the call within bounds.
    Approve {
        /// The bounds.
        terms: TermsRequest,
        /// Arguments that replace those of the request.
        edited: Option<Json>,
    },
    /// Deny the call.
    Deny,
    /// Cancel the call: it is no longer needed.
    Discard,
}

/// Result of a resolution.
#[derive(Debug)]
pub enum Resolved {
    /// The call continues.
    Runs(Arc<Call>),
    /// The call stays held: it needs more approvals, or policy still holds it.
    Waits(Arc<Call>),
    /// The call has ended.
    Ended(Arc<Call>),
}

/// Reason why a hold was not resolved.
#[derive(Debug, thiserror::Error)]
pub enum NotResolved {
    /// The call does not exist.
    #[error("call not found")]
    Missing,
    /// The call is not held, or no longer.
    #[error("the call is {0}, not held")]
    NotHeld(&'static str),
    /// The maker of a call cannot approve it.
    #[error("the key that made a call, or another key of the same person, cannot approve it")]
    OwnCall,
    /// The key may not approve.
    #[error("the key does not have the scope `approve`")]
    Scope,
    /// Each person can approve once.
    #[error(
        "this key, or another key of the same person, has already approved the call: another person must approve"
    )]
    Twice,
    /// The call differs from what was shown.
    #[error("the call has changed since it was shown: read it again, then decide")]
    Changed,
    /// The tool was changed or removed.
    #[error("the tool was changed or removed: discard the hold and call again")]
    ToolChanged,
    /// The edited arguments violate the tool's schema.
    #[error("the edited arguments do not fit the tool")]
    InvalidArguments(Vec<Violation>),
    /// The bounds are invalid.
    #[error(transparent)]
    Terms(#[from] InvalidTerms),
    /// Policy does not answer, so the approval cannot be bound to its rules.
    #[error("the policy engine does not answer: the call stays held until it does")]
    PolicyUnavailable,
    /// The reason is too long.
    #[error("a reason has at most {MAX_REASON_BYTES} bytes")]
    Reason,
    /// The server is about to stop.
    #[error("the server is shutting down")]
    Stopping,
    /// The resolution could not be recorded.
    #[error("the resolution could not be recorded")]
    Store(#[from] Error),
}

impl Engine {
    /// Resolves a hold. The first of several concurrent resolvers wins; the others find it not
    /// held.
    pub async fn resolve(
        &self,
        who: &Principal,
        id: CallId,
        resolution: Resolution,
    ) -> Result<Resolved, NotResolved> {
        if self.inner.stopping.is_cancelled() {
            return Err(NotResolved::Stopping);
        }
        if !who.scopes.allow(Scope::Approve) {
            return Err(NotResolved::Scope);
        }
        if resolution.reason.as_ref().is_some_and(|reason| reason.len() > MAX_REASON_BYTES) {
            return Err(NotResolved::Reason);
        }
        let _lock = self.inner.locks.of(id).await;
        let stored = self.inner.parts.store.call(&who.tenant, id).await?;
        let stored = stored.ok_or(NotResolved::Missing)?;
        let State::Held(hold) = &stored.call.state else {
            return Err(NotResolved::NotHeld(stored.call.state.name()));
        };
        let now = self.inner.parts.clock.now();
        if hold.expires_at <= now {
            // The recheck worker has not expired it yet.
            self.inner.rechecks.recheck_now(id, now);
            return Err(NotResolved::NotHeld("expired"));
        }
        if resolution.shown.is_some_and(|seen| seen != shown(&stored.call)) {
            return Err(NotResolved::Changed);
        }
        let resolver = Resolver { inner: &self.inner, who, reason: resolution.reason };
        let resolved = match resolution.action {
            Action::Reevaluate => resolver.reevaluate(stored).await,
            Action::Approve { terms, edited } => resolver.approve(stored, &terms, edited).await,
            Action::Deny => resolver.deny(stored).await,
            Action::Discard => resolver.discard(stored).await,
        };
        match resolved {
            // Another server was first.
            Err(NotResolved::Store(Error::Stale)) => Err(NotResolved::NotHeld("decided")),
            other => other,
        }
    }
}

/// A person resolving a hold.
struct Resolver<'a> {
    inner: &'a Arc<Inner>,
    who: &'a Principal,
    reason: Option<String>,
}

impl Resolver<'_> {
    async fn reevaluate(&self, stored: Stored) -> Result<Resolved, NotResolved> {
        let entry = self.entry(&stored.call)?;
        let mut active = ActiveCall::for_one_step(self.inner.clone(), stored);
        self.note(&mut active, "reevaluate");
        let now = self.redecided(&mut active, &entry).await?;
        active.commit().await?;
        match now {
            Redecided::Passes => Ok(self.set_out(&active, entry)),
            Redecided::Held => Ok(Resolved::Waits(active.call)),
            Redecided::Denied => Ok(Resolved::Ended(active.call)),
        }
    }

    async fn deny(&self, stored: Stored) -> Result<Resolved, NotResolved> {
        let said = self.reason.as_deref().unwrap_or("no reason was given");
        let message = format!("{} denied the call: {said}", named(self.who));
        let reason = Reason { rule: "denied_by_person".to_owned(), message };
        self.end(stored, "deny", Event::Deny(vec![reason])).await
    }

    async fn discard(&self, stored: Stored) -> Result<Resolved, NotResolved> {
        self.end(stored, "discard", Event::Cancel(Stopper::Key(self.who.key))).await
    }

    async fn end(
        &self,
        stored: Stored,
        action: &str,
        event: Event,
    ) -> Result<Resolved, NotResolved> {
        let mut active = ActiveCall::for_one_step(self.inner.clone(), stored);
        self.note(&mut active, action);
        active.step(event);
        active.commit().await?;
        Ok(Resolved::Ended(active.call))
    }

    async fn approve(
        &self,
        stored: Stored,
        terms: &TermsRequest,
        edited: Option<Json>,
    ) -> Result<Resolved, NotResolved> {
        let maker = self.inner.parts.store.key(stored.call.asked.key).await?;
        let maker = maker.and_then(|key| key.person);
        if self.who.is(stored.call.asked.key, maker.as_ref()) {
            return Err(NotResolved::OwnCall);
        }
        let entry = self.entry(&stored.call)?;
        let mut active = ActiveCall::for_one_step(self.inner.clone(), stored);
        self.note(&mut active, "approve");
        if let Some(args) = edited {
            let given = given::check(&entry, &args).map_err(NotResolved::InvalidArguments)?;
            let resolved = given.resolve(self.inner, &active.asked().tenant, &args).await;
            let resolved = resolved.map_err(|error| match error {
                Unresolved::Invalid(violations) => NotResolved::InvalidArguments(violations),
                Unresolved::Store(error) => NotResolved::Store(error),
            })?;
            let args = resolved.args.unwrap_or(args);
            active.edit(self.edited(args, resolved.taint), self.who);
        }
        // The approval is bound to the rules in force now, not to those at the time of the hold.
        let mut now = self.redecided(&mut active, &entry).await?;
        if now == Redecided::Held && self.vote(&mut active, terms).await? {
            now = Redecided::Passes;
        }
        active.commit().await?;
        match now {
            Redecided::Passes => Ok(self.set_out(&active, entry)),
            Redecided::Held => Ok(Resolved::Waits(active.call)),
            Redecided::Denied => Ok(Resolved::Ended(active.call)),
        }
    }

    /// Adds a vote; returns whether the approval is complete.
    async fn vote(
        &self,
        active: &mut ActiveCall,
        terms: &TermsRequest,
    ) -> Result<bool, NotResolved> {
        let terms = terms.terms(&active.call, self.inner.parts.clock.now())?;
        let hold = active.call.hold().cloned();
        let hold = hold.ok_or(NotResolved::NotHeld(active.call.state.name()))?;
        let hold = self.voted(self.counted(hold).await?, shown(&active.call), terms)?;
        let is_whole = hold.votes.len() >= hold.needed as usize;
        let approval = if is_whole { approval(active, &hold) } else { None };
        active.vote(hold, approval);
        Ok(is_whole)
    }

    fn note(&self, active: &mut ActiveCall, action: &str) {
        active.note_resolution(action, self.who, self.reason.as_deref());
    }

    fn edited(&self, args: Json, taint: Vec<String>) -> Edited {
        let (args_digest, inputs_hash) = args.hashes();
        Edited {
            args_digest,
            inputs_hash,
            args,
            taint,
            by: self.who.key,
            at: self.inner.parts.clock.now(),
        }
    }

    /// Asks policy about the call as it is now. A call that stays held gets the hold of this
    /// answer.
    async fn redecided(
        &self,
        active: &mut ActiveCall,
        entry: &Entry,
    ) -> Result<Redecided, NotResolved> {
        match decide::ask_policy(active, entry).await? {
            PolicyOutcome::Hold(judgement, _) if decide::is_unavailable(&judgement.decision) => {
                Err(NotResolved::PolicyUnavailable)
            }
            PolicyOutcome::Hold(judgement, changed) => {
                active.hold(*judgement, changed);
                Ok(Redecided::Held)
            }
            // The pipeline asks once more and does what follows.
            PolicyOutcome::Allow(..) => Ok(Redecided::Passes),
            PolicyOutcome::Deny(judgement) => {
                let event = Event::Deny(judgement.decision.reasons.clone());
                active.decided(*judgement);
                active.step(event);
                Ok(Redecided::Denied)
            }
        }
    }

    /// The hold without the votes of revoked keys.
    async fn counted(&self, mut hold: Hold) -> Result<Hold, NotResolved> {
        let mut counted = Vec::new();
        for vote in std::mem::take(&mut hold.votes) {
            let key = self.inner.parts.store.key(vote.by).await?;
            if key.is_none_or(|key| key.revoked_at.is_none()) {
                counted.push(vote);
                continue;
            }
            let message = format!("key {} was revoked, so its approval does not count", vote.by);
            hold.changed.push(message);
        }
        hold.votes = counted;
        Ok(hold)
    }

    /// The hold with one more vote.
    fn voted(&self, mut hold: Hold, seen: Digest, terms: Terms) -> Result<Hold, NotResolved> {
        let agreed = hold
            .proposal
            .take()
            .filter(|before| before.shown == seen && agree(&before.terms, &terms));
        if agreed.is_none() && !hold.votes.is_empty() {
            hold.votes.clear();
            let message =
                "the last approval is for something else than those before: they do not count";
            hold.changed = vec![message.to_owned()];
        }
        if hold.votes.iter().any(|vote| self.who.is(vote.by, vote.person.as_ref())) {
            return Err(NotResolved::Twice);
        }
        let at = self.inner.parts.clock.now();
        hold.votes.push(Vote {
            by: self.who.key,
            label: self.who.label.clone(),
            person: self.who.person.clone(),
            at,
            shown: seen,
            reason: self.reason.clone(),
        });
        hold.proposal = Some(agreed.unwrap_or(Proposal { terms, shown: seen }));
        Ok(hold)
    }

    fn entry(&self, call: &Call) -> Result<Arc<Entry>, NotResolved> {
        let catalogue = self.inner.parts.registry.catalogue();
        catalogue.by_digest(call.asked.tool.digest).cloned().ok_or(NotResolved::ToolChanged)
    }

    /// Sends a held call through the pipeline once more, in the background.
    fn set_out(&self, active: &ActiveCall, entry: Arc<Entry>) -> Resolved {
        let (inner, call) = (self.inner, active.call.clone());
        match active.resume() {
            Some(active) => {
                inner.tasks.spawn(pipeline::run(active, entry, Claim::WhenAllowed(None)));
            }
            // It is in the pipeline, and will see the change.
            None => inner.rechecks.recheck_now(call.asked.id, inner.parts.clock.now()),
        }
        Resolved::Runs(call)
    }
}

/// Person and key, for readers of a record.
fn named(who: &Principal) -> String {
    let person = who.person.as_ref().map(|person| format!("{person}, "));
    format!("{}key {} ({})", person.unwrap_or_default(), who.key, who.label)
}

/// Answer of policy about a held call now.
#[derive(Debug, PartialEq, Eq)]
enum Redecided {
    /// It stays held.
    Held,
    /// It is allowed.
    Passes,
    /// It is denied.
    Denied,
}

/// The approval that enough votes make.
fn approval(active: &ActiveCall, hold: &Hold) -> Option<Approval> {
    let asked = active.asked();
    Some(Approval {
        id: active.inner.ids.approval(active.inner.parts.clock.now()),
        tenant: asked.tenant.clone(),
        call: asked.id,
        votes: hold.votes.clone(),
        tool: asked.tool.clone(),
        key: asked.key,
        persona: asked.persona.clone(),
        policy: active.call.decision.as_ref()?.policy,
        terms: hold.proposal.as_ref()?.terms.clone(),
        given_at: active.inner.parts.clock.now(),
    })
}
