//! Headers that are too many or too large.

use tokio::{io::AsyncWriteExt, net::TcpStream};

use ringfence_egress::{Fetcher, Options, Request};

use crate::support::{Server, fetch_from, fetcher, get, ok, options, seen};

fn with_headers(headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 4\r\n\r\nbody")
}

#[tokio::test]
async fn many_headers_are_too_many_and_some_are_not() {
    for (count, expected) in [(50, "body"), (99, "body"), (100, "too_large"), (10_000, "too_large")]
    {
        let headers: String = (0..count).map(|n| format!("X-{n}: y\r\n")).collect();
        let server = Server::answering(with_headers(&headers)).await;
        assert_eq!(seen(fetch_from(&server).await), expected, "{count} headers and a length");
    }
}

#[tokio::test]
async fn large_headers_are_too_large_and_smaller_ones_are_not() {
    for (size, expected) in [(60 * 1024, "body"), (65 * 1024, "too_large"), (4 << 20, "too_large")]
    {
        let header = format!("X-Large: {}\r\n", "y".repeat(size));
        let server = Server::answering(with_headers(&header)).await;
        assert_eq!(seen(fetch_from(&server).await), expected, "{size} bytes");
    }
}

#[tokio::test]
async fn a_redirect_with_large_headers_is_not_followed() {
    let large = "y".repeat(65 * 1024);
    let server =
        Server::answering(format!("HTTP/1.1 302 Found\r\nX: {large}\r\nLocation: /\r\n\r\n")).await;
    assert_eq!(seen(fetch_from(&server).await), "too_large");
    assert_eq!(server.heads().len(), 1);
}

/// Sends `start`, and then `piece` until the client has had enough.
async fn endless(mut stream: TcpStream, start: &'static str, piece: &'static str) {
    let _ = stream.write_all(start.as_bytes()).await;
    while stream.write_all(piece.as_bytes()).await.is_ok() {}
}

#[tokio::test]
async fn a_header_and_a_status_line_without_end_are_cut_off() {
    for start in ["HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 "] {
        let server =
            Server::start("127.0.0.1:0", move |_, stream| endless(stream, start, "yyyyyyyy")).await;
        assert_eq!(seen(fetch_from(&server).await), "too_large", "{start}");
    }
}

#[tokio::test]
async fn a_server_is_told_the_trace_if_there_is_one_and_the_operator_does_not_mind() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let server = Server::answering(ok("body")).await;
    let told = || server.heads().iter().any(|head| head.contains(&format!("traceparent: {trace}")));
    let request =
        || Request { trace_parent: Some(trace.parse().expect("a trace")), ..get(&server.url()) };
    let silent = Options { pass_trace: false, ..options(&[server.address]) };
    let silent = Fetcher::system(silent).expect("a fetcher");
    assert_eq!(seen(silent.fetch(request()).await), "body");
    assert_eq!(seen(fetcher(&[server.address]).fetch(get(&server.url())).await), "body");
    assert!(!told(), "{:?}", server.heads());
    assert_eq!(seen(fetcher(&[server.address]).fetch(request()).await), "body");
    assert!(told(), "{:?}", server.heads());
}
