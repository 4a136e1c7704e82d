//! Processes that share the store: how they find each other, and what each has in memory alone.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_sandbox::session::{Session, SessionId};
use ringfence_store::{Error, Process, ProcessInfo, ProcessRole};
use ringfence_types::{CallId, Digest, Principal, TenantId};

use crate::{Engine, engine::Inner, runners::builtin};

/// Something that one process alone has in memory while it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owned {
    /// A call under way, or a held one that belongs to a session sandbox.
    Call(CallId),
    /// A session sandbox.
    Sandbox(SessionId),
    /// A session sandbox that is to be made.
    NewSandbox,
}

/// Address of this process for others, once it is known; and what was last seen of them.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    address: Mutex<Option<String>>,
    /// Counts requests that any worker may answer: workers take turns.
    turns: AtomicUsize,
    /// Time of the last look, and the number of others whose rules differ.
    differing: tokio::sync::Mutex<Option<(Instant, usize)>>,
}

/// Time for which all probes share a look at the other processes.
const LOOK_LIFETIME: Duration = Duration::from_secs(1);

impl Engine {
    /// Whether other processes may use the store at the same time.
    pub fn is_shared(&self) -> bool {
        self.inner.parts.store.is_shared()
    }

    /// Tells other processes the URL at which they reach this one.
    pub async fn advertise(&self, address: String) -> Result<(), Error> {
        let advertised = &self.inner.neighbours.address;
        *advertised.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        describe(&self.inner).await
    }

    /// Living processes on the store, oldest first.
    pub async fn processes(&self) -> Result<Vec<Process>, Error> {
        self.inner.parts.store.processes().await
    }

    /// Number of other processes whose rules differ from those of this one. Looks once per second at most,
    /// however many clients ask: probes need no key.
    pub async fn differing_policies(&self) -> Result<usize, Error> {
        if !self.is_shared() {
            return Ok(0);
        }
        let mut last = self.inner.neighbours.differing.lock().await;
        if let Some((_, count)) = last.filter(|(at, _)| at.elapsed() < LOOK_LIFETIME) {
            return Ok(count);
        }
        let count = self.count_differing().await?;
        *last = Some((Instant::now(), count));
        Ok(count)
    }

    async fn count_differing(&self) -> Result<usize, Error> {
        let own = self.policy_revision();
        let others = self.processes().await?;
        let differs = |policy: Option<Digest>| policy.is_some_and(|policy| policy != own);
        Ok(others.iter().filter(|other| !other.is_own && differs(other.info.policy)).count())
    }

    /// Another process that has this in memory; none if a request about it is for this process.
    pub async fn owner_elsewhere(
        &self,
        who: &Principal,
        owned: &Owned,
    ) -> Result<Option<Process>, Error> {
        let inner = &self.inner;
        match owned {
            _ if !self.is_shared() => Ok(None),
            Owned::NewSandbox if self.role().runs_calls() => Ok(None),
            Owned::NewSandbox => self.any_worker().await,
            Owned::Call(id) if inner.in_flight.get(*id).is_some() => Ok(None),
            Owned::Sandbox(id) if inner.sandbox_of(&who.tenant, id).is_some() => Ok(None),
            Owned::Call(id) => {
                let owner = inner.parts.store.owner_of_call(&who.tenant, *id).await?;
                match owner {
                    Some(owner) => Ok(Some(owner)),
                    None => self.owner_of_held(&who.tenant, *id).await,
                }
            }
            Owned::Sandbox(id) => {
                inner.parts.store.owner_of_sandbox(&who.tenant, id.as_str()).await
            }
        }
    }

    /// Part of the work that this process does.
    pub fn role(&self) -> ProcessRole {
        self.inner.parts.settings.role
    }

    /// One of the processes that run calls and can be reached.
    async fn any_worker(&self) -> Result<Option<Process>, Error> {
        let mut workers = self.processes().await?;
        workers.retain(|process| process.info.role.runs_calls() && process.info.address.is_some());
        if workers.is_empty() {
            return Ok(None);
        }
        let turn = self.inner.neighbours.turns.fetch_add(1, Ordering::Relaxed) % workers.len();
        Ok(Some(workers.swap_remove(turn)))
    }

    /// Another process that has the session sandbox of a held call.
    async fn owner_of_held(&self, tenant: &TenantId, id: CallId) -> Result<Option<Process>, Error> {
        let store = &self.inner.parts.store;
        let stored = store.call(tenant, id).await?.filter(|stored| stored.call.hold().is_some());
        let sandbox = stored.and_then(|stored| builtin::session_of(&stored.call));
        match sandbox {
            Some(sandbox) => store.owner_of_sandbox(tenant, &sandbox).await,
            None => Ok(None),
        }
    }
}

impl Inner {
    /// Makes a session sandbox known to other processes until it ends.
    pub(crate) async fn share_sandbox(self: &Arc<Self>, session: &Session, tenant: &TenantId) {
        if !self.parts.store.is_shared() {
            return;
        }
        let (inner, session) = (self.clone(), session.clone());
        let id = session.id().as_str();
        if let Err(error) = self.parts.store.add_sandbox(tenant, id).await {
            let error = ringfence_types::error_chain(&error);
            tracing::warn!(error, "a session sandbox is known to this process alone");
        }
        self.tasks.spawn(async move {
            tokio::select! {
                _ = session.ended() => {}
                // The rows of a process go with it.
                () = inner.stopping.cancelled() => return,
            }
            if let Err(error) = inner.parts.store.remove_sandbox(session.id().as_str()).await {
                let error = ringfence_types::error_chain(&error);
                tracing::warn!(error, "the end of a session sandbox is not known to others");
            }
        });
    }
}

async fn describe(inner: &Inner) -> Result<(), Error> {
    let advertised = &inner.neighbours.address;
    let address = advertised.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let info = ProcessInfo {
        address,
        role: inner.parts.settings.role,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy: Some(inner.parts.policy.revision()),
    };
    inner.parts.store.describe(info).await
}

/// Tells other processes when the rules of this one change, until the engine stops.
pub(crate) async fn follow_policy(inner: Arc<Inner>) {
    let mut rules = inner.parts.policy.changed();
    loop {
        if let Err(error) = describe(&inner).await {
            let error = ringfence_types::error_chain(&error);
            tracing::warn!(error, "other processes do not know the rules of this one");
        }
        let changed = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = rules.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
