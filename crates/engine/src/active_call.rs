//! One call under way: its state, what became true and is not yet on record, and its record.

use std::sync::Arc;

use ringfence_ledger::Entry;
use ringfence_store::{Error, NewDecision, Record, SessionEvent, Spend, Stored, Version};
use ringfence_types::{
    About, Approval, Asked, Call, Digest, Effect, Event, Fact, FactKind, Json, Receipt, Redact,
    Sealed, Seen, ToolName, ToolRef,
};
use serde::Serialize;

use crate::{
    Pen, engine::Inner, hold::Recheck, in_flight::InFlight, record, stage_spans::StageSpans,
};

/// Owned by the one task that drives the call.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    pub(crate) inner: Arc<Inner>,
    /// Shared with whoever looks at it; a step changes a copy if somebody does.
    pub(crate) call: Arc<Call>,
    /// Of the newest record; none while the call is not on record.
    pub(crate) version: Option<Version>,
    /// What the next record takes with it.
    pub(crate) pending: Pending,
    /// Whether the newest record is of a held call.
    was_held: bool,
    /// The arguments as they came and as somebody changed them, where those of the call are masked.
    pub(crate) truth: Option<(Json, Option<Json>)>,
    /// What its run showed that only its receipt tells.
    pub(crate) seen: Seen,
    /// Under which key its result is remembered, if it is.
    pub(crate) memo: Option<Digest>,
    in_flight: Arc<InFlight>,
    /// Where the time went, if anybody records it.
    pub(crate) stage_spans: Option<Box<StageSpans>>,
}

/// What is said of a call that was accepted.
#[derive(Serialize)]
struct Tool<'a> {
    digest: Digest,
    tool: &'a ToolName,
    version: &'a str,
}

/// What became true of a call since its newest record. A record that may fail is made from a copy, or
/// the value is cloned before and put back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    /// What became true.
    pub(crate) facts: Vec<Fact>,
    /// Bytes that the record refers to.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// What the call adds to its session.
    pub(crate) session_events: Vec<SessionEvent>,
    /// An approval that the record gives.
    pub(crate) approval: Option<Approval>,
    /// The approval that the record uses.
    pub(crate) spends: Option<Spend>,
    /// What policy said.
    pub(crate) decisions: Vec<NewDecision>,
    /// Whether an earlier record holds other arguments than the call has now.
    pub(crate) rewrite: bool,
    /// What goes on the ledger, beside the entry of a call that ends.
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

    /// A call that stood still and goes on.
    pub(crate) fn from_record(inner: Arc<Inner>, stored: Stored) -> Self {
        let parent = stored.call.asked.cause.as_ref().and_then(|cause| cause.parent);
        // If the call that made it still runs, it ends with that call.
        let parent = parent.and_then(|id| inner.in_flight.get(id));
        let active = Self::new(inner, stored.call, Some(stored.version), parent);
        active.inner.in_flight.add(active.call.asked.id, active.in_flight());
        active
    }

    /// A held call that takes one step and stands still again; nobody sees it as under way.
    pub(crate) fn for_one_step(inner: Arc<Inner>, stored: Stored) -> Self {
        Self::new(inner, stored.call, Some(stored.version), None)
    }

    /// The same call, to go on from its newest record; none if it is under way already.
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
            seen: Seen::default(),
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

    /// The arguments that it runs with, for policy and for whatever runs.
    pub(crate) fn args(&self) -> &Json {
        match &self.truth {
            Some((asked, edited)) => edited.as_ref().unwrap_or(asked),
            None => self.call.args(),
        }
    }

    /// What is masked of the call.
    pub(crate) fn redact(&self) -> Option<&Redact> {
        let decision = self.call.decision.as_ref();
        decision.map(|decision| &decision.obligations.redact).filter(|redact| !redact.is_empty())
    }

    /// Takes one step of the state machine, in memory.
    pub(crate) fn step(&mut self, event: Event) -> Effect {
        let before = self.call.state.clone();
        match before.on(event) {
            Ok((state, effect)) => {
                let call = Arc::make_mut(&mut self.call);
                call.state = state;
                call.changed_at = self.inner.parts.clock.now();
                let (kind, data) = record::fact_of(&self.call);
                self.note(kind, data);
                effect
            }
            Err(illegal) => {
                // Only a mistake of ours gets here; the call stays where it was.
                tracing::error!(%illegal, "an impossible step");
                Effect::Nothing
            }
        }
    }

    pub(crate) fn note(&mut self, kind: FactKind, data: Json) {
        let at = self.inner.parts.clock.now();
        self.pending.facts.push(Fact { kind, call: self.call.asked.id, at, data });
    }

    /// Puts everything that became true on record.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        // One that was looked at and stays as it was needs no record.
        if self.version.is_none() || !self.pending.facts.is_empty() {
            let inner = self.inner.clone();
            let pen = inner.parts.ledger.pen().await;
            let record = self.record(&pen)?;
            self.version = Some(inner.parts.store.record(record).await?);
        }
        let over = self.call.state.is_final() || self.call.hold().is_some();
        if over {
            // Before anybody learns of the end: whoever then uses the key finds the record.
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
    fn record(&mut self, pen: &Pen<'_>) -> Result<Record, Error> {
        let mut pending = std::mem::take(&mut self.pending);
        Ok(Record {
            entries: self.sealed(pen, std::mem::take(&mut pending.entries))?,
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
        })
    }

    /// Keeps the list of held calls, and their number, as they are on record.
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

    /// Whom and what an entry concerns that is made now.
    pub(crate) fn about(&self) -> About {
        About::call(&self.call.asked, self.inner.parts.clock.now())
    }

    /// What goes on the ledger; made here, because the one writer has no time for it.
    fn sealed(&self, pen: &Pen<'_>, entries: Vec<Entry>) -> Result<Vec<Sealed>, Error> {
        let ending = Receipt::of(&self.call, self.seen.clone()).map(Entry::call);
        let entries = entries.into_iter().chain(ending);
        entries.map(|entry| pen.seal_step(entry)).collect()
    }

    /// Shows where the call stands without a record of it.
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
