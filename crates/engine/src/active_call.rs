//! One call under way: its state, what became true and is not yet on record, and its record.

use std::sync::Arc;

use ringfence_ledger::Entry;
use ringfence_policy::Input;
use ringfence_store::{Error, NewDecision, Record, SessionEvent, Spend, Stored, Version};
use ringfence_types::{
    About, Approval, Asked, Call, Decision, Digest, Effect, Event, Fact, Json, Reason, Receipt,
    Redact, RedactRoot, Sealed, Seen, ToolName, ToolRef, Verdict,
};
use serde::Serialize;

use crate::{
    Pen,
    engine::Inner,
    hold::{Judgement, Mark, Recheck},
    in_flight::InFlight,
    record,
    stage_spans::StageSpans,
};

/// Owned by the one task that drives the call.
#[derive(Debug)]
pub(crate) struct ActiveCall {
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
    /// An approval that the next record gives.
    approval: Option<Approval>,
    /// The approval that the next record uses.
    spends: Option<Spend>,
    /// Whether the newest record is of a held call.
    was_held: bool,
    /// What policy said, for the next record.
    decisions: Vec<NewDecision>,
    /// The arguments as they came and as somebody changed them, where those of the call are masked.
    truth: Option<(Json, Option<Json>)>,
    /// Whether an earlier record holds other arguments than the call has now.
    rewrite: bool,
    /// What goes on the ledger with the next record, beside the entry of a call that ends.
    pub(crate) entries: Vec<Entry>,
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

/// What is said of a call that was decided.
#[derive(Serialize)]
struct DecidedFact<'a> {
    policy: Digest,
    reasons: &'a [Reason],
    verdict: Verdict,
}

/// What goes with a record beside the call.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    facts: Vec<Fact>,
    blobs: Vec<Vec<u8>>,
    session_events: Vec<SessionEvent>,
    decisions: Vec<NewDecision>,
    rewrite: bool,
    entries: Vec<Entry>,
}

impl ActiveCall {
    /// A call that was just accepted.
    pub(crate) fn begin(inner: Arc<Inner>, call: Call) -> Self {
        let mut active = Self::new(inner, call, None);
        active.inner.in_flight.add(active.call.asked.id, active.in_flight());
        let ToolRef { name, version, digest } = &active.call.asked.tool;
        let data = Json::plain(&Tool { digest: *digest, tool: name, version });
        active.note("call.accepted", data);
        active
    }

    /// A call that stood still and goes on.
    pub(crate) fn from_record(inner: Arc<Inner>, stored: Stored) -> Self {
        let active = Self::new(inner, stored.call, Some(stored.version));
        active.inner.in_flight.add(active.call.asked.id, active.in_flight());
        active
    }

    /// A held call that takes one step and stands still again; nobody sees it as under way.
    pub(crate) fn for_one_step(inner: Arc<Inner>, stored: Stored) -> Self {
        Self::new(inner, stored.call, Some(stored.version))
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

    fn new(inner: Arc<Inner>, call: Call, version: Option<Version>) -> Self {
        let call = Arc::new(call);
        let in_flight = Arc::new(InFlight::new(call.clone()));
        if version.is_some() {
            in_flight.show(call.clone(), true, false);
        }
        Self {
            stage_spans: StageSpans::of(&inner, &call.asked),
            was_held: version.is_some() && call.hold().is_some(),
            inner,
            call,
            version,
            facts: Vec::new(),
            blobs: Vec::new(),
            session_events: Vec::new(),
            approval: None,
            spends: None,
            decisions: Vec::new(),
            truth: None,
            rewrite: false,
            entries: Vec::new(),
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

    /// Remembers what policy said, and about which document. The same once more, for example when
    /// an approval is looked at again, is not told twice. Once a call is allowed, nobody but the
    /// tool sees what is to be masked of its arguments.
    pub(crate) fn decided(&mut self, judgement: Judgement) {
        let Judgement { decision, input, document } = judgement;
        let redact = &decision.obligations.redact;
        let masks = decision.verdict == Verdict::Allow && redact.has(RedactRoot::Args);
        let document = if masks { self.mask(redact, &input) } else { document };
        let is_new = self.call.decision.as_ref().is_none_or(|before| !is_same(before, &decision));
        if is_new {
            self.inner.metrics.decided(&self.call.asked, &decision);
            let Decision { verdict, reasons, policy, .. } = &decision;
            let data = Json::plain(&DecidedFact { policy: *policy, reasons, verdict: *verdict });
            // Of a call that ends or runs, the decision is part of its own entry.
            if *verdict == Verdict::Hold {
                self.entries.push(Entry::decision(self.about(), &decision));
            }
            self.note("call.decided", data);
            let kept = NewDecision { at: input.time, decision: decision.clone(), input: document };
            self.decisions.push(kept);
        }
        Arc::make_mut(&mut self.call).decision = Some(decision);
    }

    /// Masks the arguments of the call, and gives the document with those.
    fn mask(&mut self, redact: &Redact, input: &Input) -> String {
        let mask = |json: &Json| redact.apply(RedactRoot::Args, json);
        let document = Input { args: mask(&input.args), ..input.clone() }.text();
        let call = Arc::make_mut(&mut self.call);
        let edited = call.edited.as_ref().map(|edited| edited.args.clone());
        self.truth.get_or_insert_with(|| (call.asked.args.clone(), edited));
        call.asked.args = mask(&call.asked.args);
        if let Some(edited) = &mut call.edited {
            edited.args = mask(&edited.args);
        }
        self.rewrite = self.version.is_some();
        document
    }

    /// Takes the mask off a call that is not allowed any more: whoever decides about it must see
    /// what it is.
    pub(crate) fn unmask(&mut self) {
        let Some((asked, edited)) = self.truth.take() else { return };
        let call = Arc::make_mut(&mut self.call);
        call.asked.args = asked;
        if let (Some(of_call), Some(args)) = (&mut call.edited, edited) {
            of_call.args = args;
        }
        self.rewrite = self.version.is_some();
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

    pub(crate) fn note(&mut self, kind: &str, data: Json) {
        let at = self.inner.parts.clock.now();
        self.facts.push(Fact { kind: kind.to_owned(), call: self.call.asked.id, at, data });
    }

    /// Puts everything that became true on record.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        // One that was looked at and stays as it was needs no record.
        if self.version.is_none() || !self.facts.is_empty() {
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
        self.tell_who_waits();
        self.in_flight.show(self.call.clone(), true, over);
        Ok(())
    }

    fn record(&mut self, pen: &Pen<'_>) -> Result<Record, Error> {
        Ok(Record {
            entries: self.sealed(pen)?,
            memo: self.new_memo(),
            call: self.call.clone(),
            seen: self.version,
            facts: std::mem::take(&mut self.facts),
            blobs: std::mem::take(&mut self.blobs),
            session_events: std::mem::take(&mut self.session_events),
            approval: self.approval.take(),
            spends: self.spends.take(),
            decisions: std::mem::take(&mut self.decisions),
            rewrite: std::mem::take(&mut self.rewrite),
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
    fn sealed(&mut self, pen: &Pen<'_>) -> Result<Vec<Sealed>, Error> {
        let ending = Receipt::of(&self.call, self.seen.clone()).map(Entry::call);
        let entries = std::mem::take(&mut self.entries).into_iter().chain(ending);
        entries.map(|entry| self.inner.parts.ledger.seal_step(pen, entry)).collect()
    }

    /// A copy of what the next record takes with it, in case that record fails.
    pub(crate) fn keep(&self) -> Kept {
        Kept {
            facts: self.facts.clone(),
            blobs: self.blobs.clone(),
            session_events: self.session_events.clone(),
            decisions: self.decisions.clone(),
            rewrite: self.rewrite,
            entries: self.entries.clone(),
        }
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, kept: Kept) {
        self.facts = kept.facts;
        self.blobs = kept.blobs;
        self.session_events = kept.session_events;
        self.decisions = kept.decisions;
        self.rewrite = kept.rewrite;
        self.entries = kept.entries;
    }

    /// Gives an approval with the next record.
    pub(crate) fn set_approval(&mut self, approval: Option<Approval>) {
        self.approval = approval;
    }

    /// Uses an approval with the next record.
    pub(crate) fn set_spend(&mut self, spend: Spend) {
        self.spends = Some(spend);
    }

    /// Where the call stands, to come back to.
    pub(crate) fn mark(&self) -> Mark {
        (self.call.clone(), self.keep())
    }

    /// Comes back, after a record that failed.
    pub(crate) fn rewind(&mut self, (call, kept): Mark) {
        self.call = call;
        self.put_back(kept);
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

/// Whether two decisions say the same, of documents that may differ in their time.
fn is_same(one: &Decision, other: &Decision) -> bool {
    one.verdict == other.verdict
        && one.policy == other.policy
        && one.reasons == other.reasons
        && one.approval == other.approval
}
