//! Asking policy, with the approval that applies, if one does.

use ringfence_policy::{
    self as policy, Approval as Seen, Decided, Input, POLICY_UNAVAILABLE, Permit,
};
use ringfence_store::{ApprovalQuery, Error, Standing, Usable};
use ringfence_types::{
    Change, Decision, Digest, Obligations, Presented, Reason, Timestamp, Verdict,
};

use crate::active_call::ActiveCall;

/// Most approvals that are held against one call: of those for its key, its tool and its place.
const MAX_APPROVALS: usize = 200;
/// The rule that is named when a call has lost the key that made it.
const KEY_REVOKED: &str = "key_revoked";
/// The engine that is named when no engine was asked.
const OURSELVES: &str = "ringfence";

/// Policy's word, and the approval that it was given for.
#[derive(Debug)]
pub(crate) struct Authorised {
    pub(crate) permit: Permit,
    pub(crate) by: Option<UsedApproval>,
}

/// The approval that made policy allow a call, and what policy says without it.
#[derive(Debug)]
pub(crate) struct UsedApproval {
    pub(crate) approval: Standing,
    pub(crate) held: Box<Judgement>,
}

/// What policy said, of which document, and its text.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    pub(crate) input: Input,
    pub(crate) document: String,
}

/// What policy says of a call.
#[derive(Debug)]
pub(crate) enum PolicyOutcome {
    Allow(Box<Authorised>, Box<Judgement>),
    /// With why approvals that were meant for this call do not apply.
    Hold(Box<Judgement>, Vec<String>),
    Deny(Box<Judgement>),
}

/// Asks; and asks again with an approval if the first answer was to wait.
pub(crate) async fn ask_policy(active: &ActiveCall, input: Input) -> Result<PolicyOutcome, Error> {
    if is_without_maker(active).await? {
        return Ok(PolicyOutcome::Deny(Box::new(without_maker(active, input))));
    }
    let engine = active.inner.parts.policy.as_ref();
    let (decided, document) = policy::decide_documented(engine, &input).await;
    let judged = |decision| Box::new(Judgement { decision, input, document });
    match decided {
        Decided::Allow(permit, decision) => {
            Ok(PolicyOutcome::Allow(Box::new(Authorised { permit, by: None }), judged(decision)))
        }
        Decided::Deny(decision) => Ok(PolicyOutcome::Deny(judged(decision))),
        // Nobody knows under which rules, so no approval can be for them.
        Decided::Hold(decision) if is_unavailable(&decision) => {
            Ok(PolicyOutcome::Hold(judged(decision), Vec::new()))
        }
        Decided::Hold(decision) => with_approval(active, judged(decision)).await,
    }
}

/// Whether a call that waited was made by a key that was revoked meanwhile. Of a call that is new
/// the edge has just looked.
async fn is_without_maker(active: &ActiveCall) -> Result<bool, Error> {
    if active.call.hold().is_none() {
        return Ok(false);
    }
    let key = active.inner.parts.store.key(active.asked().key).await?;
    Ok(key.is_some_and(|key| key.revoked_at.is_some()))
}

/// No rule needs to be asked about it: whoever revoked the key wants nothing more done by it.
fn without_maker(active: &ActiveCall, input: Input) -> Judgement {
    let message = "the key that made the call was revoked while it waited".to_owned();
    let document = input.text();
    let decision = Decision {
        verdict: Verdict::Deny,
        reasons: vec![Reason { rule: KEY_REVOKED.to_owned(), message }],
        obligations: Obligations::default(),
        approvals: None,
        approval: None,
        engine: OURSELVES.to_owned(),
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
            // Whoever wrote that row, it was no server of ours; looking for others goes on.
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
            let approval = Some(Seen::from(&standing.approval));
            let input = Input { approval, ..held.input.clone() };
            return Ok(second(active, input, held, standing).await);
        }
        // Of several the newest is what people remember; it came first.
        if changed.is_empty() && is_meant(&changes) {
            changed = changes.iter().map(ToString::to_string).collect();
        }
    }
    Ok(PolicyOutcome::Hold(held, changed))
}

/// Whether an approval that does not apply was meant for this caller and place, so that whoever
/// looks at the hold wants to know why.
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
        // Those that are over are looked at only to say so, by a call that was approved before.
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

/// The call as an approval is held against it.
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

/// Policy looks at the approval. What it says stands only if it is the same policy.
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
