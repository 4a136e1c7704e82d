//! Servers with Redis beside them: one rate over two servers while Redis dies and comes back, and the
//! mirror of holds.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ringfence_testkit::Redis;
use serde_json::{Value, json};

use crate::{
    postgres::Host,
    support::{Place, Server, command, ran, until},
    wire,
};

const RATE: f64 = 40.0;
const BURST: f64 = 8.0;

/// Requests that were let through: when each was sent, and when its answer came.
type Passed = Vec<(Instant, Instant)>;

fn ready(server: &Server) -> Value {
    wire::ask(&server.address, "GET", "/readyz", &[], None).expect("an answer").json()
}

fn servers_known(server: &Server) -> bool {
    let text = wire::ask(&server.address, "GET", "/metrics", &[], None).expect("an answer").body;
    text.lines().any(|line| line == "rate_limit_servers 2")
}

/// Asks for one thing again and again until it is told to end.
fn hammer(server: &Server, is_over: &AtomicBool) -> Passed {
    let key = [("authorization", format!("Bearer {}", server.key))];
    let mut passed = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let answer = wire::ask(&server.address, "GET", "/v1/tools", &key, None);
        match answer.expect("an answer").status {
            200 => passed.push((sent, Instant::now())),
            429 => {}
            other => panic!("status {other}"),
        }
    }
    passed
}

/// In no stretch of time more passed than the rate and one burst allow.
fn check_rate(passed: &Passed) {
    for (begin, _) in passed {
        let mut ends: Vec<Instant> =
            passed.iter().filter(|(sent, _)| sent >= begin).map(|(_, end)| *end).collect();
        ends.sort_unstable();
        for (count, end) in (1_u32..).zip(&ends) {
            let allowed = BURST + RATE * (*end - *begin).as_secs_f64();
            let took = *end - *begin;
            assert!(f64::from(count) <= allowed + 1.0, "{count} in {took:?}, {allowed:.1} allowed");
        }
    }
}

/// Some time under load. Not a wait for anything: what passes in it is what is looked at.
fn load_for(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn two_servers_keep_one_rate_while_redis_dies_and_comes_back() {
    let mut redis = Redis::start().expect("a Redis server");
    let first = Host::first();
    first.run(&["migrate"]).worked();
    let second = Host::second(&first);
    let (rate, burst, url) = (RATE.to_string(), BURST.to_string(), redis.url());
    let servers = [&first, &second].map(|host| {
        host.serve_with(&[
            ("RINGFENCE_REDIS", &url),
            ("RINGFENCE_API_RATE_PER_SECOND", &rate),
            ("RINGFENCE_API_RATE_BURST", &burst),
            ("RINGFENCE_API_OPEN_METRICS", "true"),
        ])
    });
    for server in &servers {
        until("the servers to know of each other", || servers_known(server));
        until("Redis to be found", || ready(server)["status"] == "ready");
    }
    let is_over = AtomicBool::new(false);
    let (passed, marks) = std::thread::scope(|scope| {
        let loads = servers.each_ref().map(|server| scope.spawn(|| hammer(server, &is_over)));
        let mut marks = vec![Instant::now()];
        load_for(Duration::from_millis(1_500));
        redis.process().kill();
        marks.push(Instant::now());
        for server in &servers {
            until("the loss of Redis to show", || {
                let probe = ready(server);
                probe["status"] == "degraded" && probe["missing"] == json!(["redis"])
            });
        }
        load_for(Duration::from_millis(1_500));
        redis.restart().expect("Redis starts again");
        marks.push(Instant::now());
        for server in &servers {
            until("Redis to be found again", || ready(server)["status"] == "ready");
        }
        load_for(Duration::from_millis(3_000));
        marks.push(Instant::now());
        is_over.store(true, Ordering::Relaxed);
        let passed: Passed =
            loads.into_iter().flat_map(|load| load.join().expect("no panic")).collect();
        (passed, marks)
    });
    check_rate(&passed);
    let phase = |from: usize| {
        passed.iter().filter(|(_, end)| (marks[from]..marks[from + 1]).contains(end)).count()
    };
    let counts = [phase(0), phase(1), phase(2)];
    println!("passed with Redis, without it, and after it: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let settled = passed.iter().filter(|(_, end)| *end > marks[3] - Duration::from_millis(500));
    assert!(settled.count() > 0, "requests pass under the shared rate again");
    // Both asked the new Redis, which has one count for the key.
    let rates = redis.ask(&["KEYS", "ringfence:rate:*"]).expect("an answer");
    assert!(rates.lines().count() >= 2, "{rates}");
    for server in servers {
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn holds_are_mirrored_and_deleting_the_mirror_is_harmless() {
    let mut redis = Redis::start().expect("a Redis server");
    let place = Place::new();
    let server = place.serve_with(&[("REDIS_URL", &redis.url())]);
    let hold = || {
        let body = json!({
            "tool": "http_fetch", "args": {"url": "http://example.com/"}, "wait": 0,
            "session_id": "s-1", "metadata": {"note": 7},
        });
        let answer = server.ask("POST", "/v1/calls", Some(&body));
        assert!(answer.status < 300, "{answer:?}");
        answer.json()["id"].as_str().expect("an id").to_owned()
    };
    let (one, other) = (hold(), hold());
    let entry = |redis: &Redis, id: &str| {
        redis.ask(&["GET", &format!("policy:requeue:{id}")]).expect("an answer")
    };
    let listed = |redis: &Redis| {
        let text = redis.ask(&["SMEMBERS", "policy:requeue:keys"]).expect("an answer");
        let mut ids: Vec<String> = text.lines().map(str::to_owned).collect();
        ids.sort();
        ids
    };
    until("both holds to be mirrored", || listed(&redis).len() == 2);
    let shown: Value = serde_json::from_str(&entry(&redis, &one)).expect("JSON");
    assert_eq!(shown["tool_name"], "http_fetch");
    assert_eq!(shown["args"], json!({"url": "http://example.com/"}));
    assert!(shown["timestamp"].is_f64(), "{shown}");
    let session = redis.ask(&["GET", "session:s-1:meta"]).expect("an answer");
    let session: Value = serde_json::from_str(&session).expect("JSON");
    assert_eq!(session["metadata"], json!({"note": 7}));
    let lifetime = redis.ask(&["TTL", "session:s-1:meta"]).expect("an answer");
    assert!((1..=900).contains(&lifetime.parse::<i64>().expect("seconds")), "{lifetime}");

    // As a dashboard of SomaAgent 01 does.
    redis.ask(&["DEL", &format!("policy:requeue:{one}")]).expect("an answer");
    redis.ask(&["SREM", "policy:requeue:keys", &one]).expect("an answer");
    let state = |id: &str| server.ask("GET", &format!("/v1/calls/{id}"), None).json();
    assert_eq!(state(&one)["state"], "held");
    // A Redis that forgot everything is written anew.
    redis.restart().expect("Redis starts again");
    until("the mirror to be whole again", || listed(&redis).len() == 2);
    let boss = server.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let deny = ["deny", &one, "--data", &server.data];
    ran(command(&deny).env("RINGFENCE_KEY", boss.stdout.trim())).worked();
    until("the entry of a denied call to go", || listed(&redis) == [other.clone()]);
    assert_eq!(entry(&redis, &one), "");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_address_of_redis_that_is_none_is_refused() {
    let refused = ran(&mut command(&["serve", "--redis", "rediss://localhost"]));
    refused.failed(2, &["--redis", "TLS"]);
    let refused = ran(&mut command(&["serve", "--redis", "http://:secret@localhost"]));
    refused.failed(2, &["--redis", "redis://"]);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
}
