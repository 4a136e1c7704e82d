//! Requests of any method, with headers and a body of the caller's own.

use ringfence_egress::{HeaderMap, Method};

use crate::support::{Server, fetcher, get, ok, redirect, seen};

#[tokio::test]
async fn a_method_its_headers_and_its_body_reach_the_server() {
    let server = Server::answering(ok("done")).await;
    let mut request = get(&server.url());
    request.method = Method::POST;
    request.headers.insert("x-own", "value".parse().unwrap());
    request.headers.insert("accept", "text/plain".parse().unwrap());
    request.body = "hello".into();
    assert_eq!(seen(fetcher(&[server.address]).fetch(request).await), "done");
    let head = server.heads().remove(0);
    for part in ["POST / HTTP/1.1", "x-own: value", "accept: text/plain", "content-length: 5"] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!head.contains("*/*"), "{head}");
}

#[tokio::test]
async fn headers_about_the_connection_are_refused() {
    let server = Server::answering(ok("done")).await;
    for name in ["host", "content-length", "transfer-encoding", "connection"] {
        let mut headers = HeaderMap::new();
        headers.insert(name, "1".parse().unwrap());
        let request = ringfence_egress::Request { headers, ..get(&server.url()) };
        let refused = fetcher(&[server.address]).fetch(request).await;
        assert_eq!(seen(refused), "header_invalid", "{name}");
    }
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn headers_do_not_follow_a_redirect_to_another_server() {
    let other = Server::answering(ok("other")).await;
    let server = Server::answering(redirect(&other.url())).await;
    let with_token = || {
        let mut request = get(&server.url());
        request.headers.insert("authorization", "Bearer token".parse().unwrap());
        request
    };
    let both = [server.address, other.address];
    assert_eq!(seen(fetcher(&both).fetch(with_token()).await), "other");
    assert!(server.heads()[0].contains("Bearer token"), "the control");
    assert!(!other.heads()[0].contains("Bearer token"), "{}", other.heads()[0]);
    // A redirect of a request that changes something is an answer.
    let post = ringfence_egress::Request { method: Method::POST, ..with_token() };
    assert_eq!(seen(fetcher(&both).fetch(post).await), "http_status");
    assert_eq!(other.heads().len(), 1);
}
