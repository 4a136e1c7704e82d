//! From a decision to a hold.

use ringfence_types::{Decision, Hold, Timestamp, shown};

use crate::active_call::ActiveCall;

/// The hold that a decision puts a call in. What people have done with it so far is kept if the
/// call is still what they were shown; otherwise it is presented to them again.
pub(crate) fn park(active: &ActiveCall, decision: &Decision, changed: Vec<String>) -> Box<Hold> {
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
