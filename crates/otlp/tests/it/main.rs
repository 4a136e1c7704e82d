//! Exporter against receivers on real sockets: delivered and dropped spans, and their counts. That the
//! bytes are OTLP is checked with OpenTelemetry's own messages, in `crates/cli/tests/observe`.

use std::{net::SocketAddr, time::Duration};

use ringfence_otlp::{Config, Exporter};
use ringfence_types::{Span, SpanId, SpanKind, Timestamp, TraceId, TraceParent};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn config(address: SocketAddr) -> Config {
    Config {
        endpoint: format!("http://{address}/v1/traces").parse().expect("an address"),
        headers: Default::default(),
        timeout: Duration::from_secs(10),
        queue: 100,
        sample: 1.0,
        resource: vec![("service.name".to_owned(), "test".to_owned())],
    }
}

fn span(number: u64) -> Span {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    Span {
        context: TraceParent::begin(TraceId::from_random(7), SpanId::from_random(number), true),
        parent: None,
        is_parent_remote: false,
        state: None,
        name: "work".into(),
        kind: SpanKind::Internal,
        started_at: at,
        ended_at: at,
        attributes: vec![("answer", 42_i64.into())],
        failure: None,
    }
}

/// Receiver that answers each request with this text.
async fn receiver(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, answer: &'static str) -> std::io::Result<()> {
    let mut got = Vec::new();
    loop {
        if stream.read_buf(&mut got).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
        if got.len() >= head.len() + 4 + length {
            got.clear();
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

/// Exports this many spans, closes, and returns the numbers of delivered and dropped spans.
async fn sent(config: Config, spans: u64, timeout: Duration) -> (u64, u64) {
    let exporter = Exporter::start(config).expect("a client");
    let (taking, counts) = (exporter.spans(), exporter.counts().clone());
    (1..=spans).for_each(|number| taking.take(span(number)));
    exporter.close(timeout).await;
    (counts.total_delivered(), counts.total_dropped())
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_was_taken_is_delivered_before_the_end() {
    let good = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(sent(config(good), 30, LONG).await, (30, 0));
    // More than fit into one request.
    let queue = 2_000;
    assert_eq!(sent(Config { queue, ..config(good) }, 1_300, LONG).await, (1_300, 0));
}

#[tokio::test]
async fn what_a_receiver_does_not_want_is_dropped_at_once() {
    for refusal in [
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        // A redirect might lead secrets in headers elsewhere.
        "HTTP/1.1 307 Moved\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n",
    ] {
        assert_eq!(sent(config(receiver(refusal).await), 30, LONG).await, (0, 30), "{refusal}");
    }
}

#[tokio::test]
async fn some_of_a_request_may_be_rejected() {
    // partial_success { rejected_spans: 2 }
    let partly = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\x0a\x02\x08\x02";
    assert_eq!(sent(config(receiver(partly).await), 30, LONG).await, (28, 2));
    // More rejected spans than were sent.
    let lying = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\x0a\x02\x08\x7f";
    assert_eq!(sent(config(receiver(lying).await), 30, LONG).await, (0, 30));
}

#[tokio::test]
async fn closing_does_not_wait_for_an_unreachable_receiver() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let away = listener.local_addr().expect("an address");
    drop(listener);
    assert_eq!(sent(config(away), 30, LONG).await, (0, 30));
}

#[tokio::test]
async fn a_receiver_that_hangs_is_cut_off_and_nothing_goes_uncounted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hanging = listener.local_addr().expect("an address");
    let few = Config { queue: 10, ..config(hanging) };
    assert_eq!(sent(few, 30, Duration::from_millis(50)).await, (0, 30));
}

#[tokio::test]
async fn a_share_of_the_traces_that_begin_here_is_recorded() {
    let good = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for (sample, least, most) in [(0.0, 0, 0), (0.25, 200, 300), (1.0, 1_000, 1_000)] {
        let exporter = Exporter::start(Config { sample, ..config(good) }).expect("a client");
        let spread = |number: u64| u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let traces = (1..=1_000).map(|number| TraceId::from_random(spread(number)));
        let recorded = traces.filter(|trace| exporter.spans().samples(*trace)).count();
        assert!((least..=most).contains(&recorded), "{sample}: {recorded}");
        exporter.close(LONG).await;
    }
}
