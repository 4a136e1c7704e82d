//! Several who decide at the same time.

use std::{collections::BTreeMap, time::Duration};

use ringfence_engine::{Action, ApprovalScope, NotResolved};

use super::{ASK, after, approve, engine, resolve, within};
use crate::support::{Replaced, approver, echo, principal, stand};
use ringfence_testkit::Plane;
use ringfence_types::FactKind;

const ENDS: [FactKind; 3] = [FactKind::Finished, FactKind::Denied, FactKind::Cancelled];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_resolve_one_wins() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let who = principal("acme");
    let mut ends = BTreeMap::new();
    for round in 0..12 {
        let id = stand(&engine, &who, echo("hi")).await.asked.id;
        let resolvers = (0..9).map(|number| {
            let engine = engine.clone();
            let action = match (number + round) % 3 {
                0 => approve(),
                1 => Action::Deny,
                _ => Action::Discard,
            };
            tokio::spawn(
                async move { resolve(&engine, &approver("acme", number), id, action).await },
            )
        });
        let resolvers: Vec<_> = resolvers.collect();
        let call = after(&engine, &who, id, &ENDS).await;
        *ends.entry(call.state.name()).or_insert(0) += 1;
        // An approval is not the end: until the call has begun, a no still counts.
        let mut ended = 0;
        for resolver in resolvers {
            match resolver.await.expect("a resolver does not panic") {
                Ok(ringfence_engine::Resolved::Ended(_)) => ended += 1,
                Ok(_) | Err(NotResolved::NotHeld(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        let by_a_person = usize::from(call.state.name() != "finished");
        assert_eq!(ended, by_a_person, "{:?}", call.state);
        let facts = facts(&engine, &who, id).await;
        assert_eq!(facts.iter().filter(|kind| ENDS.contains(kind)).count(), 1);
        assert!(
            facts.iter().filter(|kind| **kind == FactKind::Dispatched).count() <= 1,
            "{facts:?}"
        );
    }
    assert_eq!(ends.values().sum::<i32>(), 12);
    engine.stop(Duration::from_secs(5)).await;
}

async fn facts(
    engine: &Plane,
    who: &ringfence_types::Principal,
    id: ringfence_types::CallId,
) -> Vec<FactKind> {
    let query = ringfence_store::FactQuery {
        tenant: Some(who.tenant.clone()),
        call: Some(id),
        after: 0,
        limit: 100,
    };
    let facts = engine.store.facts(query).await.expect("works here");
    facts.into_iter().map(|logged| logged.fact.kind).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_calls_run_by_an_approval_as_it_is_for() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let who = principal("acme");
    let session = Some("s-1".parse().expect("a session"));
    let request = ringfence_engine::CallRequest { session, ..echo("hi") };
    let id = stand(&engine, &who, request.clone()).await.asked.id;
    let terms = within(ApprovalScope::Session, 5);
    resolve(&engine, &approver("acme", 1), id, terms).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    let calls = (0..20).map(|_| {
        let (engine, who, request) = (engine.clone(), who.clone(), request.clone());
        tokio::spawn(async move { stand(&engine, &who, request).await.state.name() })
    });
    let calls: Vec<_> = calls.collect();
    let mut ran = 0;
    for call in calls {
        ran += usize::from(call.await.expect("a call does not panic") == "finished");
    }
    assert_eq!(ran, 4, "one was used before");
    engine.stop(Duration::from_secs(5)).await;
}
