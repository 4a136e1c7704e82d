//! Equal keys mean the same request, done once.

use std::time::Duration;

use ringfence_engine::{CallRequest, Refused};
use ringfence_store::ErasureScope;
use ringfence_types::Json;
use tokio_util::sync::CancellationToken;

use crate::support::{echo, engine, principal, stand};

fn keyed(text: &str, key: &str) -> CallRequest {
    CallRequest { idempotency_key: Some(key.to_owned()), ..echo(text) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_gives_the_stored_call_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("works here");
    let who = principal("acme");
    let first = {
        let engine = engine(dir.path()).await;
        let first = stand(&engine, &who, keyed("hi", "k1")).await;
        let again = engine.call(&who, keyed("hi", "k1")).await.expect("works here");
        assert!(again.is_replayed());
        assert_eq!(again.id(), first.asked.id);
        engine.close(Duration::from_secs(5)).await.expect("works here");
        first
    };
    let engine = engine(dir.path()).await;
    let again = engine.call(&who, keyed("hi", "k1")).await.expect("works here");
    assert_eq!((again.id(), again.is_replayed()), (first.asked.id, true));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_request_with_the_same_key_is_refused() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let first = stand(&engine, &who, keyed("hi", "k1")).await;
    let refused = engine.call(&who, keyed("other", "k1")).await.expect_err("another request");
    assert!(matches!(refused, Refused::KeyReused(id) if id == first.asked.id), "{refused}");
    let metadata = Json::parse(br#"{"a": 1}"#).expect("works here");
    let others = [
        CallRequest { persona: Some("p".parse().expect("works here")), ..keyed("hi", "k1") },
        CallRequest { session: Some("s".parse().expect("works here")), ..keyed("hi", "k1") },
        CallRequest { metadata, ..keyed("hi", "k1") },
        CallRequest { fresh: true, ..keyed("hi", "k1") },
    ];
    for other in others {
        let refused = engine.call(&who, other.clone()).await.expect_err("another request");
        assert!(matches!(refused, Refused::KeyReused(_)), "{other:?}: {refused}");
    }
    for bad in ["", "ä", &"x".repeat(256)] {
        let refused = engine.call(&who, keyed("hi", bad)).await.expect_err(bad);
        assert!(matches!(refused, Refused::InvalidIdempotencyKey), "{refused}");
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_at_once_exactly_one_runs() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let mut attempts = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (engine, who) = (engine.clone(), who.clone());
        attempts.spawn(async move { engine.call(&who, keyed("hi", "k1")).await });
    }
    let (mut fresh, mut others) = (0, 0);
    while let Some(attempt) = attempts.join_next().await {
        match attempt.expect("works here") {
            Ok(ticket) if !ticket.is_replayed() => fresh += 1,
            Ok(_) | Err(Refused::StillRunning(_)) => others += 1,
            Err(refused) => panic!("{refused}"),
        }
    }
    assert_eq!((fresh, others), (1, 63));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_leaves_the_key_free() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    for round in 0..20 {
        let key = format!("k{round}");
        tokio::select! {
            biased;
            // It has got as far as the store, which answers on another thread; now and then in time.
            _ = engine.call(&who, keyed("hi", &key)) => {}
            () = std::future::ready(()) => {}
        }
        let again = async {
            loop {
                match engine.call(&who, keyed("hi", &key)).await {
                    Ok(mut ticket) => return ticket.wait(Duration::from_secs(30)).await,
                    Err(Refused::StillRunning(_)) => tokio::task::yield_now().await,
                    Err(refused) => panic!("{refused}"),
                }
            }
        };
        let call = tokio::time::timeout(Duration::from_secs(30), again).await;
        let call = call.expect("the key is free").expect("it is on record");
        assert!(call.state.is_final(), "{:?}", call.state);
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_an_erased_call_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let first = stand(&engine, &who, keyed("hi", "k1")).await;
    let id = first.asked.id;
    engine.erase(&who, ErasureScope::Call(id), None).await.expect("works here");
    let detached = CallRequest { detached: true, ..keyed("hi", "k1") };
    for request in [keyed("hi", "k1"), detached, keyed("other", "k1")] {
        let refused = engine.call(&who, request).await.expect_err("the key is used");
        assert!(matches!(refused, Refused::Erased(of) if of == id), "{refused}");
    }
    let other = stand(&engine, &who, keyed("hi", "k2")).await;
    assert!(other.state.is_final(), "{:?}", other.state);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_recorded_while_everything_is_erased_again_and_again() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
    let pruning = {
        let (engine, by, stop) = (engine.clone(), who.key, stop.clone());
        let stopped = stopped.clone().drop_guard();
        tokio::spawn(async move {
            let (_stopped, mut erased) = (stopped, 0);
            while !stop.is_cancelled() {
                let now = engine.clock().now();
                erased += engine.prune(by, now).await.expect("a pass").calls;
            }
            erased
        })
    };
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let (engine, who) = (engine.clone(), who.clone());
        callers.spawn(async move {
            for round in 0..60 {
                // Every key is used about three times, by two callers.
                let key = format!("k{}", caller / 2 * 100 + round / 3);
                match engine.call(&who, keyed("hi", &key)).await {
                    Ok(mut ticket) => {
                        let call = ticket.wait(Duration::from_secs(30)).await;
                        assert!(call.is_some(), "{key}: {:?}", ticket.refused());
                    }
                    Err(Refused::Erased(_) | Refused::StillRunning(_)) => {}
                    Err(refused) => panic!("{key}: {refused:?}"),
                }
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("no panic");
    }
    assert!(!stopped.is_cancelled(), "it erased until now");
    stop.cancel();
    assert!(pruning.await.expect("no panic") > 0, "something was erased");
    engine.stop(Duration::from_secs(5)).await;
}
