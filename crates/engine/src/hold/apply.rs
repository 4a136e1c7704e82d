//! Asking policy, with the approval that applies, if one does.

use ringfence_policy::{
    self as policy, Approval as Seen, Decided, Input, POLICY_UNAVAILABLE, Permit,
};
use ringfence_store::{ApprovalQuery, Error, Standing, Usable};
use ringfence_types::{
    Change, Decision, Digest, Obligations, Presented, Reason, Timestamp, Verdict,
};

use crate::journey::Journey;

/// Most approvals that are held against one call: of those for its key, its tool and its place.
const MOST: usize = 200;
/// The rule that is named when a call has lost the key that made it.
const KEY_REVOKED: &str = "key_revoked";
/// The engine that is named when no engine was asked.
const OURSELVES: &str = "ringfence";

/// Policy's word, and the approval that it was given for.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) permit: Permit,
    pub(crate) by: Option<By>,
}

/// The approval that made policy allow a call, and what policy says without it.
#[derive(Debug)]
pub(crate) struct By {
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
pub(crate) enum Said {
    Allow(Box<Allowed>, Box<Judgement>),
    /// With why approvals that were meant for this call do not apply.
    Hold(Box<Judgement>, Vec<String>),
    Deny(Box<Judgement>),
}

/// Asks; and asks again with an approval if the first answer was to wait.
pub(crate) async fn allowed(journey: &Journey, input: Input) -> Result<Said, Error> {
    if is_without_maker(journey).await? {
        return Ok(Said::Deny(Box::new(without_maker(journey, input))));
    }
    let engine = journey.inner.parts.policy.as_ref();
    let (decided, document) = policy::decide_documented(engine, &input).await;
    let judged = |decision| Box::new(Judgement { decision, input, document });
    match decided {
        Decided::Allow(permit, decision) => {
            Ok(Said::Allow(Box::new(Allowed { permit, by: None }), judged(decision)))
        }
        Decided::Deny(decision) => Ok(Said::Deny(judged(decision))),
        // Nobody knows under which rules, so no approval can be for them.
        Decided::Hold(decision) if is_unavailable(&decision) => {
            Ok(Said::Hold(judged(decision), Vec::new()))
        }
        Decided::Hold(decision) => with_approval(journey, judged(decision)).await,
    }
}

/// Whether a call that waited was made by a key that was revoked meanwhile. Of a call that is new
/// the edge has just looked.
async fn is_without_maker(journey: &Journey) -> Result<bool, Error> {
    if journey.call.hold().is_none() {
        return Ok(false);
    }
    let key = journey.inner.parts.store.key(journey.asked().key).await?;
    Ok(key.is_some_and(|key| key.revoked_at.is_some()))
}

/// No rule needs to be asked about it: whoever revoked the key wants nothing more done by it.
fn without_maker(journey: &Journey, input: Input) -> Judgement {
    let message = "the key that made the call was revoked while it waited".to_owned();
    let document = input.text();
    let decision = Decision {
        verdict: Verdict::Deny,
        reasons: vec![Reason { rule: KEY_REVOKED.to_owned(), message }],
        obligations: Obligations::default(),
        approvals: None,
        approval: None,
        engine: OURSELVES.to_owned(),
        policy: journey.inner.parts.policy.revision(),
        input: Digest::of(document.as_bytes()),
        fail_open: false,
    };
    Judgement { decision, input, document }
}

pub(crate) fn is_unavailable(decision: &Decision) -> bool {
    decision.reasons.iter().any(|reason| reason.rule == POLICY_UNAVAILABLE)
}

async fn with_approval(journey: &Journey, held: Box<Judgement>) -> Result<Said, Error> {
    let now = journey.inner.parts.clock.now();
    let mut changed = Vec::new();
    for standing in candidates(journey, now).await? {
        let policy = held.decision.policy;
        let changes = standing.approval.changes(&presented(journey, &standing, policy, now));
        if changes.is_empty() && !journey.inner.parts.ledger.attests(&standing.approval).await? {
            // Whoever wrote that row, it was no server of ours; looking for others goes on.
            let (call_id, approval) = (journey.asked().id, standing.approval.id);
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
            return Ok(second(journey, input, held, standing).await);
        }
        // Of several the newest is what people remember; it came first.
        if changed.is_empty() && is_meant(&changes) {
            changed = changes.iter().map(ToString::to_string).collect();
        }
    }
    Ok(Said::Hold(held, changed))
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
async fn candidates(journey: &Journey, now: Timestamp) -> Result<Vec<Standing>, Error> {
    let asked = journey.asked();
    let mut query = ApprovalQuery {
        tenant: asked.tenant.clone(),
        tool: Some(asked.tool.name.clone()),
        usable_by: Some(Usable { key: asked.key, call: asked.id, session: asked.session.clone() }),
        // Those that are over are looked at only to say so, by a call that was approved before.
        live_at: journey.call.hold().is_none_or(|hold| hold.votes.is_empty()).then_some(now),
        before: None,
        // A call that was cut off and runs again has its own use already.
        not_by: Some(asked.id),
        limit: MOST,
    };
    let mut found = Vec::new();
    loop {
        let page = journey.inner.parts.store.approvals(query.clone()).await?;
        found.extend(page.approvals);
        query.limit = MOST - found.len().min(MOST);
        query.before = page.next;
        if page.next.is_none() || query.limit == 0 {
            return Ok(found);
        }
    }
}

/// The call as an approval is held against it.
fn presented<'a>(
    journey: &'a Journey,
    standing: &Standing,
    policy: Digest,
    now: Timestamp,
) -> Presented<'a> {
    let asked = journey.asked();
    Presented {
        tenant: &asked.tenant,
        call: asked.id,
        session: asked.session.as_ref(),
        tool: asked.tool.digest,
        args: journey.args(),
        args_digest: journey.call.args_digest(),
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
async fn second(journey: &Journey, input: Input, held: Box<Judgement>, standing: Standing) -> Said {
    let engine = journey.inner.parts.policy.as_ref();
    let (decided, document) = policy::decide_documented(engine, &input).await;
    let judged = |decision| Box::new(Judgement { decision, input, document });
    match decided {
        Decided::Allow(permit, decision) if decision.policy == standing.approval.policy => {
            let by = Some(By { approval: standing, held });
            Said::Allow(Box::new(Allowed { permit, by }), judged(decision))
        }
        Decided::Deny(decision) => Said::Deny(judged(decision)),
        Decided::Hold(decision) if is_unavailable(&decision) => {
            Said::Hold(judged(decision), Vec::new())
        }
        Decided::Allow(..) => {
            let changed = "the policy changed while the call was judged".to_owned();
            Said::Hold(held, vec![changed])
        }
        Decided::Hold(_) => {
            let changed = "there is an approval, and the policy holds the call all the same";
            Said::Hold(held, vec![changed.to_owned()])
        }
    }
}
