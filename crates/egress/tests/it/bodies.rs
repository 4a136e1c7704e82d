//! Bodies that are too large, too short, or malformed.

use ringfence_egress::{Overflow, Request};
use ringfence_types::Bytes;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::support::{Server, fetch_from, fetcher, get, ok, options, seen};

fn at_most(server: &Server, most: u64) -> Request {
    Request { max_body: Bytes(most), ..get(&server.url()) }
}

/// Sends `head`, and then `piece` until the client has had enough.
async fn endless(mut stream: TcpStream, head: &'static str, piece: &'static [u8]) {
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(piece).await.is_ok() {}
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_body_without_end_is_cut_off_however_it_is_framed() {
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n\r\n", b"0123456789abcdef".as_slice()),
        (CHUNKED, b"10\r\n0123456789abcdef\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", b"0123456789abcdef"),
    ] {
        let server =
            Server::start("127.0.0.1:0", move |_, stream| endless(stream, head, piece)).await;
        let fetcher = fetcher(&[server.address]);
        assert_eq!(seen(fetcher.fetch(at_most(&server, 40)).await), "too_large", "{head}");
        // Control: the same server, with truncation requested.
        let beginning = Request { overflow: Overflow::Truncate, ..at_most(&server, 20) };
        let response = fetcher.fetch(beginning).await.unwrap();
        assert_eq!((response.text().as_ref(), response.truncated), ("0123456789abcdef0123", true));
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_permitted_size_passes() {
    let server = Server::answering(ok("0123456789")).await;
    let fetcher = fetcher(&[server.address]);
    let response = fetcher.fetch(at_most(&server, 10)).await.unwrap();
    assert_eq!((response.text().as_ref(), response.truncated), ("0123456789", false));
    assert_eq!(seen(fetcher.fetch(at_most(&server, 9)).await), "too_large");
    let truncating = Request { overflow: Overflow::Truncate, ..at_most(&server, 10) };
    assert!(!fetcher.fetch(truncating).await.unwrap().truncated);
}

#[tokio::test]
async fn the_operator_has_the_last_word_on_size() {
    let server = Server::answering(ok("0123456789")).await;
    let small = ringfence_egress::Options { largest_body: Bytes(9), ..options(&[server.address]) };
    let fetcher = ringfence_egress::Fetcher::system(small).unwrap();
    assert_eq!(seen(fetcher.fetch(at_most(&server, u64::MAX)).await), "too_large");
}

#[tokio::test]
async fn a_compressed_body_is_handed_over_as_sent() {
    // 20 bytes that a decompressing client would turn into an empty text, and the start of a bomb.
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n";
    let server = Server::answering([head.as_bytes(), &gzip].concat()).await;
    let response = fetch_from(&server).await.unwrap();
    assert_eq!(response.body.as_ref(), gzip);
    assert!(server.heads()[0].contains("accept-encoding: identity\r\n"), "{:?}", server.heads());
}

#[tokio::test]
async fn bytes_that_are_not_text_arrive_whole_and_read_with_replacements() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Odd: \xff\r\n\r\n";
    let server = Server::answering([head.as_slice(), b"a\xff\x00b"].concat()).await;
    let response = fetch_from(&server).await.unwrap();
    assert_eq!(response.body.as_ref(), b"a\xff\x00b");
    assert_eq!(response.text(), "a\u{fffd}\0b");
    assert_eq!(response.headers["x-odd"].as_bytes(), b"\xff");
}

#[tokio::test]
async fn a_body_that_ends_before_its_end_is_broken() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort".to_owned(),
        format!("{CHUNKED}a\r\nshort"),
        format!("{CHUNKED}5\r\nshort\r\n"),
    ] {
        let server = Server::answering(cut.clone()).await;
        assert_eq!(seen(fetch_from(&server).await), "response_invalid", "{cut}");
    }
}

#[tokio::test]
async fn a_body_that_goes_on_after_its_end_ends_there() {
    let server =
        Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst, second").await;
    assert_eq!(seen(fetch_from(&server).await), "first");
}

#[tokio::test]
async fn framing_that_contradicts_itself_or_is_no_framing_is_broken() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_owned(),
        format!("{CHUNKED}zz\r\nabc\r\n0\r\n\r\n"),
        format!("{CHUNKED}ffffffffffffffffff\r\nabc"),
        format!("{CHUNKED}3\r\nabcdef\r\n0\r\n\r\n"),
        format!("{CHUNKED}-3\r\nabc\r\n0\r\n\r\n"),
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        "<html>\r\n\r\n".to_owned(),
        "\0\0\0\0\r\n\r\n".to_owned(),
        String::new(),
    ] {
        let server = Server::answering(bytes.clone()).await;
        assert_eq!(seen(fetch_from(&server).await), "response_invalid", "{bytes}");
    }
    // Control: a valid chunked body.
    let server = Server::answering(format!("{CHUNKED}3\r\nabc\r\n3;x=y\r\ndef\r\n0\r\n\r\n")).await;
    assert_eq!(seen(fetch_from(&server).await), "abcdef");
}

#[tokio::test]
async fn an_answer_without_success_is_an_error_with_its_status() {
    for status in [101, 204, 300, 304, 404, 500, 599, 999] {
        let server =
            Server::answering(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
        let expected = if status == 204 { "" } else { "http_status" };
        assert_eq!(seen(fetch_from(&server).await), expected, "{status}");
    }
    let server = Server::answering("HTTP/1.1 418 No\r\nContent-Length: 0\r\n\r\n").await;
    let text = fetch_from(&server).await.unwrap_err().to_string();
    assert_eq!(text, "server answered with status 418");
}
