//! One call under way: its state, what became true and is not yet on record, and its record.

use std::sync::Arc;

use ringfence_store::{Error, Record, SessionEvent, Stored, Version};
use ringfence_types::{
    Asked, Call, Decision, Digest, Effect, Event, Fact, Json, Reason, Receipt, ToolName, ToolRef,
    Verdict,
};
use serde::Serialize;

use crate::{engine::Inner, laps::Laps, live::Live, record};

/// Owned by the one task that drives the call.
#[derive(Debug)]
pub(crate) struct Journey {
    pub(crate) inner: Arc<Inner>,
    /// Shared with whoever looks at it; a step changes a copy if somebody does.
    pub(crate) call: Arc<Call>,
    /// Of the newest record; none while the call is not on record.
    version: Option<Version>,
    /// Became true since.
    facts: Vec<Fact>,
    /// Bytes that the next record refers to.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// What the call adds to its session with the next record.
    pub(crate) session_events: Vec<SessionEvent>,
    live: Arc<Live>,
    /// Where the time went, if anybody records it.
    pub(crate) laps: Option<Box<Laps>>,
}

/// What is said of a call that was accepted.
#[derive(Serialize)]
struct Tool<'a> {
    digest: Digest,
    tool: &'a ToolName,
    version: &'a str,
}

/// What is said of a call that was decided.
#[derive(Serialize)]
struct Judged<'a> {
    policy: Digest,
    reasons: &'a [Reason],
    verdict: Verdict,
}

/// What goes with a record beside the call.
type Kept = (Vec<Fact>, Vec<Vec<u8>>, Vec<SessionEvent>);

impl Journey {
    /// A call that was just accepted.
    pub(crate) fn begin(inner: Arc<Inner>, call: Call) -> Self {
        let mut journey = Self::new(inner, call, None);
        let ToolRef { name, version, digest } = &journey.call.asked.tool;
        let data = Json::plain(&Tool { digest: *digest, tool: name, version });
        journey.note("call.accepted", data);
        journey
    }

    /// A call that an earlier process left behind.
    pub(crate) fn resume(inner: Arc<Inner>, stored: Stored) -> Self {
        Self::new(inner, stored.call, Some(stored.version))
    }

    fn new(inner: Arc<Inner>, call: Call, version: Option<Version>) -> Self {
        let call = Arc::new(call);
        let live = Arc::new(Live::new(call.clone()));
        if version.is_some() {
            live.show(call.clone(), true, false);
        }
        inner.lives.add(call.asked.id, live.clone());
        let (facts, blobs, session_events) = (Vec::new(), Vec::new(), Vec::new());
        let laps = Laps::of(&inner, &call.asked);
        Self { inner, call, version, facts, blobs, session_events, live, laps }
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        self.live.clone()
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.call.asked
    }

    /// Remembers what policy said.
    pub(crate) fn decided(&mut self, decision: Decision) {
        let Decision { verdict, reasons, policy, .. } = &decision;
        let data = Json::plain(&Judged { policy: *policy, reasons, verdict: *verdict });
        Arc::make_mut(&mut self.call).decision = Some(decision);
        self.note("call.decided", data);
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

    fn note(&mut self, kind: &str, data: Json) {
        let at = self.inner.parts.clock.now();
        self.facts.push(Fact { kind: kind.to_owned(), call: self.call.asked.id, at, data });
    }

    /// Puts everything that became true on record.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        let record = Record {
            call: self.call.clone(),
            seen: self.version,
            facts: std::mem::take(&mut self.facts),
            receipt: Receipt::of(&self.call),
            blobs: std::mem::take(&mut self.blobs),
            session_events: std::mem::take(&mut self.session_events),
        };
        self.version = Some(self.inner.parts.store.record(record).await?);
        let over = self.call.state.is_final()
            || matches!(self.call.state, ringfence_types::State::Held { .. });
        if over {
            // Before anybody learns of the end: whoever then uses the key finds the record.
            self.inner.lives.remove(&self.call);
        }
        self.live.show(self.call.clone(), true, over);
        Ok(())
    }

    /// A copy of what the next record takes with it, in case that record fails.
    pub(crate) fn keep(&self) -> Kept {
        (self.facts.clone(), self.blobs.clone(), self.session_events.clone())
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, (facts, blobs, session_events): Kept) {
        self.facts = facts;
        self.blobs = blobs;
        self.session_events = session_events;
    }

    /// Shows where the call stands without a record of it.
    pub(crate) fn show(&self) {
        self.live.show(self.call.clone(), self.version.is_some(), false);
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.version.is_some()
    }

    /// Gives up a call that could not be recorded.
    pub(crate) fn abandon(&self) {
        self.inner.lives.remove(&self.call);
        self.live.end();
    }
}
