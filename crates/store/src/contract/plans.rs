//! Plans and their events.

use std::sync::Arc;

use ringfence_types::{Json, KeyId, PlanId, TenantId, Timestamp};
use uuid::Uuid;

use super::samples::{AT, tenant};
use crate::{PlanEvent, PlanQuery, PlanRow, Store};

fn plan(tenant: &TenantId, is_open: bool) -> PlanRow {
    PlanRow {
        id: PlanId(Uuid::now_v7()),
        tenant: tenant.clone(),
        key: KeyId(Uuid::now_v7()),
        persona: Some("planner".parse().expect("a valid persona")),
        status: "pending".to_owned(),
        is_open,
        goal: "A report of the day.".to_owned(),
        document: Json::parse(br#"{"steps":[{"id":"a","n":20000000000000001}]}"#).expect("JSON"),
        state: Json::empty_object(),
        created_at: Timestamp::from_micros(AT),
        changed_at: Timestamp::from_micros(AT),
        version: 1,
        is_own: false,
    }
}

fn event(kind: &str) -> PlanEvent {
    let payload = Json::parse(br#"{"step":"a"}"#).expect("JSON");
    PlanEvent { at: Timestamp::from_micros(AT), kind: kind.to_owned(), payload }
}

/// A plan reads back as it was added and changed.
pub async fn a_plan_reads_back_whole(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut plan = plan(&tenant, false);
    store.add_plan(plan.clone(), vec![event("one")]).await.expect("it is kept");
    let read = async || store.plan(&tenant, plan.id).await.expect("an answer").expect("the plan");
    assert_eq!(read().await, plan);
    plan.status = "completed".to_owned();
    plan.state = Json::parse(br#"{"steps":{"a":{"attempt":2}}}"#).expect("JSON");
    plan.changed_at = Timestamp::from_micros(AT + 5);
    assert!(store.update_plan(plan.clone(), Vec::new()).await.expect("an answer"));
    plan.version = 2;
    assert_eq!(store.plan(&tenant, plan.id).await.expect("an answer"), Some(plan));
}

/// A change of an old version writes neither the row nor its events.
pub async fn a_stale_change_of_a_plan_changes_nothing(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let plan = plan(&tenant, false);
    store.add_plan(plan.clone(), Vec::new()).await.expect("it is kept");
    assert!(store.update_plan(plan.clone(), vec![event("one")]).await.expect("an answer"));
    let stale = PlanRow { status: "failed".to_owned(), ..plan.clone() };
    assert!(!store.update_plan(stale, vec![event("two")]).await.expect("an answer"));
    let kept = store.plan(&tenant, plan.id).await.expect("an answer").expect("the plan");
    assert_eq!((kept.status.as_str(), kept.version), ("pending", 2));
    let events = store.plan_events(&tenant, plan.id, 0, 10).await.expect("events");
    assert_eq!(events, [(1, event("one"))]);
}

/// Events are numbered from 1, and are read after a number.
pub async fn events_of_a_plan_are_numbered_without_a_gap(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut plan = plan(&tenant, false);
    store.add_plan(plan.clone(), vec![event("one"), event("two")]).await.expect("it is kept");
    let more = vec![event("three"), event("four")];
    assert!(store.update_plan(plan.clone(), more).await.expect("an answer"));
    plan.version += 1;
    assert!(store.update_plan(plan.clone(), vec![event("five")]).await.expect("an answer"));
    let after = async |after, limit| {
        let events = store.plan_events(&tenant, plan.id, after, limit).await.expect("events");
        events.into_iter().map(|(number, event)| (number, event.kind)).collect::<Vec<_>>()
    };
    let named = |names: &[(u64, &str)]| {
        names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(after(0, 3).await, named(&[(1, "one"), (2, "two"), (3, "three")]));
    assert_eq!(after(3, 3).await, named(&[(4, "four"), (5, "five")]));
}

/// Lists are pages of one tenant, newest first, of one status if asked.
pub async fn plans_are_listed_newest_first(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let plans: Vec<_> = (0..3).map(|_| plan(&tenant, false)).collect();
    for plan in &plans {
        store.add_plan(plan.clone(), Vec::new()).await.expect("it is kept");
    }
    let ended = PlanRow { status: "completed".to_owned(), ..plans[1].clone() };
    assert!(store.update_plan(ended, Vec::new()).await.expect("an answer"));
    let list = async |status: Option<&str>, before, limit| {
        let status = status.map(str::to_owned);
        let query = PlanQuery { tenant: tenant.clone(), status, before, limit };
        let found = store.plans(query).await.expect("an answer");
        found.into_iter().map(|plan| plan.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 2).await, [plans[2].id, plans[1].id]);
    assert_eq!(list(None, Some(plans[1].id), 2).await, [plans[0].id]);
    assert_eq!(list(Some("pending"), None, 5).await, [plans[2].id, plans[0].id]);
}

/// Another tenant finds neither a plan nor its events, and cannot change it.
pub async fn plans_of_others_are_never_found(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let plan = plan(&one, false);
    store.add_plan(plan.clone(), vec![event("one")]).await.expect("it is kept");
    assert_eq!(store.plan(&other, plan.id).await.expect("an answer"), None);
    assert_eq!(store.plan_events(&other, plan.id, 0, 5).await.expect("an answer"), []);
    let query = PlanQuery { tenant: other.clone(), status: None, before: None, limit: 5 };
    assert_eq!(store.plans(query).await.expect("an answer"), []);
    let foreign = PlanRow { tenant: other.clone(), ..plan.clone() };
    assert!(!store.update_plan(foreign, vec![event("two")]).await.expect("an answer"));
    assert!(!store.remove_plan(&other, plan.id).await.expect("an answer"));
    assert!(store.plan(&one, plan.id).await.expect("an answer").is_some());
}

/// An open plan is given to one process once; a claim ends what was read before it.
pub async fn an_open_plan_is_claimed_once(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (open, closed) = (plan(&tenant, true), plan(&tenant, false));
    for plan in [&open, &closed] {
        store.add_plan(plan.clone(), Vec::new()).await.expect("it is kept");
    }
    let claim = async || {
        let claimed = store.claim_plans(500).await.expect("an answer");
        claimed.into_iter().filter(|plan| plan.tenant == tenant).collect::<Vec<_>>()
    };
    let claimed = claim().await;
    let own = PlanRow { version: 2, is_own: true, ..open.clone() };
    assert_eq!(claimed, std::slice::from_ref(&own));
    assert_eq!(claim().await, []);
    assert!(!store.update_plan(open, Vec::new()).await.expect("an answer"), "read before it");
    let over = PlanRow { is_open: false, ..own };
    assert!(store.update_plan(over.clone(), Vec::new()).await.expect("an answer"));
    let kept = store.plan(&tenant, over.id).await.expect("an answer").expect("the plan");
    assert!(!kept.is_own);
    let again = PlanRow { is_open: true, ..kept };
    assert!(store.update_plan(again, Vec::new()).await.expect("an answer"));
    assert_eq!(claim().await.len(), 1);
}

/// A plan is removed with its events, unless it is open.
pub async fn a_plan_that_is_not_open_is_removed(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (open, closed) = (plan(&tenant, true), plan(&tenant, false));
    for plan in [&open, &closed] {
        store.add_plan(plan.clone(), vec![event("one")]).await.expect("it is kept");
    }
    assert!(!store.remove_plan(&tenant, open.id).await.expect("an answer"));
    assert!(store.remove_plan(&tenant, closed.id).await.expect("an answer"));
    assert!(!store.remove_plan(&tenant, closed.id).await.expect("an answer"));
    let open = store.plan(&tenant, open.id).await.expect("an answer").expect("the plan");
    assert_eq!(store.plan_events(&tenant, closed.id, 0, 5).await.expect("an answer"), []);
    let over = PlanRow { is_open: false, ..open };
    assert!(store.update_plan(over, Vec::new()).await.expect("an answer"));
}
