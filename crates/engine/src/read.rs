//! Reads: calls, outputs, receipts and facts of one tenant. Ids of other tenants are not found.

use std::{collections::VecDeque, fmt, str::FromStr, sync::Arc, time::Duration};

use ringfence_sandbox::Chunk;
use ringfence_store::{CallQuery, Error, FactQuery, Logged, Store};
use ringfence_types::{
    Call, CallId, Event, Fact, Principal, Receipt, RedactRoot, State, Stopper, Stream,
};
use tokio::sync::watch;

use crate::{Engine, Progress, active_call::ActiveCall, awaited::stands_still, engine::Inner};

/// One of a program's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Field of the `redact` obligation that masks the stream.
    pub(crate) const fn root(self) -> RedactRoot {
        match self {
            Self::Stdout => RedactRoot::Stdout,
            Self::Stderr => RedactRoot::Stderr,
        }
    }
}

/// A chunk of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Start of the chunk: the requested offset, or a later one if bytes were dropped.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the next chunk.
    pub next: u64,
    /// Whether the stream ends here.
    pub is_end: bool,
}

/// Maximum bytes of one chunk.
const MAX_CHUNK: usize = 1 << 20;

impl Engine {
    /// One call: the record, or the in-flight state if that is newer. A client that learnt of a
    /// fact finds the call in the state of that fact or later.
    pub async fn get(&self, who: &Principal, id: CallId) -> Result<Option<Arc<Call>>, Error> {
        let in_flight = self.inner.in_flight.get(id).map(|in_flight| in_flight.now());
        let in_flight =
            in_flight.filter(|seen| seen.durable && seen.call.asked.tenant == who.tenant);
        // A call of another tenant is looked up like a missing one, so that both take the same
        // time.
        let stored = self.inner.parts.store.call(&who.tenant, id).await?;
        Ok(match (stored, in_flight) {
            (Some(stored), Some(in_flight))
                if stored.call.changed_at >= in_flight.call.changed_at =>
            {
                Some(Arc::new(stored.call))
            }
            (_, Some(in_flight)) => Some(in_flight.call),
            (stored, None) => stored.map(|stored| Arc::new(stored.call)),
        })
    }

    /// One call once it has ended or is held, or its state after `timeout`.
    pub async fn wait_for(
        &self,
        who: &Principal,
        id: CallId,
        timeout: Duration,
    ) -> Result<Option<Arc<Call>>, Error> {
        if let Some(in_flight) = self.inner.in_flight.get(id)
            && in_flight.now().call.asked.tenant == who.tenant
        {
            let _ = tokio::time::timeout(timeout, in_flight.until(|seen| seen.over)).await;
            return self.get(who, id).await;
        }
        if timeout.is_zero() || !self.is_shared() {
            return self.get(who, id).await;
        }
        // Before the record is read, so that no step falls between the two.
        let mut awaited = self.inner.awaited.add(id);
        let call = self.get(who, id).await?;
        if call.as_ref().is_none_or(|call| stands_still(call)) {
            return Ok(call);
        }
        match tokio::time::timeout(timeout, awaited.stands_still()).await {
            Ok(Some(ended)) => Ok(Some(ended)),
            _ => self.get(who, id).await,
        }
    }

    /// Calls, newest first, and the start of the next page. A page may be short or empty without
    /// being the last. The tenant of the query is always the principal's.
    pub async fn list(
        &self,
        who: &Principal,
        query: CallQuery,
    ) -> Result<(Vec<Call>, Option<CallId>), Error> {
        let query = CallQuery { tenant: who.tenant.clone(), ..query };
        let page = self.inner.parts.store.calls(query).await?;
        Ok((page.calls.into_iter().map(|stored| stored.call).collect(), page.next))
    }

    /// Cancels a call and returns its state; `None` if there is no such call.
    pub async fn cancel(&self, who: &Principal, id: CallId) -> Result<Option<Arc<Call>>, Error> {
        let by = Stopper::Key(who.key);
        if let Some(in_flight) = self.inner.in_flight.get(id)
            && in_flight.now().call.asked.tenant == who.tenant
        {
            in_flight.cancel(by);
            let seen = in_flight.until(|seen| seen.over || is_cancelling(&seen.call)).await;
            let is_left_to_others = seen.over && !self.role().runs_calls();
            if !is_left_to_others || stands_still(&seen.call) {
                return Ok(Some(seen.call));
            }
        }
        let Some(stored) = self.inner.parts.store.call(&who.tenant, id).await? else {
            return Ok(None);
        };
        if is_elsewhere(&stored.call) {
            return self.cancel_queued(stored, by).await;
        }
        if !matches!(stored.call.state, State::Held { .. }) {
            return Ok(Some(Arc::new(stored.call)));
        }
        self.cancel_held(stored, by).await
    }

    /// Cancels a call that no worker has taken yet.
    async fn cancel_queued(
        &self,
        stored: ringfence_store::Stored,
        by: Stopper,
    ) -> Result<Option<Arc<Call>>, Error> {
        if !matches!(stored.call.state, State::Accepted) {
            return Err(Error::Elsewhere);
        }
        match self.cancel_held(stored, by).await {
            Err(Error::Stale) => Err(Error::Elsewhere),
            cancelled => cancelled,
        }
    }

    async fn cancel_held(
        &self,
        stored: ringfence_store::Stored,
        by: Stopper,
    ) -> Result<Option<Arc<Call>>, Error> {
        let mut active = ActiveCall::for_one_step(self.inner.clone(), stored);
        active.step(Event::Cancel(by));
        active.commit().await?;
        Ok(Some(active.call))
    }

    /// The receipt of a call that has ended.
    pub async fn receipt(&self, who: &Principal, id: CallId) -> Result<Option<Receipt>, Error> {
        self.inner.parts.store.receipt(&who.tenant, id).await
    }

    /// A chunk of a program's output; waits for more while the program runs. `None` if there is no
    /// such call.
    pub async fn output(
        &self,
        who: &Principal,
        id: CallId,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Option<OutputChunk>, Error> {
        let is_ours = self.inner.in_flight.get(id).is_some();
        if let Some(bytes) = live_output(&self.inner, who, id, stream, offset).await {
            return Ok(Some(bytes));
        }
        let Some(stored) = self.inner.parts.store.call(&who.tenant, id).await? else {
            return Ok(None);
        };
        if !is_ours && is_elsewhere(&stored.call) {
            return Err(Error::Elsewhere);
        }
        let redact = stored.call.decision.as_ref().map(|decision| &decision.obligations.redact);
        let kept = match &stored.call.state {
            // The blob may exist for another call with equal bytes; this call must not show it.
            _ if redact.is_some_and(|redact| redact.has(stream.root())) => Stream::default(),
            State::Finished(finished) => match stream {
                OutputStream::Stdout => finished.stdout.clone(),
                OutputStream::Stderr => finished.stderr.clone(),
            },
            _ => Stream::default(),
        };
        kept_output(self.inner.parts.store.as_ref(), kept, offset).await.map(Some)
    }

    /// The latest progress report of a running call's program, if it made one.
    pub fn progress(&self, who: &Principal, id: CallId) -> Option<Progress> {
        let in_flight = self.inner.in_flight.get(id)?;
        let is_own = in_flight.now().call.asked.tenant == who.tenant;
        in_flight.progress().filter(|_| is_own)
    }

    /// Facts as they are recorded, after the given one.
    pub fn follow(&self, who: &Principal, call: Option<CallId>, after: Option<FactId>) -> Follow {
        let store = self.inner.parts.store.clone();
        let newest = store.newest();
        let after = after.unwrap_or_default();
        Follow { store, newest, who: who.clone(), call, after, ready: VecDeque::new() }
    }

    /// Whether there are facts about a call after the given one.
    pub async fn has_facts_after(
        &self,
        who: &Principal,
        call: CallId,
        after: FactId,
    ) -> Result<bool, Error> {
        let query = FactQuery {
            tenant: Some(who.tenant.clone()),
            call: Some(call),
            after: after.position.saturating_sub(1),
            limit: 100,
        };
        let facts = self.inner.parts.store.facts(query).await?;
        let id = |logged: &Logged| FactId { position: logged.position, index: logged.index };
        Ok(facts.iter().any(|logged| id(logged) > after))
    }

    /// The newest fact, to begin with the facts after it.
    pub fn newest_fact(&self) -> FactId {
        FactId { position: *self.inner.parts.store.newest().borrow(), index: u32::MAX }
    }
}

/// Whether a call that this process does not drive is under way in another one.
fn is_elsewhere(call: &Call) -> bool {
    !call.state.is_final() && call.hold().is_none()
}

fn has_started(call: &Call) -> bool {
    !matches!(call.state, State::Accepted | State::Dispatched)
}

fn is_cancelling(call: &Call) -> bool {
    matches!(call.state, State::Cancelling { .. })
}

async fn live_output(
    inner: &Inner,
    who: &Principal,
    id: CallId,
    stream: OutputStream,
    offset: u64,
) -> Option<OutputChunk> {
    let in_flight = inner.in_flight.get(id)?;
    if in_flight.now().call.asked.tenant != who.tenant {
        return None;
    }
    // A program that has not started may still print.
    in_flight.until(|seen| seen.over || has_started(&seen.call)).await;
    let (stdout, stderr) = in_flight.outputs()?;
    let output = match stream {
        OutputStream::Stdout => stdout,
        OutputStream::Stderr => stderr,
    };
    Some(match output.read(offset, MAX_CHUNK).await {
        Chunk::Data(bytes) => {
            let next = offset + bytes.len() as u64;
            OutputChunk { offset, bytes, next, is_end: false }
        }
        Chunk::Gap { resume, .. } => {
            OutputChunk { offset: resume, bytes: Vec::new(), next: resume, is_end: false }
        }
        Chunk::End => OutputChunk { offset, bytes: Vec::new(), next: offset, is_end: true },
    })
}

/// A chunk of a stored stream. Offsets count written bytes; the stored stream may have a hole.
async fn kept_output(store: &dyn Store, kept: Stream, offset: u64) -> Result<OutputChunk, Error> {
    let end = |at| OutputChunk { offset: at, bytes: Vec::new(), next: at, is_end: true };
    let Some(digest) = kept.digest else { return Ok(end(offset)) };
    if offset >= kept.length {
        return Ok(end(offset));
    }
    let (hole, dropped) = kept.truncated.map_or((u64::MAX, 0), |t| (t.at, t.dropped));
    let offset = if (hole..hole.saturating_add(dropped)).contains(&offset) {
        hole + dropped
    } else {
        offset
    };
    let after_hole = offset >= hole.saturating_add(dropped) && hole != u64::MAX;
    let at = if after_hole { offset - dropped } else { offset };
    let most = if after_hole { MAX_CHUNK as u64 } else { (hole - offset).min(MAX_CHUNK as u64) };
    let bytes = store.blob(digest, at, most).await?.unwrap_or_default();
    let next = offset + bytes.len() as u64;
    Ok(OutputChunk { offset, next, is_end: next >= kept.length || bytes.is_empty(), bytes })
}

/// Id of a fact, in the order of facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FactId {
    /// Position of its commit.
    pub position: u64,
    /// Index within its commit.
    pub index: u32,
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position, self.index)
    }
}

/// A text that is not the id of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event id such as 17-0")]
pub struct InvalidFactId;

impl FromStr for FactId {
    type Err = InvalidFactId;

    fn from_str(text: &str) -> Result<Self, InvalidFactId> {
        let (position, index) = text.split_once('-').ok_or(InvalidFactId)?;
        let position = position.parse().map_err(|_| InvalidFactId)?;
        let index = index.parse().map_err(|_| InvalidFactId)?;
        Ok(Self { position, index })
    }
}

/// Facts as they are recorded.
#[derive(Debug)]
pub struct Follow {
    store: Arc<dyn Store>,
    newest: watch::Receiver<u64>,
    who: Principal,
    call: Option<CallId>,
    after: FactId,
    ready: VecDeque<Logged>,
}

/// Facts per read.
const FACTS_PER_READ: usize = 200;

impl Follow {
    /// The next fact; waits for it. Cancelling the wait loses nothing.
    pub async fn next(&mut self) -> Result<(FactId, Fact), Error> {
        loop {
            if let Some(logged) = self.ready.pop_front() {
                let id = FactId { position: logged.position, index: logged.index };
                self.after = id;
                return Ok((id, logged.fact));
            }
            self.newest.borrow_and_update();
            self.read().await?;
            if self.ready.is_empty() && self.newest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let query = FactQuery {
            tenant: Some(self.who.tenant.clone()),
            call: self.call,
            // More facts of the commit of `after` may be missing.
            after: self.after.position.saturating_sub(1),
            limit: FACTS_PER_READ,
        };
        let facts = self.store.facts(query).await?;
        let new = |logged: &Logged| {
            FactId { position: logged.position, index: logged.index } > self.after
        };
        self.ready = facts.into_iter().filter(new).collect();
        Ok(())
    }
}
