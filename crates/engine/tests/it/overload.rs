//! More calls than can be served, and callers that go away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ringfence_engine::{Refused, Settings};
use ringfence_policy::{self as policy, Answer, Input, Unavailable};
use ringfence_types::{Digest, Obligations, State, Verdict};
use tokio::sync::Semaphore;

use crate::support::{Replaced, echo, engine_of, principal, stand};

/// Longer than anything takes, even while the machine is busy.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Rules that allow everything, but only as many calls as it is told to.
#[derive(Debug)]
struct Gate(Semaphore, AtomicUsize);

impl Gate {
    fn closed() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0), AtomicUsize::new(0)))
    }

    /// Waits until so many have asked.
    async fn asked_by(&self, count: usize) {
        let enough = async {
            while self.1.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(STEP_TIMEOUT, enough).await.expect("they ask");
    }
}

#[async_trait]
impl policy::Engine for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn revision(&self) -> Digest {
        Digest::of(b"gate")
    }

    async fn evaluate(&self, _: &Input) -> Result<Answer, Unavailable> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.acquire().await.expect("never closed").forget();
        Ok(Answer {
            verdict: Verdict::Allow,
            reasons: Vec::new(),
            obligations: Obligations::default(),
            approvals: None,
            policy: self.revision(),
        })
    }
}

fn few_places(settings: &mut Settings) {
    settings.running = 2;
    settings.running_per_tenant = 2;
    settings.waiting_per_tenant = 3;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_line_refuses_at_once_and_the_others_finish() {
    let dir = tempfile::tempdir().expect("works here");
    let gate = Gate::closed();
    let engine = engine_of(dir.path(), gate.clone(), few_places).await;
    let (who, other) = (principal("flood"), principal("calm"));
    let mut tickets = Vec::new();
    for number in 0..5 {
        tickets.push(engine.call(&who, echo(&number.to_string())).await.expect("there is room"));
    }
    assert_eq!(engine.load(), (2, 3));
    for _ in 0..100 {
        match engine.call(&who, echo("too many")).await {
            Err(Refused::Busy { retry_after }) => assert!(retry_after >= Duration::from_secs(1)),
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
    // A tenant that floods fills its own line only.
    tickets.push(engine.call(&other, echo("calm")).await.expect("another line"));
    gate.0.add_permits(tickets.len());
    for mut ticket in tickets {
        let call = ticket.wait(STEP_TIMEOUT).await.expect("on record");
        assert!(matches!(call.state, State::Finished(_)), "{:?}", call.state);
    }
    assert_eq!(engine.load(), (0, 0));
    engine.stop(STEP_TIMEOUT).await;
}

/// R19: Who comes at the same time finds the same places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_as_there_is_room_for_are_taken_however_many_come_at_once() {
    let dir = tempfile::tempdir().expect("works here");
    let gate = Gate::closed();
    let engine = engine_of(dir.path(), gate.clone(), few_places).await;
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..100 {
        let engine = engine.clone();
        let call = async move { engine.call(&principal("rush"), echo(&number.to_string())).await };
        callers.spawn(call);
    }
    let taken: Vec<_> = callers.join_all().await.into_iter().filter_map(Result::ok).collect();
    assert_eq!((taken.len(), engine.load()), (5, (2, 3)));
    gate.0.add_permits(taken.len());
    for mut ticket in taken {
        ticket.wait(STEP_TIMEOUT).await.expect("on record");
    }
    engine.stop(STEP_TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_are_judged_again_take_no_place_from_new_calls() {
    let dir = tempfile::tempdir().expect("works here");
    let who = principal("patient");
    let ask = "package ringfence\ndecision := {\"decision\": \"hold\", \"reasons\": []}";
    let engine = engine_of(dir.path(), Replaced::new(ask), few_places).await;
    let mut held = Vec::new();
    for number in 0..50 {
        held.push(stand(&engine, &who, echo(&number.to_string())).await.asked.id);
    }
    engine.close(STEP_TIMEOUT).await.expect("works here");
    // All of them are judged at the start, a few at one time.
    let gate = Gate::closed();
    let engine = engine_of(dir.path(), gate.clone(), few_places).await;
    gate.asked_by(8).await;
    assert_eq!(engine.load(), (0, 0));
    let mut ticket = engine.call(&who, echo("new")).await.expect("there is room");
    let new = tokio::spawn(async move { ticket.wait(STEP_TIMEOUT).await.map(drop) });
    gate.asked_by(9).await;
    assert_eq!(gate.1.load(Ordering::SeqCst), 9, "no more at one time");
    gate.0.add_permits(10 * held.len());
    new.await.expect("no panic").expect("on record");
    for id in held {
        crate::holds::after(&engine, &who, id, &[ringfence_types::FactKind::Finished]).await;
    }
    engine.stop(STEP_TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_goes_on_when_its_caller_does_not_wait() {
    let dir = tempfile::tempdir().expect("works here");
    let gate = Gate::closed();
    let engine = engine_of(dir.path(), gate.clone(), |_| {}).await;
    let who = principal("t");
    let dropped = engine.call(&who, echo("dropped")).await.expect("accepted").id();
    let waiting = engine.call(&who, echo("given up")).await.expect("accepted");
    let given_up = waiting.id();
    let wait = tokio::spawn({
        let mut waiting = waiting;
        async move { waiting.wait(STEP_TIMEOUT).await.is_some() }
    });
    wait.abort();
    assert!(wait.await.is_err(), "it was cut off while it waited");
    gate.0.add_permits(2);
    // Stopping waits for all calls in flight, in every task.
    engine.stop(STEP_TIMEOUT).await;
    for id in [dropped, given_up] {
        let call = engine.get(&who, id).await.expect("works here").expect("on record");
        assert!(matches!(call.state, State::Finished(_)), "{:?}", call.state);
    }
}
