//! Deliveries over the real bus to a receiver on loopback.

use std::{sync::Arc, time::Duration};

use base64::Engine as _;
use ringfence_bus::{Bus, MAX_ATTEMPTS, Message, SqliteBus};
use ringfence_sqlite::Db;
use ringfence_testkit::TestClock;
use ringfence_webhook::{Config, Counts, Secret, Webhooks};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

const SECRET: &str = "a secret between two services";

/// Request as received.
#[derive(Debug)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, wanted: &str) -> &str {
        let found = self.head.lines().filter_map(|endpoint| endpoint.split_once(": "));
        let mut found = found.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, v)| v);
        found.next_back().unwrap_or_else(|| panic!("no {wanted} in {}", self.head))
    }

    /// Whether the signature is valid, computed independently from the bytes and the secret.
    fn is_genuine(&self) -> bool {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let tag = ring::hmac::sign(&key, format!("{id}.{at}.{}", self.body).as_bytes());
        let expected = format!("v1,{}", base64::prelude::BASE64_STANDARD.encode(tag));
        self.header("webhook-signature") == expected
    }
}

/// Receiver that answers requests, one connection each, with these statuses in turn; the last one
/// repeats.
async fn receiver(answers: &'static [u16]) -> (String, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (told, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut bytes = Vec::new();
            let (head, length) = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.expect("bytes");
                bytes.extend_from_slice(&part[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length =
                        head.lines().find_map(|endpoint| endpoint.strip_prefix("content-length: "));
                    let length: usize = length.map_or(0, |length| length.parse().expect("digits"));
                    if body.len() >= length {
                        break (head.to_owned(), length);
                    }
                }
            };
            let body = String::from_utf8_lossy(&bytes[bytes.len() - length..]).into_owned();
            let status = answers.get(number).or(answers.last()).expect("an answer");
            let answer =
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("an answer");
            if told.send(Received { head, body }).is_err() {
                return;
            }
        }
    });
    (url, received)
}

async fn bus(dir: &std::path::Path) -> Arc<dyn Bus> {
    let db = Db::open(&dir.join("bus.db"), &ringfence_sqlite::Options::default());
    let options = ringfence_bus::Options::default();
    let bus =
        SqliteBus::open(db.expect("a database"), options, Arc::new(TestClock::system())).await;
    Arc::new(bus.expect("a bus"))
}

async fn start(bus: &Arc<dyn Bus>, url: &str) -> Webhooks {
    let config = Config {
        urls: vec![ringfence_egress::Target::parse(url).expect("an address")],
        secret: Secret::read(SECRET).expect("a secret"),
        topics: vec!["policy.blocked".to_owned()],
        timeout: Duration::from_secs(10),
        pause: Duration::from_millis(1),
    };
    Webhooks::start(config, bus, Arc::new(TestClock::system()), Counts::default())
        .await
        .expect("it starts")
}

fn event(id: &str) -> Message {
    Message {
        topic: "policy.blocked".to_owned(),
        key: Some(b"s-1".to_vec()),
        headers: vec![
            ("content-type".to_owned(), b"application/json".to_vec()),
            ("ce_id".to_owned(), id.as_bytes().to_vec()),
        ],
        payload: format!(r#"{{"requeue_id":"{id}"}}"#).into_bytes(),
    }
}

async fn next(received: &mut mpsc::UnboundedReceiver<Received>) -> Received {
    let next = tokio::time::timeout(Duration::from_secs(30), received.recv()).await;
    next.expect("it is told in time").expect("the receiver lives")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_comes_signed_with_its_own_bytes_and_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let bus = bus(dir.path()).await;
    let (url, mut received) = receiver(&[204]).await;
    let webhooks = start(&bus, &url).await;
    bus.publish(vec![event("one")]).await.expect("published");
    let got = next(&mut received).await;
    assert_eq!(got.body, r#"{"requeue_id":"one"}"#);
    assert_eq!((got.header("webhook-id"), got.header("ce-id")), ("one", "one"));
    assert_eq!(got.header("content-type"), "application/json");
    assert!(got.is_genuine(), "{got:?}");
    webhooks.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_taken_is_tried_again_under_the_same_name_and_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let bus = bus(dir.path()).await;
    let (url, mut received) = receiver(&[500, 302, 429, 200]).await;
    let webhooks = start(&bus, &url).await;
    bus.publish(vec![event("one"), event("two")]).await.expect("published");
    let mut names = Vec::new();
    for _ in 0..5 {
        let got = next(&mut received).await;
        assert!(got.is_genuine(), "{got:?}");
        names.push(got.header("webhook-id").to_owned());
    }
    assert_eq!(names, ["one", "one", "one", "one", "two"]);
    webhooks.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_never_accepted_is_a_dead_letter_with_its_cause() {
    let dir = tempfile::tempdir().expect("a directory");
    let bus = bus(dir.path()).await;
    let (url, mut received) = receiver(&[503]).await;
    let webhooks = start(&bus, &url).await;
    bus.publish(vec![event("one")]).await.expect("published");
    for _ in 0..MAX_ATTEMPTS {
        next(&mut received).await;
    }
    let dead = loop {
        let dead = bus.dead("policy.blocked", 0, 9).await.expect("a list");
        if !dead.is_empty() {
            break dead;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((dead.len(), dead[0].cause.as_str()), (1, "the receiver answered 503"));
    webhooks.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_stopped_server_are_delivered_after_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let bus = bus(dir.path()).await;
    let (url, mut received) = receiver(&[200]).await;
    start(&bus, &url).await.stop().await;
    bus.publish(vec![event("one")]).await.expect("published");
    let webhooks = start(&bus, &url).await;
    assert_eq!(next(&mut received).await.header("webhook-id"), "one");
    webhooks.stop().await;
}
