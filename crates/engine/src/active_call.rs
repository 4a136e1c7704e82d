//! One call in flight: its state, its unrecorded changes, and its record.

use std::sync::Arc;

use ringfence_ledger::Entry;
use ringfence_store::{
    Error, LineageEdge, NewArtifact, NewDecision, Record, SessionEvent, Spend, Stored, Version,
};
use ringfence_types::{
    About, Approval, Asked, Call, Digest, Event, Fact, FactKind, Json, Receipt, ReceiptDetails,
    Redact, Sealed, ToolName, ToolRef,
};
use serde::Serialize;

use crate::{
    LedgerGuard, engine::Inner, hold::Recheck, in_flight::InFlight, record, stage_spans::StageSpans,
};

/// A call with what it owns while it runs; owned by the one task that drives it.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    pub(crate) inner: Arc<Inner>,
    /// Shared with readers; a step changes a copy while another reader holds it.
    pub(crate) call: Arc<Call>,
    /// Version of the newest record; none while the call is not on record.
    pub(crate) version: Option<Version>,
    /// Parts of the next record.
    pub(crate) pending: Pending,
    /// Whether the newest record is of a held call.
    was_held: bool,
    /// The arguments as they came and as an approver edited them, where those of the call are
    /// masked.
    pub(crate) truth: Option<(Json, Option<Json>)>,
    /// Details of its run for the receipt.
    pub(crate) details: ReceiptDetails,
    /// Memo key of its result, if the result is remembered.
    pub(crate) memo: Option<Digest>,
    in_flight: Arc<InFlight>,
    /// Times of its stages, if its trace is recorded.
    pub(crate) stage_spans: Option<Box<StageSpans>>,
}

/// Tool part of the fact about an accepted call.
#[derive(Serialize)]
struct Tool<'a> {
    digest: Digest,
    tool: &'a ToolName,
    version: &'a str,
}

/// Changes of a call since its newest record. A record that may fail is made from a copy, or the
/// value is cloned before and put back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    /// Facts since the newest record.
    pub(crate) facts: Vec<Fact>,
    /// Bytes that the record refers to.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// Events that the call adds to its session.
    pub(crate) session_events: Vec<SessionEvent>,
    /// An approval that the record gives.
    pub(crate) approval: Option<Approval>,
    /// The approval that the record uses.
    pub(crate) spends: Option<Spend>,
    /// Decisions of policy.
    pub(crate) decisions: Vec<NewDecision>,
    /// Whether an earlier record holds other arguments than the call has now.
    pub(crate) rewrite: bool,
    /// Artifacts of the call that ends.
    pub(crate) artifacts: Vec<NewArtifact>,
    /// Edges of the lineage.
    pub(crate) edges: Vec<LineageEdge>,
    /// Ledger entries beside the entry of a call that ends.
    pub(crate) entries: Vec<Entry>,
}

impl ActiveCall {
    /// A call that was just accepted.
    pub(crate) fn begin(inner: Arc<Inner>, call: Call, parent: Option<Arc<InFlight>>) -> Self {
        let mut active = Self::new(inner, call, None, parent);
        active.inner.in_flight.add(active.call.asked.id, active.in_flight());
        let ToolRef { name, version, digest } = &active.call.asked.tool;
        let data = Json::plain(&Tool { digest: *digest, tool: name, version });
        active.note(FactKind::Accepted, data);
        active
    }

    /// A stored call that continues.
    pub(crate) fn from_record(inner: Arc<Inner>, stored: Stored) -> Self {
        let parent = stored.call.asked.cause.as_ref().and_then(|cause| cause.parent);
        // If the call that made it still runs, it ends with that call.
        let parent = parent.and_then(|id| inner.in_flight.get(id));
        let active = Self::new(inner, stored.call, Some(stored.version), parent);
        active.inner.in_flight.add(active.call.asked.id, active.in_flight());
        active
    }

    /// A held call that takes one step and stays held; it is not listed as in flight.
    pub(crate) fn for_one_step(inner: Arc<Inner>, stored: Stored) -> Self {
        Self::new(inner, stored.call, Some(stored.version), None)
    }

    /// The same call, to continue from its newest record; none if it is in flight already.
    pub(crate) fn resume(&self) -> Option<Self> {
        let (inner, call) = (self.inner.clone(), Call::clone(&self.call));
        let version = self.version?;
        inner
            .in_flight
            .get(call.asked.id)
            .is_none()
            .then(|| Self::from_record(inner, Stored { call, version }))
    }

    fn new(
        inner: Arc<Inner>,
        call: Call,
        version: Option<Version>,
        parent: Option<Arc<InFlight>>,
    ) -> Self {
        let call = Arc::new(call);
        let in_flight = Arc::new(InFlight::new(call.clone(), parent));
        if version.is_some() {
            in_flight.show(call.clone(), true, false);
        }
        Self {
            stage_spans: StageSpans::of(&inner, &call.asked),
            was_held: version.is_some() && call.hold().is_some(),
            inner,
            call,
            version,
            pending: Pending::default(),
            truth: None,
            details: ReceiptDetails::default(),
            memo: None,
            in_flight,
        }
    }

    pub(crate) fn in_flight(&self) -> Arc<InFlight> {
        self.in_flight.clone()
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.call.asked
    }

    /// The unmasked arguments, for policy and for the runner.
    pub(crate) fn args(&self) -> &Json {
        match &self.truth {
            Some((asked, edited)) => edited.as_ref().unwrap_or(asked),
            None => self.call.args(),
        }
    }

    /// Masked fields of the call.
    pub(crate) fn redact(&self) -> Option<&Redact> {
        let decision = self.call.decision.as_ref();
        decision.map(|decision| &decision.obligations.redact).filter(|redact| !redact.is_empty())
    }

    /// Takes one step of the state machine, in memory.
    pub(crate) fn step(&mut self, event: Event) {
        let before = self.call.state.clone();
        match before.on(event) {
            Ok(state) => {
                let call = Arc::make_mut(&mut self.call);
                call.state = state;
                call.changed_at = self.inner.parts.clock.now();
                let (kind, data) = record::fact_of(&self.call);
                self.note(kind, data);
            }
            // Only a bug of ours gets here; the call stays where it was.
            Err(illegal) => tracing::error!(%illegal, "invalid step of a call"),
        }
    }

    pub(crate) fn note(&mut self, kind: FactKind, data: Json) {
        let at = self.inner.parts.clock.now();
        self.pending.facts.push(Fact { kind, call: self.call.asked.id, at, data });
    }

    /// Puts everything that became true on record.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        // A call that was checked and has not changed needs no record.
        if self.version.is_none() || !self.pending.facts.is_empty() {
            let inner = self.inner.clone();
            let guard = inner.parts.ledger.signing_guard().await;
            let record = self.record(&guard)?;
            self.version = Some(inner.parts.store.record(record).await?);
        }
        let over = self.call.state.is_final() || self.call.hold().is_some();
        if over {
            // Before the end is published: the next user of the key then finds the record.
            self.inner.in_flight.remove(&self.call, &self.in_flight);
        }
        if self.call.state.is_final() {
            drop(self.inner.sandboxes.attachments.take(self.call.asked.id));
        }
        self.tell_who_waits();
        self.in_flight.show(self.call.clone(), true, over);
        Ok(())
    }

    /// The next record. What is pending is part of it from here on.
    fn record(&mut self, guard: &LedgerGuard<'_>) -> Result<Record, Error> {
        let mut pending = std::mem::take(&mut self.pending);
        Ok(Record {
            entries: self.sealed(guard, std::mem::take(&mut pending.entries))?,
            memo: self.new_memo(),
            call: self.call.clone(),
            seen: self.version,
            facts: pending.facts,
            blobs: pending.blobs,
            session_events: pending.session_events,
            approval: pending.approval,
            spends: pending.spends,
            decisions: pending.decisions,
            rewrite: pending.rewrite,
            artifacts: pending.artifacts,
            edges: pending.edges,
        })
    }

    /// Updates the recheck queue and the number of held calls from the record.
    fn tell_who_waits(&mut self) {
        let id = self.call.asked.id;
        let is_held = self.call.hold().is_some();
        self.inner.metrics.held(i64::from(is_held) - i64::from(self.was_held));
        if let Some(hold) = self.call.hold() {
            let due = Recheck::from(self.call.as_ref());
            self.inner.rechecks.add(due, self.inner.parts.clock.now(), hold.expires_at);
        } else if self.was_held {
            self.inner.rechecks.remove(id);
        }
        self.was_held = is_held;
    }

    /// Subject of a ledger entry that is made now.
    pub(crate) fn about(&self) -> About {
        About::call(&self.call.asked, self.inner.parts.clock.now())
    }

    /// Signed entries for the ledger; signed here to keep the single writer thread free.
    fn sealed(&self, guard: &LedgerGuard<'_>, entries: Vec<Entry>) -> Result<Vec<Sealed>, Error> {
        let ending = Receipt::of(&self.call, self.details.clone()).map(Entry::call);
        let entries = entries.into_iter().chain(ending);
        entries.map(|entry| guard.seal_step(entry)).collect()
    }

    /// Publishes the state of the call without a record of it.
    pub(crate) fn show(&self) {
        self.in_flight.show(self.call.clone(), self.version.is_some(), false);
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.version.is_some()
    }

    /// Gives up a call that could not be recorded.
    pub(crate) fn abandon(&self) {
        self.inner.in_flight.remove(&self.call, &self.in_flight);
        self.in_flight.end();
    }
}
