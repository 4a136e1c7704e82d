//! Deciding: the answer of policy about a call, the approval that applies to it, and the steps that
//! follow.
//!
//! In this file, in order:
//! 1. [`decide`], the stage of the pipeline;
//! 2. [`ask_policy`], the question itself: asked once, and once more with an approval;
//! 3. the steps of an [`ActiveCall`] that follow from an answer: decided, masked, held;
//! 4. [`Engine::decide_action`], for actions other than calls.

use std::sync::Arc;

use ringfence_ledger::Entry as LedgerEntry;
use ringfence_policy::{
    self as policy, Action, Approval as SeenApproval, Decided, Input, POLICY_UNAVAILABLE, Permit,
};
use ringfence_registry::Entry;
use ringfence_store::{ApprovalQuery, Error, NewDecision, Standing, Usable};
use ringfence_types::{
    Change, Decision, Digest, Event, FactKind, Hold, Json, Obligations, Presented, Reason, Redact,
    RedactRoot, Timestamp, ToolStatus, Verdict, shown,
};
use serde::Serialize;

use crate::{Engine, active_call::ActiveCall, lifecycle, runners, stage_spans::Stage};

/// Approvals that are compared with one call: those for its key, tool and place.
const MAX_APPROVALS: usize = 200;
/// Rule named when the key that made a call was revoked.
const KEY_REVOKED: &str = "key_revoked";
/// Rule named when the tool of a call is not active.
const TOOL_NOT_ACTIVE: &str = "tool_not_active";
/// Rule named, after those of policy, when a denied call is held.
const DENIAL_HELD: &str = "denial_held";
/// Engine named when no policy engine was asked.
const ENGINE_NAME: &str = "ringfence";

/// The permit of policy, and the approval that it depends on.
#[derive(Debug)]
pub(crate) struct Authorised {
    pub(crate) permit: Permit,
    pub(crate) by: Option<UsedApproval>,
}

/// The approval that made policy allow a call, and the answer without it.
#[derive(Debug)]
pub(crate) struct UsedApproval {
    pub(crate) approval: Standing,
    pub(crate) held: Box<Judgement>,
}

/// The answer of policy, with its document and the document's text.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    pub(crate) input: Input,
    pub(crate) document: String,
}

/// Result of asking policy about a call.
#[derive(Debug)]
pub(crate) enum PolicyOutcome {
    Allow(Box<Authorised>, Box<Judgement>),
    /// With the reasons why approvals meant for this call do not apply.
    Hold(Box<Judgement>, Vec<String>),
    Deny(Box<Judgement>),
}

/// Asks policy. Unless policy allows the call, the call is held or ends.
pub(crate) async fn decide(
    active: &mut ActiveCall,
    entry: &Entry,
) -> Result<Option<Authorised>, Error> {
    let answer = ask_policy(active, entry).await?;
    Ok(take_answer(active, answer))
}

/// Takes over an answer of policy.
pub(crate) fn take_answer(active: &mut ActiveCall, answer: PolicyOutcome) -> Option<Authorised> {
    let allowed = match answer {
        PolicyOutcome::Allow(allowed, judgement) => {
            active.decided(*judgement);
            Some(*allowed)
        }
        PolicyOutcome::Hold(judgement, changed) => {
            active.hold(*judgement, changed);
            None
        }
        PolicyOutcome::Deny(judgement) => {
            let event = Event::Deny(judgement.decision.reasons.clone());
            active.decided(*judgement);
            active.step(event);
            None
        }
    };
    active.end_stage(Stage::Decide);
    allowed
}

/// The document that policy decides about.
fn policy_input(active: &ActiveCall, entry: &Entry) -> Input {
    let asked = active.asked();
    let parts = &active.inner.parts;
    let mut input = Input::tool_execute(asked, &entry.tool, &asked.scopes, parts.clock.now());
    let runner = runners::of(entry);
    input.network = runner.network(entry, active.args());
    input.taint = active.call.taint();
    let tools = runner.tools(entry, active.args());
    input.tool.pure &= input.network.is_empty() && tools.is_empty();
    input.grants = entry.grants().map(|grants| grants.names()).unwrap_or_default();
    for granted in tools.into_iter().map(|tool| format!("tool:{tool}")) {
        if !input.grants.contains(&granted) {
            input.grants.push(granted);
        }
    }
    let secrets = runner.secrets(entry, active.args());
    input.secrets = secrets.into_values().map(|name| name.to_string()).collect();
    Input { args: active.args().clone(), action: runner.action(entry), ..input }
}

/// Asks policy, and once more with an approval if the first answer was to hold.
pub(crate) async fn ask_policy(active: &ActiveCall, entry: &Entry) -> Result<PolicyOutcome, Error> {
    let input = policy_input(active, entry);
    if is_without_maker(active).await? {
        let message = "the key that made the call was revoked while it waited".to_owned();
        return Ok(PolicyOutcome::Deny(Box::new(denial(active, input, KEY_REVOKED, message))));
    }
    if let Some(status) = lifecycle::withdrawn(&active.inner, entry).await? {
        let judgement = denial(active, input, TOOL_NOT_ACTIVE, not_active(entry, status));
        return Ok(PolicyOutcome::Deny(Box::new(judgement)));
    }
    let engine = active.inner.parts.policy.as_ref();
    let (decided, document) = policy::decide_documented(engine, &input).await;
    let judged = |decision| Box::new(Judgement { decision, input, document });
    match decided {
        Decided::Allow(permit, decision) => {
            Ok(PolicyOutcome::Allow(Box::new(Authorised { permit, by: None }), judged(decision)))
        }
        Decided::Deny(decision) if holds_denials(active) => {
            with_approval(active, judged(held_denial(decision))).await
        }
        Decided::Deny(decision) => Ok(PolicyOutcome::Deny(judged(decision))),
        // Without an answer the rules are unknown, so no approval can be bound to them.
        Decided::Hold(decision) if is_unavailable(&decision) => {
            Ok(PolicyOutcome::Hold(judged(decision), Vec::new()))
        }
        Decided::Hold(decision) => with_approval(active, judged(decision)).await,
    }
}

/// Whether denied calls of this tenant are held.
fn holds_denials(active: &ActiveCall) -> bool {
    active.inner.parts.settings.held_denials.has(&active.asked().tenant)
}

/// A denial as a hold, which says so. It gives no permit: the call runs only once policy allows it.
fn held_denial(decision: Decision) -> Decision {
    let message = "policy denies the call; denied calls of this tenant are held".to_owned();
    let reason = Reason { rule: DENIAL_HELD.to_owned(), message };
    let reasons = decision.reasons.into_iter().chain([reason]).collect();
    Decision { verdict: Verdict::Hold, reasons, ..decision }
}

/// Whether the key of a call that waited was revoked meanwhile. For a new call the edge has just
/// checked the key.
async fn is_without_maker(active: &ActiveCall) -> Result<bool, Error> {
    if active.call.hold().is_none() {
        return Ok(false);
    }
    let key = active.inner.parts.store.key(active.asked().key).await?;
    Ok(key.is_some_and(|key| key.revoked_at.is_some()))
}

fn not_active(entry: &Entry, status: ToolStatus) -> String {
    let (name, version) = (&entry.tool.name, &entry.tool.version);
    format!("tool `{name}` {version} is {status}, not active")
}

/// Ends a call whose tool was withdrawn since it was decided; whether it was.
pub(crate) async fn deny_withdrawn(active: &mut ActiveCall, entry: &Entry) -> Result<bool, Error> {
    let Some(status) = lifecycle::withdrawn(&active.inner, entry).await? else { return Ok(false) };
    let input = policy_input(active, entry);
    let judgement = denial(active, input, TOOL_NOT_ACTIVE, not_active(entry, status));
    let event = Event::Deny(judgement.decision.reasons.clone());
    active.decided(judgement);
    active.step(event);
    Ok(true)
}

/// Denial by the server itself; no rule is asked about it.
fn denial(active: &ActiveCall, input: Input, rule: &str, message: String) -> Judgement {
    let document = input.text();
    let decision = Decision {
        verdict: Verdict::Deny,
        reasons: vec![Reason { rule: rule.to_owned(), message }],
        obligations: Obligations::default(),
        approvals: None,
        approval: None,
        engine: ENGINE_NAME.to_owned(),
        policy: active.inner.parts.policy.revision(),
        input: Digest::of(document.as_bytes()),
        fail_open: false,
    };
    Judgement { decision, input, document }
}

pub(crate) fn is_unavailable(decision: &Decision) -> bool {
    decision.reasons.iter().any(|reason| reason.rule == POLICY_UNAVAILABLE)
}

async fn with_approval(active: &ActiveCall, held: Box<Judgement>) -> Result<PolicyOutcome, Error> {
    let now = active.inner.parts.clock.now();
    let mut changed = Vec::new();
    for standing in candidates(active, now).await? {
        let policy = held.decision.policy;
        let changes = standing.approval.changes(&presented(active, &standing, policy, now));
        if changes.is_empty() && !active.inner.parts.ledger.attests(&standing.approval).await? {
            // No server of ours wrote that row; go on with the others.
            let (call_id, approval) = (active.asked().id, standing.approval.id);
            tracing::error!(%call_id, %approval, "an approval is not what the ledger says: not used");
            let words = format!(
                "approval {approval} is not what the ledger says: stop the server and run \
                 `ringfence ledger repair`"
            );
            changed = vec![words];
            continue;
        }
        if changes.is_empty() {
            let approval = Some(SeenApproval::from(&standing.approval));
            let input = Input { approval, ..held.input.clone() };
            return Ok(second(active, input, held, standing).await);
        }
        // The newest comes first, and is the one people remember.
        if changed.is_empty() && is_meant(&changes) {
            changed = changes.iter().map(ToString::to_string).collect();
        }
    }
    Ok(PolicyOutcome::Hold(held, changed))
}

/// Whether an approval that does not apply was meant for this caller and place, so that the hold
/// should say why.
fn is_meant(changes: &[Change]) -> bool {
    let elsewhere = |change: &Change| {
        matches!(change, Change::Tenant | Change::Reach(_) | Change::Key | Change::Persona)
    };
    !changes.iter().any(elsewhere)
}

/// Approvals of the tenant for this tool that this call may use.
async fn candidates(active: &ActiveCall, now: Timestamp) -> Result<Vec<Standing>, Error> {
    let asked = active.asked();
    let mut query = ApprovalQuery {
        tenant: asked.tenant.clone(),
        tool: Some(asked.tool.name.clone()),
        usable_by: Some(Usable { key: asked.key, call: asked.id, session: asked.session.clone() }),
        // Expired ones are read only to say so, for a call that was approved before.
        live_at: active.call.hold().is_none_or(|hold| hold.votes.is_empty()).then_some(now),
        before: None,
        // A call that was cut off and runs again has its own use already.
        not_by: Some(asked.id),
        limit: MAX_APPROVALS,
    };
    let mut found = Vec::new();
    loop {
        let page = active.inner.parts.store.approvals(query.clone()).await?;
        found.extend(page.approvals);
        query.limit = MAX_APPROVALS - found.len().min(MAX_APPROVALS);
        query.before = page.next;
        if page.next.is_none() || query.limit == 0 {
            return Ok(found);
        }
    }
}

/// The call in the form that approvals are compared with.
fn presented<'a>(
    active: &'a ActiveCall,
    standing: &Standing,
    policy: Digest,
    now: Timestamp,
) -> Presented<'a> {
    let asked = active.asked();
    Presented {
        tenant: &asked.tenant,
        call: asked.id,
        session: asked.session.as_ref(),
        tool: asked.tool.digest,
        args: active.args(),
        args_digest: active.call.args_digest(),
        key: asked.key,
        persona: asked.persona.as_ref(),
        policy,
        now,
        used: standing.used,
        is_revoked: standing.revoked_at.is_some(),
        is_withdrawn: standing.is_withdrawn,
    }
}

/// Asks policy again with the approval. The answer counts only if it comes from the same policy.
async fn second(
    active: &ActiveCall,
    input: Input,
    held: Box<Judgement>,
    standing: Standing,
) -> PolicyOutcome {
    let engine = active.inner.parts.policy.as_ref();
    let (decided, document) = policy::decide_documented(engine, &input).await;
    let judged = |decision| Box::new(Judgement { decision, input, document });
    match decided {
        Decided::Allow(permit, decision) if decision.policy == standing.approval.policy => {
            let by = Some(UsedApproval { approval: standing, held });
            PolicyOutcome::Allow(Box::new(Authorised { permit, by }), judged(decision))
        }
        Decided::Deny(_) if holds_denials(active) => {
            let changed = "there is an approval, and the policy denies the call all the same";
            PolicyOutcome::Hold(held, vec![changed.to_owned()])
        }
        Decided::Deny(decision) => PolicyOutcome::Deny(judged(decision)),
        Decided::Hold(decision) if is_unavailable(&decision) => {
            PolicyOutcome::Hold(judged(decision), Vec::new())
        }
        Decided::Allow(..) => {
            let changed = "the policy changed while the call was judged".to_owned();
            PolicyOutcome::Hold(held, vec![changed])
        }
        Decided::Hold(_) => {
            let changed = "there is an approval, and the policy holds the call all the same";
            PolicyOutcome::Hold(held, vec![changed.to_owned()])
        }
    }
}

/// Fact about a call that was decided.
#[derive(Serialize)]
struct DecidedFact<'a> {
    policy: Digest,
    reasons: &'a [Reason],
    verdict: Verdict,
}

impl ActiveCall {
    /// Remembers the decision and its document. A repetition, for example when an approval is
    /// checked again, adds no second fact. Once a call is allowed, only the tool sees its masked
    /// arguments.
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
            // The receipt of a call that ends or runs includes the decision.
            if *verdict == Verdict::Hold {
                self.pending.entries.push(LedgerEntry::decision(self.about(), &decision));
            }
            self.note(FactKind::Decided, data);
            let kept = NewDecision { at: input.time, decision: decision.clone(), input: document };
            self.pending.decisions.push(kept);
        }
        Arc::make_mut(&mut self.call).decision = Some(decision);
    }

    /// Masks the arguments of the call, and returns the document with the masked ones.
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
        self.pending.rewrite = self.is_durable();
        document
    }

    /// Restores the arguments of a call that is no longer allowed: approvers must see them.
    pub(crate) fn unmask(&mut self) {
        let Some((asked, edited)) = self.truth.take() else { return };
        let call = Arc::make_mut(&mut self.call);
        call.asked.args = asked;
        if let (Some(of_call), Some(args)) = (&mut call.edited, edited) {
            of_call.args = args;
        }
        self.pending.rewrite = self.is_durable();
    }

    /// Holds the call, or leaves it unchanged if it is held for the same reasons already.
    pub(crate) fn hold(&mut self, judgement: Judgement, changed: Vec<String>) {
        self.unmask();
        let hold = park(self, &judgement.decision, changed);
        let same = |before: &Decision| before.policy == judgement.decision.policy;
        let is_known = self.call.decision.as_ref().is_some_and(same);
        if is_known && self.call.hold() == Some(&*hold) {
            return;
        }
        self.decided(judgement);
        self.step(Event::Hold(hold));
    }
}

/// Whether two decisions are equal; their documents may differ in time.
fn is_same(one: &Decision, other: &Decision) -> bool {
    one.verdict == other.verdict
        && one.policy == other.policy
        && one.reasons == other.reasons
        && one.approval == other.approval
}

/// The hold for a decision. Votes so far are kept if the call is still what the voters were shown;
/// otherwise the call is presented again.
fn park(active: &ActiveCall, decision: &Decision, changed: Vec<String>) -> Box<Hold> {
    let now = active.inner.parts.clock.now();
    let before = active.call.hold();
    let since = before.map_or(now, |hold| hold.since);
    let mut hold = Hold::new(
        decision.reasons.clone(),
        since,
        before.map_or_else(|| end(active, now), |hold| hold.expires_at),
        decision.approvals.unwrap_or(1),
    );
    hold.changed = changed;
    if let Some(before) = before {
        keep_votes(active, before, &mut hold);
    }
    Box::new(hold)
}

fn end(active: &ActiveCall, now: Timestamp) -> Timestamp {
    now.after(active.inner.parts.settings.hold_for)
}

fn keep_votes(active: &ActiveCall, before: &Hold, hold: &mut Hold) {
    if before.votes.is_empty() {
        return;
    }
    let is_whole = before.votes.len() >= before.needed as usize;
    let as_shown = before.proposal.as_ref().is_some_and(|p| p.shown == shown(&active.call));
    if as_shown && !is_whole {
        hold.proposal.clone_from(&before.proposal);
        hold.votes.clone_from(&before.votes);
    } else if hold.changed.is_empty() {
        let message = "what was approved is not what would run now: look again";
        hold.changed.push(message.to_owned());
    }
}

/// A decision on record.
#[derive(Debug)]
pub(crate) struct RecordedDecision {
    /// Id of the decision.
    pub(crate) id: u64,
    /// The decision.
    pub(crate) decided: Decided,
}

impl Engine {
    /// Asks policy about an action other than a call, and records the answer before returning it.
    pub(crate) async fn decide_action(&self, input: &Input) -> Result<RecordedDecision, Error> {
        let parts = &self.inner.parts;
        // Removing frees space.
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

    /// An id for an action other than a call.
    pub(crate) fn new_name(&self) -> ringfence_types::CallId {
        self.inner.ids.call(self.inner.parts.clock.now())
    }
}
