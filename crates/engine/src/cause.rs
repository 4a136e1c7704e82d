//! Calls that the server makes by itself: for another call, a plan, a conversation, a message.
//!
//! Such a call is a call like any other: policy decides about it, it may be held, it is recorded and
//! has a receipt. It differs in three things.
//! - **Once.** Its idempotency key is derived from what it is, so asking for it again finds the call
//!   that was made. Derived keys begin with a character that clients cannot send, and do not expire.
//! - **Place.** A child runs in the place of its parent (see [`Loan`]): it does not wait for a place
//!   that parents which wait for their children occupy.
//! - **End.** A child is cancelled when its parent is cancelled or ends.

use std::sync::{Arc, OnceLock};

use ringfence_store::CallQuery;
use ringfence_types::{
    CallId, Cause, Event, KeyId, MAX_DEPTH, PlanStep, Principal, State, Stopper, TurnRef,
    artifact_label as label, error_chain,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Engine, Refused, active_call::ActiveCall, engine::Inner, in_flight::InFlight, queue::Turn,
};

/// Children of one call that run at the same time; further ones wait.
const MAX_CHILDREN_AT_ONCE: usize = 8;

/// Calls below one call that a client asked for, running or waiting; further ones are refused.
const MAX_DESCENDANTS_AT_ONCE: usize = 64;

/// Asker of a call. All but the first are the server itself, with a derived idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// A client; the idempotency key is that of the request, if it has one.
    Client,
    /// A running call, for the `seq`-th time.
    Child {
        /// The running call.
        parent: CallId,
        /// Number of the call among those that the parent makes.
        seq: u64,
    },
    /// A plan that begins a step.
    Step {
        /// The call that runs the plan, if one does.
        parent: Option<CallId>,
        /// The step.
        step: PlanStep,
        /// Number of the attempt.
        attempt: u32,
    },
    /// A turn of a conversation.
    Turn(TurnRef),
    /// The start of an MCP server.
    Source {
        /// The server.
        server: String,
        /// Unique name of this step of the start.
        start: String,
    },
    /// A message on the bus.
    Bus {
        /// The topic.
        topic: String,
        /// The id of the message.
        event_id: String,
    },
}

/// Properties of a request that follow from its asker.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Identity that the call is made with.
    pub(crate) principal: Principal,
    pub(crate) cause: Option<Box<Cause>>,
    /// Labels of the sources of the parent's arguments, and of what its children gave it.
    pub(crate) taint: Vec<String>,
    /// The derived idempotency key.
    pub(crate) key: Option<String>,
    pub(crate) loan: Option<Loan>,
}

/// The right to run in the place of a parent.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) parent: Arc<InFlight>,
    /// Place of the topmost call; free again when the last call that runs in it is over.
    pub(crate) place: Arc<Turn>,
    pub(crate) children: Arc<Semaphore>,
    pub(crate) descendant: OwnedSemaphorePermit,
}

/// Counters of the calls that run in the place of a call.
#[derive(Debug)]
pub(crate) struct Loans {
    children: Arc<Semaphore>,
    /// Shared with all calls below the topmost one.
    descendants: Arc<Semaphore>,
}

impl By {
    fn parent(&self) -> Option<CallId> {
        match self {
            Self::Child { parent, .. } => Some(*parent),
            Self::Step { parent, .. } => *parent,
            Self::Client | Self::Turn(_) | Self::Source { .. } | Self::Bus { .. } => None,
        }
    }

    /// Derived key, equal for equal causes only: JSON text after a character that no client key
    /// has.
    fn key(&self) -> Option<String> {
        let parts = match self {
            Self::Client => return None,
            Self::Child { parent, seq } => serde_json::json!(["child", parent, seq]),
            Self::Step { step, attempt, .. } => {
                serde_json::json!(["step", step.plan, step.step, attempt])
            }
            Self::Turn(TurnRef { event, round, index }) => {
                serde_json::json!(["turn", event, round, index])
            }
            Self::Source { server, start } => serde_json::json!(["source", server, start]),
            Self::Bus { topic, event_id } => serde_json::json!(["bus", topic, event_id]),
        };
        Some(format!("\u{1}{parts}"))
    }

    fn cause(&self, depth: u8) -> Option<Box<Cause>> {
        let mut cause = Cause { parent: self.parent(), depth, ..Cause::default() };
        match self {
            Self::Client | Self::Bus { .. } => return None,
            Self::Child { .. } => {}
            Self::Step { step, .. } => cause.step = Some(step.clone()),
            Self::Turn(turn) => cause.turn = Some(turn.clone()),
            Self::Source { server, .. } => cause.source = Some(server.clone()),
        }
        Some(Box::new(cause))
    }
}

/// Finds the parent, if the request has one, and borrows its place.
pub(crate) fn origin(inner: &Inner, who: &Principal, by: &By) -> Result<Origin, Refused> {
    let key = by.key();
    let Some(id) = by.parent() else {
        let (principal, cause, taint) = (who.clone(), by.cause(0), Vec::new());
        return Ok(Origin { principal, cause, taint, key, loan: None });
    };
    let parent = inner.in_flight.get(id).ok_or(Refused::ParentNotRunning(id))?;
    let call = parent.now().call;
    let (asked, taint) = (call.asked.clone(), label::union(&call.taint(), &parent.learned()));
    if (asked.key, &asked.tenant) != (who.key, &who.tenant) {
        return Err(Refused::ParentNotRunning(id));
    }
    let depth = asked.cause.as_ref().map_or(0, |cause| cause.depth) + 1;
    if depth > MAX_DEPTH {
        return Err(Refused::TooDeep);
    }
    // The rights that the parent was accepted with, even if its key has changed since.
    let principal =
        Principal { persona: asked.persona.clone(), scopes: asked.scopes.clone(), ..who.clone() };
    let loan = parent.lend().ok_or(Refused::ParentNotRunning(id))??;
    Ok(Origin { principal, cause: by.cause(depth), taint, key, loan: Some(loan) })
}

impl InFlight {
    /// Lends the place that the call runs in. `None` unless the call runs and goes on running.
    fn lend(self: &Arc<Self>) -> Option<Result<Loan, Refused>> {
        let place = self.place().filter(|_| !self.is_cancelled())?;
        let loans = self.loans();
        let busy = Refused::Busy { retry_after: std::time::Duration::from_secs(1) };
        Some(match loans.descendants.clone().try_acquire_owned() {
            Ok(descendant) => {
                let (parent, children) = (self.clone(), loans.children.clone());
                Ok(Loan { parent, place, children, descendant })
            }
            Err(_) => Err(busy),
        })
    }

    fn loans(&self) -> &Loans {
        self.loans.get_or_init(|| Loans {
            children: Arc::new(Semaphore::new(MAX_CHILDREN_AT_ONCE)),
            descendants: match &self.parent {
                Some(parent) => parent.loans().descendants.clone(),
                None => Arc::new(Semaphore::new(MAX_DESCENDANTS_AT_ONCE)),
            },
        })
    }
}

/// Calls per read.
const CHILDREN_PER_READ: usize = 50;

/// Ends the held calls that a cancelled call made. Running ones see the cancellation by themselves.
pub(crate) async fn end_held_children(active: &ActiveCall) {
    let State::Cancelled { by } = active.call.state else { return };
    if active.in_flight().loans.get().is_none() {
        return;
    }
    let asked = active.asked();
    let mut query = CallQuery {
        tenant: asked.tenant.clone(),
        state: Some("held".to_owned()),
        tool: None,
        session: None,
        parent: Some(asked.id),
        before: None,
        limit: CHILDREN_PER_READ,
    };
    loop {
        let page = match active.inner.parts.store.calls(query.clone()).await {
            Ok(page) => page,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "held calls of a cancelled call are not ended");
                return;
            }
        };
        for stored in page.calls {
            let id = stored.call.asked.id;
            let mut child = ActiveCall::for_one_step(active.inner.clone(), stored);
            child.step(Event::Cancel(by));
            if let Err(error) = child.commit().await {
                let error = error_chain(&error);
                tracing::warn!(error, call_id = %id, "a held call of a cancelled call is not ended");
            }
        }
        query.before = page.next;
        if page.next.is_none() {
            return;
        }
    }
}

impl Engine {
    /// The principal for calls that a call in flight makes: its key, tenant, persona and scopes.
    pub fn principal_of(&self, parent: CallId) -> Option<Principal> {
        let seen = self.inner.in_flight.get(parent)?.now();
        let asked = &seen.call.asked;
        Some(Principal {
            key: asked.key,
            tenant: asked.tenant.clone(),
            persona: asked.persona.clone(),
            scopes: asked.scopes.clone(),
            label: String::new(),
            person: None,
        })
    }

    /// Cancels the calls of a revoked key with the calls those made, and rechecks held calls.
    pub fn key_revoked(&self, key: KeyId, by: KeyId) {
        for in_flight in self.inner.in_flight.all() {
            if in_flight.now().call.asked.key == key {
                in_flight.cancel(Stopper::Key(by));
            }
        }
        self.inner.rechecks.changed.notify_one();
    }
}

/// Set when the first child asks for a place; most calls have none.
pub(crate) type LoansOnce = OnceLock<Loans>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_names_one_thing_and_cannot_be_sent_by_a_client() {
        let step = |plan: &str, step: &str, attempt| By::Step {
            parent: None,
            step: PlanStep { plan: plan.to_owned(), step: step.to_owned() },
            attempt,
        };
        let turn =
            |event: &str, round, index| By::Turn(TurnRef { event: event.to_owned(), round, index });
        let bus = |topic: &str, id: &str| By::Bus { topic: topic.into(), event_id: id.into() };
        let child = |seq| By::Child { parent: CallId(uuid::Uuid::from_u128(1)), seq };
        let all = [
            child(1),
            child(2),
            step("a", "b", 1),
            step("a", "b", 11),
            step("a\",\"b", "", 1),
            step("a", "b\",1", 1),
            turn("a", 1, 11),
            turn("a", 11, 1),
            bus("a", "b"),
            bus("ab", ""),
        ];
        let keys: std::collections::BTreeSet<_> = all.iter().filter_map(By::key).collect();
        assert_eq!(keys.len(), all.len());
        assert!(keys.iter().all(|key| key.starts_with('\u{1}')));
        assert_eq!(By::Client.key(), None);
    }
}
