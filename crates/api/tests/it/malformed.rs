//! Requests that are wrong in every way we could think of.

use crate::support::{Answer, Server, send};

async fn post(server: &Server, bytes: impl Into<Vec<u8>>) -> Answer {
    let request = server.request("POST", "/v1/calls").header("content-type", "application/json");
    send(request.body(bytes.into())).await
}

#[tokio::test]
async fn bodies_that_are_not_json_as_we_accept_it_are_refused() {
    let server = Server::start().await;
    let deep =
        format!("{{\"tool\":\"echo\",\"args\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&str, Vec<u8>); 12] = [
        ("empty", Vec::new()),
        ("not JSON", b"tool=echo".to_vec()),
        ("cut off", br#"{"tool":"echo","args":{"text":"#.to_vec()),
        ("followed by more", br#"{"tool":"echo","args":{}} {}"#.to_vec()),
        ("the same key twice", br#"{"tool":"echo","tool":"x","args":{}}"#.to_vec()),
        (
            "the same key twice within",
            br#"{"tool":"echo","args":{"text":"a","text":"b"}}"#.to_vec(),
        ),
        (
            "the same key twice in escapes",
            br#"{"tool":"echo","args":{"text":"a","te\u0078t":"b"}}"#.to_vec(),
        ),
        ("bytes that are no text", b"{\"tool\":\"\xff\xfe\",\"args\":{}}".to_vec()),
        ("half a surrogate pair", br#"{"tool":"echo","args":{"text":"\ud800"}}"#.to_vec()),
        ("a number out of range", br#"{"tool":"echo","args":{"text":1e999}}"#.to_vec()),
        ("not a number", br#"{"tool":"echo","args":{"text":NaN}}"#.to_vec()),
        ("a hundred thousand levels", deep.into_bytes()),
    ];
    for (what, body) in cases {
        let answer = post(&server, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "body_malformed"), "{what}");
    }
    server.stop().await;
}

#[tokio::test]
async fn bodies_that_are_no_objects_are_refused() {
    let server = Server::start().await;
    for body in ["[]", "null", "5", "\"x\"", "true"] {
        let answer = post(&server, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "body_invalid"), "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_of_another_type_or_compressed_is_refused() {
    let server = Server::start().await;
    let good = r#"{"tool":"echo","args":{"text":""}}"#;
    let ask = |kind: &'static str, coding: Option<&'static str>| {
        let mut request = server.request("POST", "/v1/calls").body(good);
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        if let Some(coding) = coding {
            request = request.header("content-encoding", coding);
        }
        send(request)
    };
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ";"] {
        let answer = ask(kind, None).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (415, "media_type_unsupported"),
            "{kind}"
        );
    }
    for coding in ["gzip", "br", "identity, gzip"] {
        let answer = ask("application/json", Some(coding)).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (415, "media_type_unsupported"),
            "{coding}"
        );
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(ask(kind, Some("identity")).await.status, 200, "{kind}");
    }
    server.stop().await;
}

/// Once the codings before `chunked` were ignored, and the body taken without them.
#[tokio::test]
async fn transfer_codings_other_than_chunked_are_refused() {
    let server = Server::start().await;
    let ask = async |codings: &[&str]| {
        let body = r#"{"tool":"echo","args":{"text":""}}"#;
        let codings: String =
            codings.iter().map(|coding| format!("transfer-encoding: {coding}\r\n")).collect();
        let request = format!(
            "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{codings}connection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            server.admin,
            body.len()
        );
        String::from_utf8(server.raw(request.as_bytes()).await).unwrap()
    };
    for codings in [
        &["gzip, chunked"][..],
        &["gzip", "chunked"],
        &["identity, chunked"],
        &["chunked, chunked"],
        &["deflate,chunked"],
    ] {
        let answer = ask(codings).await;
        assert!(answer.starts_with("HTTP/1.1 501 "), "{codings:?}: {answer}");
        assert!(answer.contains(r#""code":"transfer_encoding_unsupported""#), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }
    // Control: the same body, with the one coding that is undone.
    for coding in ["chunked", "Chunked"] {
        let answer = ask(&[coding]).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{coding}: {answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn paths_and_methods_that_do_not_exist_are_problems_too() {
    let server = Server::start().await;
    let answer = server.get("/v1/nope").await;
    assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"));
    let answer = server.delete("/v1/calls").await;
    assert_eq!((answer.status, answer.problem().as_str()), (405, "method_not_allowed"));
    let mut allowed: Vec<_> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    let answer = send(server.request("BREW", "/v1/tools")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (405, "method_not_allowed"));
    let head = send(server.request("HEAD", "/v1/tools")).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    for path in [
        "/v1/calls/%ff",
        "/v1/calls/x",
        "/v1/calls/..%2f..",
        "/v1/canvas/%00",
        "/v1/tools/%20",
        "//v1/tools",
    ] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_shows_nothing_of_the_host() {
    let server = Server::start().await;
    let bodies = [
        r#"{"tool":"file_read","args":{"path":"../../etc/passwd"}}"#,
        r#"{"tool":"file_read","args":{"path":"/etc/passwd"}}"#,
        r#"{"tool":"code_execute","args":{"code":"1"}}"#,
        r#"{"tool":"echo","args":{}}"#,
    ];
    let host = server.skills().parent().unwrap().display().to_string();
    for body in bodies {
        let answer = post(&server, body).await;
        let text = String::from_utf8(answer.bytes).unwrap();
        assert!(!text.contains(&host) && !text.contains("root:"), "{body}: {text}");
    }
    server.stop().await;
}
