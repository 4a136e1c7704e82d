//! One call after the other.

use std::time::Duration;

use ringfence_engine::{FactId, Refused};
use ringfence_store::CallQuery;
use ringfence_types::{Call, FactKind, Produced, Receipt, ReceiptDetails, State};
use serde_json::{Value, json};

use crate::support::{echo, engine, principal, request, stand};

fn result(call: &Call) -> Value {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => result.to_value(),
            Produced::Error(error) => panic!("{}: {}", error.code, error.message),
        },
        other => panic!("{other:?}"),
    }
}

fn error(call: &Call) -> (String, String) {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Error(error) => (error.code.to_string(), error.message.clone()),
            Produced::Result(result) => panic!("{result}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_run_recorded_and_receipted() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let call = stand(&engine, &who, echo("hi")).await;
    assert_eq!(result(&call), json!({"message": "hi"}));
    assert_eq!(engine.get(&who, call.asked.id).await.expect("works here"), Some(call.clone()));
    let receipt =
        engine.receipt(&who, call.asked.id).await.expect("works here").expect("it is final");
    assert_eq!(Some(receipt), Receipt::of(&call, ReceiptDetails::default()));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_of_a_call_come_in_order_and_can_be_resumed() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let call = stand(&engine, &who, echo("hi")).await;
    let mut kinds = Vec::new();
    let mut follow = engine.follow(&who, Some(call.asked.id), None);
    let mut after = FactId::default();
    while kinds.last().is_none_or(|kind| *kind != FactKind::Finished) {
        let (id, fact) = follow.next().await.expect("works here");
        assert!(id > after);
        after = id;
        kinds.push(fact.kind);
        // A reader that comes back after each fact misses none and sees none twice.
        follow = engine.follow(&who, Some(call.asked.id), Some(id));
    }
    let expected =
        [FactKind::Accepted, FactKind::Decided, FactKind::Dispatched, FactKind::Finished];
    assert_eq!(kinds, expected);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_policy_holds_stands_still_until_it_is_cancelled() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let fetch = request("http_fetch", &json!({"url": "http://example.com/"}));
    let held = stand(&engine, &who, fetch).await;
    let State::Held(hold) = &held.state else { panic!("{:?}", held.state) };
    assert!(!hold.reasons.is_empty());
    let cancelled =
        engine.cancel(&who, held.asked.id).await.expect("works here").expect("it is there");
    assert!(matches!(cancelled.state, State::Cancelled { .. }), "{:?}", cancelled.state);
    assert!(engine.receipt(&who, held.asked.id).await.expect("works here").is_some());
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_call_looks_like_a_missing_one() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let call = stand(&engine, &principal("acme"), echo("secret")).await;
    let other = principal("other");
    let id = call.asked.id;
    assert_eq!(engine.get(&other, id).await.expect("works here"), None);
    assert_eq!(engine.cancel(&other, id).await.expect("works here"), None);
    assert_eq!(engine.receipt(&other, id).await.expect("works here"), None);
    let query = CallQuery {
        tenant: "acme".parse().expect("works here"),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 10,
    };
    assert_eq!(engine.list(&other, query.clone()).await.expect("works here"), (Vec::new(), None));
    assert_eq!(engine.list(&principal("acme"), query).await.expect("works here").0.len(), 1);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_says_why_in_the_tool_s_own_words() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let refused = |tool: &'static str, args: Value| {
        let engine = engine.clone();
        let who = who.clone();
        async move { engine.call(&who, request(tool, &args)).await.expect_err("refused") }
    };
    let words = [
        ("echo", json!({}), "echo requires a 'text' field"),
        ("file_read", json!({}), "'path' argument is required"),
        ("http_fetch", json!({"url": "gopher://x"}), "Valid 'url' argument required"),
        ("canvas_append", json!({"content": 1}), "'session_id' is required"),
        ("canvas_append", json!({"session_id": "s"}), "'content' is required"),
        (
            "code_execute",
            json!({"language": "cobol", "code": ""}),
            "Only Python, JavaScript and Bash code execution is supported",
        ),
        ("nonsense", json!({}), "there is no tool `nonsense`"),
    ];
    for (tool, args, expected) in words {
        assert_eq!(refused(tool, args).await.to_string(), expected);
    }
    let all = refused("echo", json!({"text": 1, "more": 2})).await;
    let Refused::InvalidArguments { violations, .. } = all else { panic!("{all}") };
    assert_eq!(violations.len(), 2, "{violations:?}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_from_the_tenant_s_own_directory_alone() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let own = dir.path().join("work/acme");
    std::fs::create_dir_all(own.join("notes")).expect("works here");
    std::fs::create_dir_all(dir.path().join("work/other")).expect("works here");
    std::fs::write(own.join("notes/a.txt"), "mine").expect("works here");
    std::fs::write(dir.path().join("work/other/b.txt"), "theirs").expect("works here");
    std::os::unix::fs::symlink("../other/b.txt", own.join("link")).expect("works here");
    let read = |path: &str| {
        let request = request("file_read", &json!({"path": path}));
        stand(&engine, &who, request)
    };
    let good = result(read("notes/a.txt").await.as_ref());
    assert_eq!(good, json!({"path": "/workspace/notes/a.txt", "content": "mine"}));
    for (path, code) in [
        ("../other/b.txt", "path_refused"),
        ("link", "path_refused"),
        ("/etc/passwd", "path_refused"),
        ("notes/none", "file_not_found"),
    ] {
        assert_eq!(error(read(path).await.as_ref()).0, code, "{path}");
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canvas_event_is_recorded_with_its_call() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let append = request("canvas_append", &json!({"session_id": "s1", "content": {"x": [1, 2]}}));
    let call = stand(&engine, &who, append).await;
    assert_eq!(result(&call), json!({"status": "queued", "pane": "default"}));
    let query = ringfence_store::SessionQuery {
        tenant: who.tenant.clone(),
        session: "s1".parse().expect("works here"),
        kind: Some("canvas".to_owned()),
        after: 0,
        last: false,
        limit: 10,
    };
    let events = engine.store.session_events(query).await.expect("works here");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1.payload.to_value()["content"], json!({"x": [1, 2]}));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_published_with_the_request_id_of_the_client() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    drop(reader(&engine.db).await);
    let who = principal("acme");
    let mut request = echo("hi");
    request.metadata =
        ringfence_types::Json::of(&json!({"request_id": "r-1"})).expect("works here");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01").parse().expect("works here");
    let state = ringfence_types::TraceState::parse(["congo=t61"]);
    request.trace = Some(ringfence_types::TraceContext { parent, state });
    let call = stand(&engine, &who, request).await;
    engine.stop(Duration::from_secs(5)).await;
    let message = published(&engine.db, 1).await.remove(0);
    let body = told_in(&message);
    assert_eq!(body["status"], "success");
    assert_eq!(body["payload"], json!({"message": "hi"}));
    assert_eq!(body["metadata"]["request_id"], "r-1");
    // A consumer that continues the trace continues from the call, in both kinds of message.
    let span = &call.asked.id.0.simple().to_string()[16..];
    let traced = format!("00-{trace}-{span}-01");
    let told = json!({"traceparent": traced, "tracestate": "congo=t61"});
    assert_eq!(body["trace_context"], told);
    let header = |wanted: &str| {
        let headers = message.headers.iter();
        headers.filter(|(name, _)| name == wanted).map(|(_, value)| value.clone()).next()
    };
    assert_eq!(header("ce_traceparent"), Some(traced.into_bytes()));
    assert_eq!(header("ce_tracestate"), Some(b"congo=t61".to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_asker_goes_away_before_it_is_told_the_name_goes_on() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    for _ in 0..20 {
        let asked = ringfence_engine::CallRequest { detached: true, ..echo("hi") };
        tokio::select! {
            biased;
            // It waits for its record.
            _ = engine.call(&who, asked) => {}
            () = std::future::ready(()) => {}
        }
    }
    let mut follow = engine.follow(&who, None, None);
    let mut ended = 0;
    while ended < 20 {
        let next = tokio::time::timeout(Duration::from_secs(30), follow.next());
        let (_, fact) = next.await.expect("all of them go on").expect("works here");
        ended += usize::from(fact.kind == FactKind::Finished);
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_no_bus_takes_is_told_by_its_place_and_keeps_nothing_back() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    drop(reader(&engine.db).await);
    let large = stand(&engine, &who, echo(&"x".repeat(ringfence_bus::MAX_MESSAGE_BYTES))).await;
    let small = stand(&engine, &who, echo("hi")).await;
    engine.stop(Duration::from_secs(5)).await;
    let told: Vec<_> = published(&engine.db, 2).await.iter().map(told_in).collect();
    let of = |call: &Call| {
        let id = call.asked.id.to_string();
        told.iter().find(|body| body["metadata"]["request_id"] == id).expect("it was published")
    };
    let place = format!("/v1/calls/{}", large.asked.id);
    assert_eq!(of(&large)["status"], "success");
    assert_eq!(of(&large)["payload"]["dataref"], place);
    assert_eq!(of(&small)["payload"], json!({"message": "hi"}), "the control");
}

/// A group that reads results: what none reads is not published.
async fn reader(db: &ringfence_sqlite::Db) -> Box<dyn ringfence_bus::Member> {
    let clock = std::sync::Arc::new(ringfence_testkit::TestClock::system());
    let bus = ringfence_bus::SqliteBus::open(db.clone(), ringfence_bus::Options::default(), clock);
    let bus = bus.await.expect("works here");
    let (name, topics) = ("reader".to_owned(), vec!["tool.results".to_owned()]);
    let group = ringfence_bus::Group { name, topics, from_oldest: false };
    ringfence_bus::Bus::join(&bus, group).await.expect("works here")
}

/// Results that are on the bus of an engine that has stopped.
async fn published(db: &ringfence_sqlite::Db, count: usize) -> Vec<ringfence_bus::Message> {
    let mut member = reader(db).await;
    let mut told = Vec::new();
    while told.len() < count {
        let delivery = tokio::time::timeout(Duration::from_secs(10), member.next());
        let delivery = delivery.await.expect("it was published").expect("works here");
        member.commit(&delivery).await.expect("works here");
        told.push(delivery.message);
    }
    told
}

fn told_in(message: &ringfence_bus::Message) -> Value {
    serde_json::from_slice(&message.payload).expect("works here")
}

/// Everything of such a call happens on one thread.
#[tokio::test]
async fn the_arguments_of_a_call_are_read_three_times() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    stand(&engine, &who, echo("warm")).await;
    let request = echo("hi");
    let before = ringfence_types::json::parses();
    stand(&engine, &who, request).await;
    let arguments = ringfence_types::json::parses() - before;
    // Digest, canonical form and hash; the tree for the schema; the tree for the tool. And of the result:
    // the tree for the schema, its digest and hash.
    assert_eq!(arguments, 3 + 2);
    engine.stop(Duration::from_secs(5)).await;
}
