//! Comparison of a call's rows with its receipt: state, decision, and the fact of its end.

use ringfence_ledger::{Flaw, Place, Problem};
use ringfence_store::{FactQuery, KeptDecision, PAGE, Store};
use ringfence_types::{Decision, Digest, EntryKind, Receipt, RedactRoot, Verdict};

use super::verify::broken;
use crate::failure::Failure;

/// Compares the rows of a receipt's call; other entries have none. Whether the records of the call were erased.
pub(super) async fn compare(
    store: &dyn Store,
    index: u64,
    kind: EntryKind,
    predicate: &str,
) -> Result<bool, Failure> {
    if kind != EntryKind::Call {
        return Ok(false);
    }
    let flaw = |problem| broken("the record", &Flaw { place: Place::Entry(index), problem });
    let unreadable = |error| Failure::because("cannot read the records", &error);
    let receipt: Receipt = serde_json::from_str(predicate).map_err(|_| flaw(Problem::Statement))?;
    let stored = store.call(&receipt.tenant, receipt.call).await.map_err(unreadable)?;
    if stored.is_none() {
        let is_erased = ringfence_engine::ledger_is_erased(store, &receipt).await;
        if is_erased.map_err(unreadable)? {
            return Ok(true);
        }
    }
    if stored.is_none_or(|stored| stored.call.state.name() != receipt.state) {
        return Err(flaw(Problem::Kept("state of the call")));
    }
    let kept = store.decisions_of(None, receipt.call).await.map_err(unreadable)?;
    if kept.iter().any(|kept| !is_whole(kept))
        || !is_said(kept.last().map(|kept| &kept.kept.decision), receipt.decision.as_ref())
    {
        return Err(flaw(Problem::Kept("decision")));
    }
    let query = FactQuery { tenant: None, call: Some(receipt.call), after: 0, limit: PAGE };
    let facts = store.facts(query).await.map_err(unreadable)?;
    let end = format!("call.{}", receipt.state);
    // A page of facts may end before the last one.
    let is_told = facts.iter().any(|logged| logged.fact.kind.as_str() == end);
    if facts.len() < PAGE && !is_told {
        return Err(flaw(Problem::Kept("fact of its end")));
    }
    Ok(false)
}

/// Whether the stored document is the one that the decision names. A masked one is stored in part
/// only.
fn is_whole(kept: &KeptDecision) -> bool {
    let Decision { verdict, obligations, input, .. } = &kept.kept.decision;
    let is_masked = *verdict == Verdict::Allow && obligations.redact.has(RedactRoot::Args);
    is_masked || Digest::of(kept.kept.input.as_bytes()) == *input
}

/// Whether the stored decision matches the receipt. The document may be a later one that differs in
/// time only, and reasons may be shortened.
fn is_said(kept: Option<&Decision>, said: Option<&Decision>) -> bool {
    match (kept, said) {
        (Some(kept), Some(said)) => {
            (kept.verdict, kept.policy, kept.approval) == (said.verdict, said.policy, said.approval)
        }
        (None, None) => true,
        _ => false,
    }
}
