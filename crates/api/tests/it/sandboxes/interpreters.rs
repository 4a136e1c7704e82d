//! Stateful interpreters over HTTP.

use serde_json::{Value, json};

use super::{Stream, create, events, refused, sh};
use crate::support::{Answer, Plan, Server, send, with_json};

async fn start(server: &Server, place: &str, language: &str) -> String {
    let body = json!({"language": language});
    let answer = server.post(&format!("{place}/interpreters"), &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json()["language"], language);
    answer.header("location").unwrap().to_owned()
}

async fn execute(server: &Server, at: &str, code: &str) -> Value {
    let answer = server.post(&format!("{at}/execute"), &json!({"code": code})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

async fn act(server: &Server, at: &str, what: &str) -> Answer {
    send(server.request("POST", &format!("{at}/{what}"))).await
}

#[tokio::test]
async fn what_one_execution_defines_the_next_one_finds() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let cases = [
        ("python", "x = 40", "print('hi')\nx + 2", "raise ValueError('no')", "ValueError"),
        (
            "javascript",
            "var x = 40",
            "console.log('hi')\nx + 2",
            "throw new TypeError('no')",
            "TypeError",
        ),
    ];
    for (language, define, add, raise, name) in cases {
        let at = start(&server, &place, language).await;
        assert_eq!(execute(&server, &at, define).await["status"], "ok");
        let added = execute(&server, &at, add).await;
        assert_eq!((&added["stdout"], &added["count"]), (&json!("hi\n"), &json!(2)));
        let main = added["results"].as_array().unwrap().iter().find(|one| one["main"] == true);
        assert_eq!(main.unwrap()["data"]["text/plain"], "42", "{added}");
        let raised = execute(&server, &at, raise).await;
        assert_eq!((&raised["status"], &raised["error"]["name"]), (&json!("error"), &json!(name)));
        let known = server.get(&format!("{at}/variables")).await.json();
        assert!(known["variables"].to_string().contains("\"x\""), "{known}");
        let body = json!({"code": "x.", "cursor": 2});
        let completed = server.post(&format!("{at}/complete"), &body).await.json();
        assert!(!completed["matches"].as_array().unwrap().is_empty(), "{completed}");
        assert_eq!(act(&server, &at, "reset").await.status, 204);
        let known = server.get(&format!("{at}/variables")).await.json();
        assert_eq!(known["variables"], json!([]), "{language}");
        assert_eq!(act(&server, &at, "restart").await.status, 204);
        assert_eq!(execute(&server, &at, "1").await["count"], 1);
    }
    assert_eq!(server.get(&format!("{place}/interpreters")).await.json()["count"], 2);
    server.stop().await;
}

#[tokio::test]
async fn rich_values_come_in_each_of_their_types() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, "python").await;
    let code = "class Rich:\n    def _repr_html_(self): return '<b>x</b>'\nRich()";
    let shown = execute(&server, &at, code).await;
    assert_eq!(shown["results"][0]["data"]["text/html"], "<b>x</b>", "{shown}");
    server.stop().await;
}

#[tokio::test]
async fn an_execution_is_streamed_and_interrupted() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, "python").await;
    let code = "import time\nprint('begun')\ntime.sleep(600)";
    let request = server.request("POST", &format!("{at}/execute"));
    let request = with_json(request, &json!({"code": code})).header("accept", "text/event-stream");
    let mut stream = Stream::of(request).await;
    stream.until(|event| event.kind == "stdout" && event.data["text"] == "begun\n").await;
    assert_eq!(act(&server, &at, "interrupt").await.json(), json!({"interrupted": true}));
    let done = stream.until(|event| event.kind == "done").await;
    assert_eq!(done.data["status"], "interrupted");
    let kinds: Vec<_> = events(&stream.text).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.first().map(String::as_str), Some("started"));
    assert_eq!(act(&server, &at, "interrupt").await.json(), json!({"interrupted": false}));
    let body = json!({"code": "import time; print('half'); time.sleep(600)", "timeout_secs": 2});
    let late = server.post(&format!("{at}/execute"), &body).await.json();
    assert_eq!(
        (&late["status"], &late["stdout"]),
        (&json!("timed_out"), &json!("half\n")),
        "{late}"
    );
    server.stop().await;
}

#[tokio::test]
async fn two_lines_printed_with_a_wait_between_them_are_two_events() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    for (language, code) in [
        (
            "python",
            "import os, time\nprint('one')\n\
             while not os.path.exists('go'): time.sleep(0.01)\nprint('two')",
        ),
        (
            "javascript",
            "console.log('one'); while (!require('fs').existsSync('go')) \
             await new Promise((go) => setTimeout(go, 10)); console.log('two')",
        ),
    ] {
        sh(&server, &place, "rm -f go").await;
        let at = start(&server, &place, language).await;
        let request = server.request("POST", &format!("{at}/execute"));
        let request =
            with_json(request, &json!({"code": code})).header("accept", "text/event-stream");
        let mut stream = Stream::of(request).await;
        stream.until(|event| event.kind == "stdout" && event.data["text"] == "one\n").await;
        sh(&server, &place, "touch go").await;
        stream.until(|event| event.kind == "stdout" && event.data["text"] == "two\n").await;
        stream.until(|event| event.kind == "done").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn what_no_interpreter_can_do_is_refused() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let all = format!("{place}/interpreters");
    let body = json!({"language": "bash", "cwd": "x", "env": {"": "1"}, "more": 1});
    let answer = server.post(&all, &body).await;
    refused(&answer, 422, "body_invalid");
    assert_eq!(answer.pointers(), ["/language", "/cwd", "/env", "/more"]);
    let at = start(&server, &place, "python").await;
    let answer = server.post(&format!("{at}/execute"), &json!({"timeout_secs": 301})).await;
    refused(&answer, 422, "body_invalid");
    assert_eq!(answer.pointers(), ["/code", "/timeout_secs"]);
    for _ in 1..8 {
        start(&server, &place, "python").await;
    }
    let many = server.post(&all, &json!({"language": "python"})).await;
    refused(&many, 409, "sandbox_refused");
    assert_eq!(many.json()["reason"], "too_many");
    act(&server, &place, "pause").await;
    let paused = server.post(&format!("{at}/execute"), &json!({"code": "1"})).await;
    refused(&paused, 409, "sandbox_paused");
    act(&server, &place, "resume").await;
    assert_eq!(server.delete(&at).await.status, 204);
    refused(&server.delete(&at).await, 404, "not_found");
    refused(&server.post(&format!("{at}/execute"), &json!({"code": "1"})).await, 404, "not_found");
    server.stop().await;
}
