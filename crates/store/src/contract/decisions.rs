//! Decisions stay, with what was judged.

use std::sync::Arc;

use ringfence_types::{Json, Timestamp};

use super::samples::{AT, accepted, finished, in_state, new_decision, record, tenant};
use crate::{DecisionQuery, Error, KeptDecision, Record, Store, Version};

async fn by_time(store: &Arc<dyn Store>, query: DecisionQuery) -> Vec<KeptDecision> {
    store.decisions(query).await.expect("decisions")
}

/// A decision reads back whole, by its call and by its name, whether it is about a call or not.
pub async fn a_decision_reads_back_whole(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    let (first, second) = (new_decision(&call, AT), new_decision(&call, AT + 1));
    let decisions = vec![first.clone(), second.clone()];
    store.record(Record { decisions, ..record(&call, None) }).await.expect("a step");
    let found = store.decisions_of(Some(&tenant), call.asked.id).await.expect("decisions");
    let kept: Vec<_> = found.iter().map(|found| found.kept.clone()).collect();
    assert_eq!(kept, [first, second]);
    assert_eq!((&found[0].tenant, found[0].call), (&tenant, call.asked.id));
    assert_eq!(found[0].tool, call.asked.tool.name.as_str());
    let again = store.decision(Some(&tenant), found[1].id).await.expect("a decision");
    assert_eq!(again.as_ref(), Some(&found[1]));
    let (other, new) = (accepted(&tenant).asked.id, new_decision(&call, AT + 2));
    let id = store.add_decision(&tenant, "sandbox", other, new.clone()).await.expect("kept");
    let alone = store.decision(None, id).await.expect("a decision").expect("it is there");
    assert_eq!((alone.kept, alone.call, alone.tool.as_str()), (new, other, "sandbox"));
}

/// A refused record leaves no decision.
pub async fn a_decision_shares_the_commit_of_its_call(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    store.record(record(&call, None)).await.expect("a step");
    let decisions = vec![new_decision(&call, AT)];
    let stale = Record { decisions: decisions.clone(), ..record(&call, Some(Version(7))) };
    assert!(matches!(store.record(stale).await, Err(Error::Stale)));
    let of_call = || store.decisions_of(Some(&tenant), call.asked.id);
    assert_eq!(of_call().await.expect("decisions"), []);
    let last = in_state(&call, finished());
    let step = Record { decisions, ..record(&last, Some(Version(1))) };
    store.record(step).await.expect("a step");
    assert_eq!(of_call().await.expect("decisions").len(), 1);
}

/// A reader that follows by time finds each once, also those of one moment, and none outside the time.
pub async fn decisions_are_found_by_time_page_by_page(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let at = |offset: i64| Timestamp::from_micros(AT + offset);
    // Out of order, and several in one moment.
    for offset in [30, 10, 10, 20, 10, 40, 0] {
        let call = accepted(&tenant);
        let decisions = vec![new_decision(&call, AT + offset)];
        store.record(Record { decisions, ..record(&call, None) }).await.expect("a step");
    }
    let query = DecisionQuery {
        tenant: Some(tenant.clone()),
        since: Some(at(10)),
        until: Some(at(40)),
        limit: 2,
        ..DecisionQuery::default()
    };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = by_time(store, DecisionQuery { after, ..query.clone() }).await;
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some((last.kept.at, last.id));
        found.extend(page);
    }
    let times: Vec<_> = found.iter().map(|found| found.kept.at.as_micros() - AT).collect();
    assert_eq!(times, [10, 10, 10, 20, 30]);
    let tool =
        |name: &str| DecisionQuery { tool: Some(name.to_owned()), limit: 99, ..query.clone() };
    assert_eq!(by_time(store, tool("text.count")).await.len(), 5);
    assert_eq!(by_time(store, tool("other")).await, []);
}

/// Decisions about one tenant's calls look to another as if they did not exist.
pub async fn decisions_of_others_are_behind_a_wall(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let call = accepted(&theirs);
    let decisions = vec![new_decision(&call, AT)];
    store.record(Record { decisions, ..record(&call, None) }).await.expect("a step");
    let id = store.decisions_of(None, call.asked.id).await.expect("decisions")[0].id;
    for (tenant, expected) in [(&mine, 0), (&theirs, 1)] {
        let found = store.decisions_of(Some(tenant), call.asked.id).await.expect("decisions");
        assert_eq!(found.len(), expected);
        let found = store.decision(Some(tenant), id).await.expect("an answer");
        assert_eq!(usize::from(found.is_some()), expected);
        let tenant = Some(tenant.clone());
        let query = DecisionQuery { tenant, limit: 99, ..DecisionQuery::default() };
        assert_eq!(by_time(store, query).await.len(), expected);
    }
}

/// A step that says so replaces what was asked; any other leaves it alone.
pub async fn what_is_masked_replaces_what_was_asked(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut call = accepted(&tenant);
    store.record(record(&call, None)).await.expect("a step");
    let whole = call.asked.args.clone();
    call.asked.args = Json::parse(br#"{"text":"[redacted]"}"#).expect("valid JSON");
    for (seen, rewrite, expected) in [(1, false, &whole), (2, true, &call.asked.args)] {
        let step = Record { rewrite, ..record(&call, Some(Version(seen))) };
        store.record(step).await.expect("a step");
        let stored =
            store.call(&tenant, call.asked.id).await.expect("a call").expect("it is there");
        assert_eq!(&stored.call.asked.args, expected);
    }
}
