//! Lists of calls, their bounds and their walls.

use std::sync::Arc;

use ringfence_types::{Call, CallId, Cause, State, TenantId};

use super::{
    calls::put,
    samples::{accepted, finished, held, in_state, record, tenant, tool},
};
use crate::{CallQuery, FactQuery, PAGE, Store};

fn all_of(tenant: &TenantId) -> CallQuery {
    let tenant = tenant.clone();
    CallQuery {
        tenant,
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 99,
    }
}

async fn ids(store: &Arc<dyn Store>, query: CallQuery) -> Vec<CallId> {
    let found = store.calls(query).await.expect("calls").calls;
    found.into_iter().map(|stored| stored.call.asked.id).collect()
}

pub(super) async fn several(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    count: usize,
) -> Vec<CallId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let call = accepted(tenant);
        put(store, &call, None).await;
        ids.push(call.asked.id);
    }
    ids.sort_unstable();
    ids
}

/// Calls come newest first, and `before` continues where a page ended.
pub async fn calls_are_listed_newest_first_page_by_page(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut expected = several(store, &tenant, 7).await;
    expected.reverse();
    assert_eq!(ids(store, all_of(&tenant)).await, expected);
    let mut found = Vec::new();
    loop {
        let before = found.last().copied();
        let page = ids(store, CallQuery { before, limit: 3, ..all_of(&tenant) }).await;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, expected);
}

/// Filters by state, tool and session find exactly what they say, alone and together.
pub async fn filters_find_what_they_say(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let states = [
        State::Accepted,
        held(),
        finished(),
        State::Denied { reasons: Vec::new() },
        State::OutcomeUnknown,
    ];
    let mut calls: Vec<Call> = Vec::new();
    for (index, state) in states.iter().cycle().take(20).enumerate() {
        let mut call = accepted(&tenant);
        call.asked.tool = tool(["a", "b"][index % 2]);
        call.asked.session = (index % 3 == 0).then(|| "talk".parse().expect("a session"));
        put(store, &call, None).await;
        if !matches!(state, State::Accepted) {
            call = in_state(&call, state.clone());
            put(store, &call, Some(1)).await;
        }
        calls.push(call);
    }
    calls.sort_by_key(|call| std::cmp::Reverse(call.asked.id));
    for state in states.iter().map(|state| Some(state.name())).chain([None, Some("no such")]) {
        for tool in [None, Some("a"), Some("c")] {
            for session in [None, Some("talk"), Some("none")] {
                let expected: Vec<_> = calls
                    .iter()
                    .filter(|call| state.is_none_or(|state| call.state.name() == state))
                    .filter(|call| tool.is_none_or(|tool| call.asked.tool.name.as_str() == tool))
                    .filter(|call| {
                        let of = call.asked.session.as_ref().map(|session| session.as_str());
                        session.is_none() || of == session
                    })
                    .map(|call| call.asked.id)
                    .collect();
                let query = CallQuery {
                    state: state.map(str::to_owned),
                    tool: tool.map(str::to_owned),
                    session: session.map(|session| session.parse().expect("a session")),
                    ..all_of(&tenant)
                };
                let shown = format!("{query:?}");
                assert_eq!(ids(store, query).await, expected, "{shown}");
            }
        }
    }
}

/// Calls are found by the call that made them, within the tenant, with the other filters.
pub async fn children_are_found_by_their_parent(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let parent = accepted(&one);
    put(store, &parent, None).await;
    let child = |tenant: &TenantId| {
        let mut call = accepted(tenant);
        let cause = Cause { parent: Some(parent.asked.id), depth: 1, ..Cause::default() };
        call.asked.cause = Some(Box::new(cause));
        call
    };
    let (first, second) = (child(&one), child(&one));
    for call in [&first, &second, &child(&other), &accepted(&one)] {
        put(store, call, None).await;
    }
    put(store, &in_state(&first, finished()), Some(1)).await;
    let of = |state: Option<&str>| CallQuery {
        parent: Some(parent.asked.id),
        state: state.map(str::to_owned),
        ..all_of(&one)
    };
    assert_eq!(ids(store, of(None)).await, [second.asked.id, first.asked.id]);
    assert_eq!(ids(store, of(Some("finished"))).await, [first.asked.id]);
    assert_eq!(ids(store, of(Some("accepted"))).await, [second.asked.id]);
    let found = store.call(&one, first.asked.id).await.expect("an answer").expect("it is there");
    assert_eq!(found.call.asked.cause, first.asked.cause);
}

/// Rows of one tenant look to another as if they did not exist.
pub async fn tenants_are_walls(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let call = accepted(&theirs);
    put(store, &call, None).await;
    put(store, &in_state(&call, finished()), Some(1)).await;
    let id = call.asked.id;
    assert_eq!(store.call(&mine, id).await.expect("an answer"), None);
    assert_eq!(store.receipt(&mine, id).await.expect("an answer"), None);
    assert_eq!(ids(store, all_of(&mine)).await, []);
    for call in [None, Some(id)] {
        let query = FactQuery { tenant: Some(mine.clone()), call, after: 0, limit: 99 };
        assert_eq!(store.facts(query).await.expect("facts"), []);
    }
    // The control: its owner finds all of it.
    assert!(store.call(&theirs, id).await.expect("an answer").is_some());
    assert!(store.receipt(&theirs, id).await.expect("an answer").is_some());
    assert_eq!(ids(store, all_of(&theirs)).await, [id]);
}

/// No answer holds more than it was asked for, and at most a page.
pub async fn no_answer_is_longer_than_a_page(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let calls: Vec<_> = (0..PAGE + 20).map(|_| accepted(&tenant)).collect();
    for chunk in calls.chunks(200) {
        let steps = chunk.iter().map(|call| {
            let (store, step) = (Arc::clone(store), record(call, None));
            tokio::spawn(async move { store.record(step).await })
        });
        for step in steps.collect::<Vec<_>>() {
            step.await.expect("no panic").expect("a step");
        }
    }
    let endless = CallQuery { limit: usize::MAX, ..all_of(&tenant) };
    assert_eq!(ids(store, endless).await.len(), PAGE);
    assert_eq!(ids(store, CallQuery { limit: 0, ..all_of(&tenant) }).await, []);
    let query = FactQuery { tenant: Some(tenant.clone()), call: None, after: 0, limit: usize::MAX };
    assert_eq!(store.facts(query).await.expect("facts").len(), PAGE);
}
