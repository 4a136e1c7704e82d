//! Budgets of tenants and keys.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_engine::{
    Action, Resolution,
    data::{Budget, BudgetBounds, BudgetFor, Period},
};
use ringfence_testkit::{Plane, PlaneConfig, TestClock, rules};
use ringfence_types::{Call, CallId, KeyId, Principal, State};

use crate::support::{allow_all, approver, echo, principal, stand};

/// An engine in the middle of an hour.
async fn engine(dir: &Path, bounds: BudgetBounds) -> (Plane, Arc<TestClock>) {
    let clock = Arc::new(TestClock::fixed(1_767_227_400_000_000));
    let config = PlaneConfig {
        folder: Some(dir.to_owned()),
        policy: Some(rules(&allow_all())),
        clock: clock.clone(),
        tune: Box::new(move |settings| settings.daily_budget = bounds),
        ..PlaneConfig::default()
    };
    (Plane::start(config).await.expect("works here"), clock)
}

fn calls(calls: u64) -> BudgetBounds {
    BudgetBounds { calls: Some(calls), ..BudgetBounds::default() }
}

/// The rule that a call is held by; none if it is not held.
fn held_by(call: &Call) -> Option<&str> {
    call.hold().map(|hold| hold.reasons[0].rule.as_str())
}

pub(crate) async fn becomes_finished(engine: &Plane, who: &Principal, id: CallId) {
    let finishes = async {
        loop {
            let call = engine.get(who, id).await.expect("works here").expect("it is there");
            if matches!(call.state, State::Finished(_)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), finishes).await.expect("it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_budget_a_call_is_held_and_goes_on_when_it_is_raised_or_renewed() {
    let dir = tempfile::tempdir().expect("works here");
    let (engine, clock) = engine(dir.path(), calls(2)).await;
    let who = principal("acme");
    for _ in 0..2 {
        assert_eq!(held_by(&*stand(&engine, &who, echo("x")).await), None);
    }
    let over = stand(&engine, &who, echo("third")).await;
    assert_eq!(held_by(&over), Some("budget"));
    // Others have budgets of their own.
    assert_eq!(held_by(&*stand(&engine, &principal("other"), echo("x")).await), None);
    let state = &engine.budgets(&who.tenant).await.expect("works here")[0];
    assert_eq!((state.used.calls, state.reserved.calls), (2, 0));
    assert!(over.hold().expect("held").expires_at > state.renewed_at, "it outlives the period");

    let of = BudgetFor { tenant: who.tenant.clone(), key: None, per: Period::Day };
    let raised = Budget { of, bounds: calls(3) };
    engine.set_budget(raised).await.expect("works here");
    becomes_finished(&engine, &who, over.asked.id).await;

    let again = stand(&engine, &who, echo("fourth")).await;
    assert_eq!(held_by(&again), Some("budget"));
    clock.advance(Duration::from_secs(86_400));
    let boss = approver("acme", 1);
    let look = Resolution { action: Action::Reevaluate, reason: None, shown: None };
    // The worker may have rechecked it already.
    let _ = engine.resolve(&boss, again.asked.id, look).await;
    becomes_finished(&engine, &who, again.asked.id).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_a_budget_of_its_own_and_output_counts() {
    let dir = tempfile::tempdir().expect("works here");
    let (engine, clock) = engine(dir.path(), BudgetBounds::default()).await;
    let one = principal("acme");
    let other = Principal { key: KeyId(uuid::Uuid::from_u128(8)), ..principal("acme") };
    let of = BudgetFor { tenant: one.tenant.clone(), key: Some(one.key), per: Period::Hour };
    let bounds = BudgetBounds { output_bytes: Some(10), ..BudgetBounds::default() };
    engine.set_budget(Budget { of: of.clone(), bounds }).await.expect("works here");
    assert_eq!(held_by(&*stand(&engine, &one, echo("longer than ten")).await), None);
    assert_eq!(held_by(&*stand(&engine, &one, echo("x")).await), Some("budget"));
    assert_eq!(held_by(&*stand(&engine, &other, echo("x")).await), None);
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(held_by(&*stand(&engine, &one, echo("x")).await), None);
    let held = stand(&engine, &one, echo("y")).await;
    assert_eq!(held_by(&held), Some("budget"));
    assert!(engine.remove_budget(of).await.expect("works here"));
    becomes_finished(&engine, &one, held.asked.id).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_run_together_do_not_share_the_last_of_a_budget() {
    let dir = tempfile::tempdir().expect("works here");
    let (engine, _clock) = engine(dir.path(), calls(5)).await;
    let who = principal("acme");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (engine, who) = (engine.clone(), who.clone());
        calls.spawn(async move { held_by(&*stand(&engine, &who, echo("x")).await).is_none() });
    }
    let ran = calls.join_all().await.into_iter().filter(|ran| *ran).count();
    // A call that ends at that moment may be counted twice, never not at all.
    assert!((1..=5).contains(&ran), "{ran}");
    let state = &engine.budgets(&who.tenant).await.expect("works here")[0];
    assert!(state.used.calls <= 5 && state.reserved.calls == 0, "{state:?}");
    engine.stop(Duration::from_secs(5)).await;
}
