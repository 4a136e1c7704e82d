//! The console over a large history: time and size of the first page of every list, and memory while
//! pages are updated live.
//!
//! `cargo run --release -p ringfence-console --example scale -- <calls> <holds> <updates> <seconds>`; the
//! updates are spread over the seconds. Times are those of a client in the same process, so the server's
//! own are shorter. It fails if a page takes longer or is larger than it may, or if memory grows.
#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on says so by panicking")]

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use reqwest::{Client, header};
use ringfence_console::{Console, ConsoleConfig};
use ringfence_edge::{Edge, EdgeConfig};
use ringfence_engine::Engine;
use ringfence_store::{
    Store,
    contract::samples::{accepted, finished, held, in_state, record, tool},
};
use ringfence_testkit::{Plane, PlaneConfig};
use ringfence_types::{Call, CallId, KeyId, Reason, Scope, State, Timestamp};
use uuid::Uuid;

/// Longest time and largest size of a page.
const MAX_TIME: Duration = Duration::from_millis(50);
const MAX_BYTES: usize = 150_000;

/// Growth of the process while pages are updated that is not a leak: caches and pools of connections.
const MAX_GROWTH: u64 = 32 << 20;

/// Requests per page; the median counts.
const ROUNDS: usize = 7;

/// Steps that are recorded at the same time: they share commits.
const AT_ONCE: usize = 512;

const TOOLS: [&str; 4] = ["echo", "code_execute", "text_summarize", "http_fetch"];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse::<u64>().unwrap());
    let (calls, holds, updates, seconds) = (number(100_000), number(1_000), number(300), number(5));
    let mut plane = Plane::start(PlaneConfig::default()).await.unwrap();
    let secret = plane.access().ensure_admin_key(|_| Ok(())).await.unwrap().unwrap().secret;
    let known = plane.access().authenticate(secret.reveal().as_bytes()).await.unwrap();
    let key = known.principal.key;
    let approver = plane.key("default", &[Scope::Read, Scope::Approve]).await.unwrap();
    let began = Instant::now();
    fill(&plane, key, calls, holds).await;
    println!("{calls} calls and {holds} holds in {:.1} s", began.elapsed().as_secs_f64());
    let edge = Edge::new(plane.engine.clone(), EdgeConfig { rate: None, ..EdgeConfig::default() });
    let console = Console::new(edge.clone(), ConsoleConfig::default());
    let address = plane.listen(edge, &[&console]).await.unwrap();
    let browser = Browser::sign_in(&format!("http://{address}"), secret.reveal()).await;
    let person = Browser::sign_in(&format!("http://{address}"), &approver).await;
    let pages = measure(&browser, &person).await;
    let memory = watch(&plane, &browser, key, updates, seconds).await;
    if pages && memory { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A call of the operator's tenant, this long ago.
fn sample(engine: &Engine, key: KeyId, number: u64, ago: Duration) -> Call {
    let now = engine.clock().now().as_micros();
    let at = Timestamp::from_micros(now - i64::try_from(ago.as_micros()).unwrap());
    let mut call = accepted(&"default".parse().unwrap());
    let millis = u128::try_from(at.as_micros() / 1_000).unwrap();
    // A UUID of version 7: milliseconds, then a number that differs.
    let id = (millis << 80) | (7 << 76) | (2 << 62) | u128::from(number);
    call.asked.id = CallId(Uuid::from_u128(id));
    call.asked.key = key;
    call.asked.tool = tool(TOOLS[(number % 4) as usize]);
    call.asked.session = Some(format!("session-{}", number % 97).parse().unwrap());
    (call.asked.accepted_at, call.changed_at) = (at, at);
    call
}

/// Calls over a day, ended in several ways, and holds of the last hour.
async fn fill(plane: &Plane, key: KeyId, calls: u64, holds: u64) {
    let day = 86_000_000 / calls.max(1);
    let ended = (0..calls).map(|number| {
        let ago = Duration::from_millis(3_600 + day * (calls - number));
        let call = sample(plane, key, number, ago);
        match number % 50 {
            0 => in_state(&call, State::Denied { reasons: Vec::new() }),
            _ => in_state(&call, finished()),
        }
    });
    let waiting = (0..holds).map(|number| {
        let call =
            sample(plane, key, calls + number, Duration::from_millis(3_600 * (holds - number)));
        let State::Held(mut hold) = held() else { panic!("it is held") };
        hold.expires_at = call.changed_at.after(Duration::from_secs(86_400));
        hold.reasons =
            vec![Reason { rule: "side_effect".into(), message: "a person decides".into() }];
        in_state(&call, State::Held(hold))
    });
    let store = &plane.store;
    let kept = stream::iter(ended.chain(waiting)).map(|call| keep(store, call));
    kept.buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
}

async fn keep(store: &Arc<dyn Store>, call: Call) {
    store.record(record(&call, None)).await.unwrap();
}

/// A client with a session.
struct Browser {
    http: Client,
    base: String,
    cookie: String,
}

impl Browser {
    async fn sign_in(base: &str, key: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        let http = http.build().unwrap();
        let form = http.post(format!("{base}/console/login")).body(format!("key={key}"));
        let answer = form
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .send()
            .await
            .unwrap();
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { http, base: base.to_owned(), cookie }
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        let request = self.http.get(format!("{}{path}", self.base));
        request.header(header::COOKIE, &self.cookie).send().await.unwrap()
    }

    /// Median time and size of a page.
    async fn time(&self, path: &str) -> (Duration, usize) {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let answer = self.get(path).await;
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
            bytes = answer.bytes().await.unwrap().len();
            times.push(began.elapsed());
        }
        times.sort_unstable();
        (times[ROUNDS / 2], bytes)
    }
}

/// Prints times and sizes; whether all are within bounds.
async fn measure(browser: &Browser, person: &Browser) -> bool {
    let mut is_fine = true;
    println!("\n{:<52} {:>9} {:>9}", "page", "median", "bytes");
    for path in [
        "/console?window=5+min",
        "/console",
        "/console?window=24+h",
        "/console/holds",
        "/console/holds?tool=echo",
        "/console/calls",
        "/console/calls?state=finished",
        "/console/calls?state=denied",
        "/console/calls?state=held",
        "/console/calls?state=cancelled",
        "/console/calls?tool=echo",
        "/console/calls?tool=echo&state=finished",
        "/console/calls?session=session-7",
        "/console/calls?session=session-7&tool=timestamp",
        "/console/calls?from=2020-01-01T00:00&until=2020-02-01T00:00",
        "/console/tools",
        "/console/tools/echo",
        "/console/sandboxes",
        "/console/policy",
        "/console/audit",
        "/console/audit?kind=key",
        "/console/keys",
        "/console/settings",
    ] {
        let by = if path.starts_with("/console/holds") { person } else { browser };
        let (median, bytes) = by.time(path).await;
        let is_over = median > MAX_TIME || bytes > MAX_BYTES;
        let mark = if is_over { "  over" } else { "" };
        println!("{path:<52} {:>6.1} ms {bytes:>9}{mark}", median.as_secs_f64() * 1e3);
        is_fine &= !is_over;
    }
    is_fine
}

/// Memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Updates an open page again and again; whether memory stays as it is.
async fn watch(plane: &Plane, browser: &Browser, key: KeyId, updates: u64, seconds: u64) -> bool {
    let mut events = browser.get("/console/live").await.bytes_stream();
    let pause = Duration::from_secs(seconds) / u32::try_from(updates.max(1)).unwrap();
    let (mut before, mut received) = (0, 0);
    for number in 0..updates {
        let call = sample(plane, key, (1 << 40) | number, Duration::ZERO);
        keep(&plane.store, in_state(&call, finished())).await;
        if number % 10 == 0 {
            browser.get("/console").await.bytes().await.unwrap();
        }
        // The first part of the updates fills caches.
        if number == updates / 4 {
            before = resident();
        }
        let arrived = tokio::time::timeout(pause, events.next()).await;
        received += usize::from(matches!(arrived, Ok(Some(Ok(_)))));
    }
    let growth = resident().saturating_sub(before);
    println!("\n{updates} updates, {received} events, memory grew by {} KiB", growth >> 10);
    received > 0 && growth < MAX_GROWTH
}
