//! Files of a sandbox: names, archives, what happens to them.

use std::io::Read;

use serde_json::{Value, json};

use super::{Stream, create, put, refused, sh};
use crate::support::{Answer, Plan, Server, send};

async fn post(server: &Server, path: &str) -> Answer {
    send(server.request("POST", path)).await
}

async fn unpack(server: &Server, place: &str, path: &str, bytes: Vec<u8>) -> Answer {
    let request = server.request("PUT", &format!("{place}/files/archive?path={path}"));
    send(request.header("content-type", "application/octet-stream").body(bytes)).await
}

fn tar(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Set as bytes: the library itself refuses to write what we want to be refused.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn names(bytes: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap();
    entries.map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn names_are_looked_at_made_and_changed() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let files = format!("{place}/files");
    assert_eq!(
        post(&server, &format!("{files}/directory?path=a/b")).await.json()["kind"],
        "directory"
    );
    assert_eq!(put(&server, &place, "a/b/run&mode=750", "x").await.status, 200);
    let shown = server.get(&format!("{files}/stat?path=a/b/run")).await.json();
    let expected = (&json!("file"), &json!(1), &json!("750"));
    assert_eq!((&shown["kind"], &shown["size"], &shown["mode"]), expected);
    let body = json!({"from": "a/b/run", "to": "a/done"});
    assert_eq!(server.post(&format!("{files}/rename"), &body).await.json()["path"], "a/done");
    let all = server.get(&format!("{files}?recursive=true")).await.json();
    let paths: Vec<_> =
        all["entries"].as_array().unwrap().iter().map(|e| e["path"].clone()).collect();
    assert_eq!(paths, ["a", "a/b", "a/done"]);
    let some = server.get(&format!("{files}?recursive=true&limit=1")).await.json();
    assert_eq!((some["entries"].as_array().unwrap().len(), &some["complete"]), (1, &json!(false)));

    sh(&server, &place, "ln -s /etc/passwd link; ln -s / up").await;
    assert_eq!(server.get(&format!("{files}/stat?path=link")).await.json()["kind"], "symlink");
    for (answer, status, reason) in [
        (server.get(&format!("{files}?path=link")).await, 409, "symlink"),
        (server.get(&format!("{files}?path=up/etc/passwd")).await, 409, "symlink"),
        (server.get(&format!("{files}/stat?path=none")).await, 404, "not_found"),
        (
            server.post(&format!("{files}/rename"), &json!({"from": "none", "to": "x"})).await,
            404,
            "not_found",
        ),
        (post(&server, &format!("{files}/directory?path=a/done")).await, 409, "not_a_directory"),
        (server.delete(&files).await, 409, "is_workspace"),
    ] {
        assert_eq!((answer.status, &answer.json()["reason"]), (status, &json!(reason)));
    }
    server.stop().await;
}

#[tokio::test]
async fn paths_that_lead_out_and_parameters_that_do_not_fit_are_refused() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let files = format!("{place}/files");
    for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "%00", "./a", ""] {
        for rest in ["", "/stat", "/archive", "/events"] {
            let answer = server.get(&format!("{files}{rest}?path={path}")).await;
            refused(&answer, 400, "query_invalid");
            assert_eq!(answer.pointers(), ["?path"], "{path}{rest}");
        }
        let body = json!({"from": path.replace("%00", "\0"), "to": "x"});
        let answer = server.post(&format!("{files}/rename"), &body).await;
        refused(&answer, 422, "body_invalid");
        assert_eq!(answer.pointers(), ["/from"], "{path}");
    }
    for query in ["mode=4755", "mode=999", "mode=rwx", "mode="] {
        let answer = put(&server, &place, &format!("x&{query}"), "x").await;
        refused(&answer, 400, "query_invalid");
    }
    for query in ["recursive=yes", "limit=0", "limit=10001", "deep=1"] {
        refused(&server.get(&format!("{files}?{query}")).await, 400, "query_invalid");
    }
    server.stop().await;
}

#[tokio::test]
async fn directories_go_in_and_out_as_archives() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let archive = tar(&[("one.txt", "1"), ("sub/two.txt", "22")]);
    let put = unpack(&server, &place, "in", archive).await;
    assert_eq!(
        (put.status, &put.json()["files"], &put.json()["bytes"]),
        (200, &json!(2), &json!(3))
    );
    assert_eq!(sh(&server, &place, "cat in/sub/two.txt").await.json()["stdout"], "22");
    let out = server.get(&format!("{place}/files/archive?path=in")).await;
    assert_eq!(out.header("content-type"), Some("application/x-tar"));
    assert_eq!(names(&out.bytes), ["one.txt", "sub", "sub/two.txt"]);
    let packed = server.get(&format!("{place}/files/archive?gzip=true")).await;
    assert_eq!(packed.header("content-type"), Some("application/gzip"));
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed.bytes.as_slice()).read_to_end(&mut plain).unwrap();
    assert_eq!(names(&plain), ["in", "in/one.txt", "in/sub", "in/sub/two.txt"]);
    // Far more than what waits to be sent at one time.
    sh(&server, &place, "head -c 20000000 /dev/urandom > big").await;
    let big = server.get(&format!("{place}/files/archive?path=big")).await;
    assert!(big.bytes.len() > 20_000_000 && names(&big.bytes) == ["big"], "{}", big.bytes.len());
    server.stop().await;
}

#[tokio::test]
async fn archives_that_lead_out_or_are_none_are_refused() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    for (what, bytes, code) in [
        ("a name above", tar(&[("../out", "x")]), "path_parent"),
        ("an absolute name", tar(&[("/etc/x", "x")]), "path_absolute"),
        ("no archive", b"hello".to_vec(), "archive_unknown_format"),
        ("nothing", Vec::new(), "archive_unknown_format"),
    ] {
        let answer = unpack(&server, &place, "in", bytes).await;
        refused(&answer, 409, "sandbox_refused");
        assert_eq!(answer.json()["reason"], code, "{what}");
    }
    let none = server.get(&format!("{place}/files/archive?path=none")).await;
    refused(&none, 404, "not_found");
    send(server.request("POST", &format!("{place}/pause"))).await;
    refused(&unpack(&server, &place, "in", tar(&[("a", "x")])).await, 409, "sandbox_paused");
    server.stop().await;
}

#[tokio::test]
async fn what_happens_to_files_is_streamed_until_the_sandbox_ends() {
    let config = ringfence_edge::EdgeConfig {
        heartbeat: std::time::Duration::from_millis(1),
        ..Default::default()
    };
    let server = Server::of(Plan { config, ..Plan::sandboxed() }).await;
    let place = create(&server, &json!({})).await;
    let request = server.request("GET", &format!("{place}/files/events?recursive=true"));
    let mut stream = Stream::of(request).await;
    sh(&server, &place, "mkdir d").await;
    let is = |kind: &'static str, path: &'static str| {
        move |event: &super::Event| event.kind == kind && event.data["path"] == path
    };
    let made = stream.until(is("created", "d")).await;
    assert_eq!(made.data["directory"], true);
    sh(&server, &place, "echo x > d/f; echo y > d/f; rm d/f").await;
    for kind in ["created", "modified", "removed"] {
        stream.until(is(kind, "d/f")).await;
    }
    // No event is lost while heartbeats come between.
    sh(&server, &place, "for i in $(seq 200); do : > n$i; done").await;
    stream.until(is("created", "n200")).await;
    for number in 1..=200 {
        let path = json!(format!("n{number}"));
        assert!(
            super::events(&stream.text).iter().any(|event| event.data["path"] == path),
            "{path}"
        );
    }
    assert_eq!(server.delete(&place).await.status, 204);
    assert_eq!(stream.until(|event| event.kind == "ended").await.data["reason"], "session_ended");
    let gone: Value = server.get(&format!("{place}/files/events")).await.json();
    assert_eq!(gone["code"], "not_found");
    server.stop().await;
}
