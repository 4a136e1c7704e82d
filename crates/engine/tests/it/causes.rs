//! Calls that make calls: in the place of their parent, with its rights, once, and not beyond its end.
//!
//! A parent is a fetch from a server that does not answer, so it runs until the test lets it end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ringfence_engine::{By, CallRequest, Engine, Refused};
use ringfence_store::CallQuery;
use ringfence_testkit::{Plane, PlaneConfig};
use ringfence_types::{Call, CallId, Cause, FactKind, MAX_DEPTH, Principal, State, Stopper};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{
    holds::after,
    support::{Replaced, approver, echo, principal, request},
};

/// Longer than anything takes, even while the machine is busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `timestamp` waits for a person, and one text may be said by children only.
const RULES: &str = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "a person decides"}]} if {
	input.tool.name == "timestamp"
}

decision := {"decision": "deny", "reasons": [{"rule": "alone", "message": "not alone"}]} if {
	input.args.text == "not alone"
	input.parent_call_id == null
}
"#;

/// A server that takes connections and says nothing.
pub(crate) struct Silent {
    address: SocketAddr,
    connections: mpsc::UnboundedReceiver<TcpStream>,
}

impl Silent {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("works here");
        let address = listener.local_addr().expect("works here");
        let (give, connections) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if give.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { address, connections }
    }

    pub(crate) fn fetch(&self) -> CallRequest {
        let url = format!("http://{}/", self.address);
        request("http_fetch", &json!({"url": url, "timeout": 50}))
    }

    /// The next fetch that runs. It ends when this is dropped.
    pub(crate) async fn next(&mut self) -> TcpStream {
        let next = tokio::time::timeout(TIMEOUT, self.connections.recv()).await;
        next.expect("a fetch begins in time").expect("the server listens")
    }
}

/// An engine with one place, whose tools may fetch from this server.
pub(crate) async fn engine(silent: &Silent) -> Plane {
    engine_under(silent, RULES).await
}

/// The same under other rules.
pub(crate) async fn engine_under(silent: &Silent, rules: &str) -> Plane {
    let config = PlaneConfig {
        policy: Some(Replaced::new(rules)),
        egress: ringfence_egress::Options {
            allow_private: vec![silent.address.into()],
            ..ringfence_egress::Options::default()
        },
        tune: Box::new(|settings| (settings.running, settings.running_per_tenant) = (1, 1)),
        ..PlaneConfig::default()
    };
    Plane::start(config).await.expect("works here")
}

/// Begins a call without waiting for it.
pub(crate) async fn begin(
    engine: &Engine,
    who: &Principal,
    request: CallRequest,
    by: By,
) -> CallId {
    engine.call_by(who, request, by).await.expect("it is accepted").id()
}

/// Makes a call and waits for where it comes to stand.
pub(crate) async fn stand_by(
    engine: &Engine,
    who: &Principal,
    request: CallRequest,
    by: By,
) -> Arc<Call> {
    let mut ticket = engine.call_by(who, request, by).await.expect("it is accepted");
    let call = ticket.wait(TIMEOUT).await.expect("it is on record");
    assert!(call.state.is_final() || call.hold().is_some(), "{:?}", call.state);
    call
}

pub(crate) fn child(parent: CallId, seq: u64) -> By {
    By::Child { parent, seq }
}

fn children_of(parent: CallId) -> CallQuery {
    CallQuery {
        tenant: "acme".parse().expect("works here"),
        state: None,
        tool: None,
        session: None,
        parent: Some(parent),
        before: None,
        limit: 10,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_parents_as_places_do_not_keep_their_children_waiting() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let mut above =
        vec![(begin(&engine, &who, silent.fetch(), By::Client).await, silent.next().await)];
    // The control: the only place is taken, so a call that has no parent waits.
    let waits = begin(&engine, &who, echo("waits"), By::Client).await;
    assert_eq!(engine.load(), (1, 1));
    // And yet each generation runs, as deep as it may go.
    while above.len() < usize::from(MAX_DEPTH) {
        let parent = above[above.len() - 1].0;
        let of = engine.principal_of(parent).expect("it runs");
        let id = begin(&engine, &of, silent.fetch(), child(parent, 1)).await;
        above.push((id, silent.next().await));
    }
    let parent = above[above.len() - 1].0;
    let last = stand_by(&engine, &who, echo("not alone"), child(parent, 1)).await;
    assert!(matches!(last.state, State::Finished(_)), "{:?}", last.state);
    let cause = Cause { parent: Some(parent), depth: MAX_DEPTH, ..Cause::default() };
    assert_eq!(last.asked.cause.as_deref(), Some(&cause));
    let receipt = engine.receipt(&who, last.asked.id).await.expect("works here");
    assert_eq!(receipt.expect("it has ended").cause.as_deref(), Some(&cause));
    let listed = engine.list(&who, children_of(parent)).await.expect("works here").0;
    assert_eq!(listed.iter().map(|call| call.asked.id).collect::<Vec<_>>(), [last.asked.id]);
    assert_eq!(engine.load(), (1, 1), "no child took or waited for a place");
    while let Some((id, connection)) = above.pop() {
        drop(connection);
        after(&engine, &who, id, &[FactKind::Finished]).await;
    }
    after(&engine, &who, waits, &[FactKind::Finished]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_cannot_be_deeper_than_the_bound() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let mut above =
        vec![(begin(&engine, &who, silent.fetch(), By::Client).await, silent.next().await)];
    for _ in 0..MAX_DEPTH {
        let parent = above[above.len() - 1].0;
        let id = begin(&engine, &who, silent.fetch(), child(parent, 1)).await;
        above.push((id, silent.next().await));
    }
    let parent = above[above.len() - 1].0;
    let refused = engine.call_by(&who, echo("deeper"), child(parent, 1)).await;
    assert!(matches!(refused, Err(Refused::TooDeep)), "{refused:?}");
    drop(above);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_number_of_children_runs_at_once() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let parent = begin(&engine, &who, silent.fetch(), By::Client).await;
    let _parent = silent.next().await;
    let mut running = Vec::new();
    for seq in 0..8 {
        begin(&engine, &who, silent.fetch(), child(parent, seq)).await;
        running.push(silent.next().await);
    }
    let ninth = begin(&engine, &who, silent.fetch(), child(parent, 8)).await;
    // It is put on record while it waits.
    after(&engine, &who, ninth, &[FactKind::Decided]).await;
    let seen = engine.get(&who, ninth).await.expect("works here").expect("it is there");
    assert_eq!(seen.state, State::Accepted);
    assert!(silent.connections.try_recv().is_err(), "no more than eight run");
    running.pop();
    running.push(silent.next().await);
    engine.cancel(&who, parent).await.expect("works here");
    after(&engine, &who, ninth, &[FactKind::Cancelled]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_parent_cancels_its_children_and_those_that_are_held() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let parent = begin(&engine, &who, silent.fetch(), By::Client).await;
    let _parent = silent.next().await;
    let runs = begin(&engine, &who, silent.fetch(), child(parent, 1)).await;
    let _runs = silent.next().await;
    let below = begin(&engine, &who, silent.fetch(), child(runs, 1)).await;
    let _below = silent.next().await;
    let now = request("timestamp", &json!({}));
    let held = stand_by(&engine, &who, now, child(parent, 2)).await;
    assert!(held.hold().is_some(), "it is answered at once: {:?}", held.state);
    engine.cancel(&who, parent).await.expect("works here");
    for id in [parent, runs, below, held.asked.id] {
        let ended = after(&engine, &who, id, &[FactKind::Cancelled]).await;
        assert_eq!(ended.state, State::Cancelled { by: Stopper::Key(who.key) });
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_ends_with_its_parent() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let parent = begin(&engine, &who, silent.fetch(), By::Client).await;
    let connection = silent.next().await;
    let runs = begin(&engine, &who, silent.fetch(), child(parent, 1)).await;
    let _runs = silent.next().await;
    drop(connection);
    after(&engine, &who, parent, &[FactKind::Finished]).await;
    let ended = after(&engine, &who, runs, &[FactKind::Cancelled]).await;
    assert_eq!(ended.state, State::Cancelled { by: Stopper::Parent(parent) });
    let refused = engine.call_by(&who, echo("late"), child(parent, 2)).await;
    assert!(matches!(refused, Err(Refused::ParentNotRunning(id)) if id == parent), "{refused:?}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_its_calls_and_theirs() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let (who, admin) = (principal("acme"), approver("acme", 1));
    let parent = begin(&engine, &who, silent.fetch(), By::Client).await;
    let _parent = silent.next().await;
    let runs = begin(&engine, &who, silent.fetch(), child(parent, 1)).await;
    let _runs = silent.next().await;
    engine.key_revoked(admin.key, admin.key);
    let seen = engine.get(&who, parent).await.expect("works here").expect("it is there");
    assert!(!seen.state.is_final(), "the end of another key does not concern it");
    engine.key_revoked(who.key, admin.key);
    for id in [parent, runs] {
        let ended = after(&engine, &who, id, &[FactKind::Cancelled]).await;
        assert_eq!(ended.state, State::Cancelled { by: Stopper::Key(admin.key) });
    }
    let refused = engine.call_by(&who, echo("more"), child(parent, 2)).await;
    assert!(matches!(refused, Err(Refused::ParentNotRunning(_))), "{refused:?}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_thing_is_done_once_and_no_client_can_stand_in_for_it() {
    let mut silent = Silent::listen().await;
    let engine = engine(&silent).await;
    let who = principal("acme");
    let parent = begin(&engine, &who, silent.fetch(), By::Client).await;
    let _parent = silent.next().await;
    let first = stand_by(&engine, &who, echo("once"), child(parent, 1)).await;
    let mut again =
        engine.call_by(&who, echo("once"), child(parent, 1)).await.expect("it is there");
    assert!(again.is_replayed());
    assert_eq!(again.wait(TIMEOUT).await.expect("on record").asked.id, first.asked.id);
    let other = engine.call_by(&who, echo("other"), child(parent, 1)).await;
    assert!(matches!(other, Err(Refused::KeyReused(id)) if id == first.asked.id), "{other:?}");
    let second = stand_by(&engine, &who, echo("once"), child(parent, 2)).await;
    assert_ne!(second.asked.id, first.asked.id);
    // A client that knows the key cannot send it.
    let key = first.asked.idempotency.as_ref().expect("a derived one").key.clone();
    let forged = CallRequest { idempotency_key: Some(key), ..echo("once") };
    let refused = engine.call(&who, forged).await;
    assert!(matches!(refused, Err(Refused::InvalidIdempotencyKey)), "{refused:?}");
    // Nor can another key or another tenant make calls for it.
    for stranger in [approver("acme", 1), principal("other")] {
        let refused = engine.call_by(&stranger, echo("hi"), child(parent, 3)).await;
        assert!(matches!(refused, Err(Refused::ParentNotRunning(_))), "{refused:?}");
    }
    let alone = stand_by(&engine, &who, echo("not alone"), child(parent, 4)).await;
    assert!(matches!(alone.state, State::Finished(_)), "rules see the parent: {:?}", alone.state);
    engine.cancel(&who, parent).await.expect("works here");
    after(&engine, &who, parent, &[FactKind::Cancelled]).await;
    let alone = stand_by(&engine, &who, echo("not alone"), By::Client).await;
    assert!(matches!(alone.state, State::Denied { .. }), "{:?}", alone.state);
    engine.stop(Duration::from_secs(5)).await;
}
