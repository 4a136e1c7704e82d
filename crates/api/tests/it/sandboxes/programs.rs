//! Programs of a sandbox: followed, fed, signalled, ended.

use ringfence_access::OPERATOR_TENANT;
use ringfence_types::Scope;
use serde_json::{Value, json};

use super::{Event, Stream, create, events, refused, sh};
use crate::support::{Answer, Plan, Server, send, with_json};

/// Starts a program without waiting for its end, and returns its place.
async fn start(server: &Server, place: &str, body: Value) -> String {
    let mut body = body;
    body["wait"] = json!(0);
    let answer = server.post(&format!("{place}/exec"), &body).await;
    assert_eq!((answer.status, &answer.json()["state"]), (202, &json!("running")), "{answer:?}");
    let at = answer.header("location").unwrap().to_owned();
    assert_eq!(at, format!("{place}/exec/{}", answer.json()["id"]));
    at
}

async fn stdin(server: &Server, at: &str, query: &str, bytes: &[u8]) -> Answer {
    let request = server.request("POST", &format!("{at}/stdin{query}"));
    send(request.header("content-type", "application/octet-stream").body(bytes.to_vec())).await
}

async fn ended(server: &Server, at: &str) -> Value {
    let shown = server.get(&format!("{at}?wait=60")).await.json();
    assert_eq!(shown["state"], "ended", "{shown}");
    shown
}

/// Data of a stream's events, put together again.
fn written(all: &[Event], stream: &str) -> String {
    let of = all.iter().filter(|event| event.kind == stream);
    of.map(|event| event.data["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_program_can_be_followed_while_it_runs_and_from_any_event() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let script = "echo first; echo bad >&2; read line; echo \"got $line\"; exit 4";
    let body = json!({"argv": ["sh", "-c", script], "stdin": {"open": true}});
    let at = start(&server, &place, body).await;

    let mut stream = Stream::of(server.request("GET", &format!("{at}/events"))).await;
    let first = stream.until(|event| event.kind == "stdout").await;
    assert_eq!(first.data, json!({"offset": 0, "bytes": 6, "text": "first\n"}));
    assert_eq!(stdin(&server, &at, "", b"typed\n").await.status, 204);
    let exit = stream.until(|event| event.kind == "exit").await;
    assert_eq!((&exit.data["exit_code"], exit.id.as_deref()), (&json!(4), Some("end")));

    let whole = server.get(&format!("{at}/events")).await;
    let all = events(std::str::from_utf8(&whole.bytes).unwrap());
    assert_eq!(written(&all, "stdout"), "first\ngot typed\n");
    assert_eq!(written(&all, "stderr"), "bad\n");
    // From wherever a client lost its connection it gets the rest, each byte once.
    for (seen, event) in all.iter().enumerate() {
        let request = server.request("GET", &format!("{at}/events"));
        let rest = send(request.header("last-event-id", event.id.as_ref().unwrap())).await;
        if event.kind == "exit" {
            assert_eq!(rest.status, 204);
            continue;
        }
        let rest = events(std::str::from_utf8(&rest.bytes).unwrap());
        for stream in ["stdout", "stderr"] {
            let both = written(&all[..=seen], stream) + &written(&rest, stream);
            assert_eq!(both, written(&all, stream));
        }
    }
    let request = server.request("GET", &format!("{at}/events")).header("last-event-id", "x");
    refused(&send(request).await, 400, "header_invalid");
    refused(&server.get(&format!("{at}/events?after=x")).await, 400, "query_invalid");
    server.stop().await;
}

#[tokio::test]
async fn what_a_program_prints_is_an_event_before_it_reads_on() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    for argv in [
        json!(["python3", "-c", "print('one'); input(); print('two')"]),
        json!(["bash", "-c", "echo one; read line; echo two"]),
        json!([
            "node",
            "-e",
            "console.log('one'); fs.readSync(0, Buffer.alloc(1)); console.log('two')"
        ]),
    ] {
        let at = start(&server, &place, json!({"argv": argv, "stdin": {"open": true}})).await;
        let mut stream = Stream::of(server.request("GET", &format!("{at}/events"))).await;
        stream.until(|event| says(event, "one")).await;
        assert_eq!(stdin(&server, &at, "?end=true", b"\n").await.status, 204);
        stream.until(|event| says(event, "two")).await;
        assert_eq!(ended(&server, &at).await["exit_code"], 0, "{argv}");
    }
    server.stop().await;
}

fn says(event: &Event, word: &str) -> bool {
    event.kind == "stdout" && event.data["text"].as_str().is_some_and(|text| text.contains(word))
}

#[tokio::test]
async fn bytes_that_are_no_text_are_told_exactly_and_gaps_are_told() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let ran = sh(&server, &place, r"printf '\377\376'").await.json();
    let at = format!("{place}/exec/{}", ran["id"]);
    let all = server.get(&format!("{at}/events")).await;
    let all = events(std::str::from_utf8(&all.bytes).unwrap());
    assert_eq!(all[0].data, json!({"offset": 0, "bytes": 2, "base64": "//4="}));
    let exact = server.get(&format!("{at}/output/stdout")).await;
    assert_eq!(
        (exact.bytes.as_slice(), exact.header("output-end")),
        (&b"\xff\xfe"[..], Some("false"))
    );
    let end = server.get(&format!("{at}/output/stdout?offset=2")).await;
    assert_eq!((end.bytes.len(), end.header("output-end")), (0, Some("true")));

    let ran = sh(&server, &place, "head -c 3000000 /dev/zero | tr '\\0' x").await.json();
    assert_eq!(ran["stdout_bytes"], 3_000_000);
    let (kept, dropped) = (786_432, 3_000_000 - 1_048_576);
    assert_eq!(ran["stdout_truncated"], json!({"at": kept, "dropped": dropped}));
    let at = format!("{place}/exec/{}", ran["id"]);
    let all = server.get(&format!("{at}/events")).await;
    let all = events(std::str::from_utf8(&all.bytes).unwrap());
    let gap = all.iter().find(|event| event.kind == "gap").unwrap();
    let expected = json!({"stream": "stdout", "offset": kept, "resume": kept + dropped});
    assert_eq!(gap.data, expected);
    assert_eq!(written(&all, "stdout").len(), 1_048_576);
    let after = server.get(&format!("{at}/output/stdout?offset={kept}")).await;
    assert_eq!(after.header("output-offset"), Some((kept + dropped).to_string().as_str()));
    refused(&server.get(&format!("{at}/output/result")).await, 404, "not_found");
    refused(&server.get(&format!("{at}/output/stdout?offset=-1")).await, 400, "query_invalid");
    server.stop().await;
}

#[tokio::test]
async fn a_program_is_fed_until_its_input_ends() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, json!({"argv": ["cat"], "stdin": {"open": true}})).await;
    assert_eq!(stdin(&server, &at, "", b"one ").await.status, 204);
    assert_eq!(stdin(&server, &at, "?end=true", b"two").await.status, 204);
    assert_eq!(ended(&server, &at).await["stdout"], "one two");
    refused(&stdin(&server, &at, "", b"more").await, 409, "sandbox_refused");

    let coded = json!({"argv": ["od", "-An", "-tx1"], "stdin": {"base64": "AP8="}});
    let ran = server.post(&format!("{place}/exec"), &coded).await.json();
    assert_eq!(ran["stdout"], " 00 ff\n");

    let closed = start(&server, &place, json!({"argv": ["sleep", "600"]})).await;
    let no = stdin(&server, &closed, "", b"x").await;
    refused(&no, 409, "sandbox_refused");
    assert_eq!(no.json()["reason"], "no_stdin");
    let request = server.request("POST", &format!("{closed}/stdin")).body("x");
    refused(&send(request).await, 415, "media_type_unsupported");
    refused(&stdin(&server, &closed, "?end=perhaps", b"x").await, 400, "query_invalid");
    server.stop().await;
}

#[tokio::test]
async fn a_program_that_does_not_read_blocks_its_writer_for_a_bounded_time() {
    let config = ringfence_edge::EdgeConfig {
        request_timeout: std::time::Duration::from_millis(500),
        ..Default::default()
    };
    let server = Server::of(Plan { config, ..Plan::sandboxed() }).await;
    let place = create(&server, &json!({})).await;
    let body = json!({"argv": ["sleep", "600"], "stdin": {"open": true}});
    let at = start(&server, &place, body).await;
    refused(&stdin(&server, &at, "", &[0; 1 << 20]).await, 409, "input_blocked");
    server.stop().await;
}

#[tokio::test]
async fn a_program_is_signalled_and_ended() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let script = "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.01; done";
    let at = start(&server, &place, json!({"argv": ["sh", "-c", script]})).await;
    let mut stream = Stream::of(server.request("GET", &format!("{at}/events"))).await;
    stream.until(|event| event.kind == "stdout").await;
    let signal = |at: String, body: Value| {
        let server = &server;
        async move { server.post(&format!("{at}/signal"), &body).await }
    };
    assert_eq!(signal(at.clone(), json!({"signal": "USR1"})).await.status, 204);
    let shown = ended(&server, &at).await;
    assert_eq!((&shown["exit_code"], &shown["stdout"]), (&json!(7), &json!("ready\ncaught\n")));
    refused(&signal(at.clone(), json!({"signal": 9})).await, 409, "sandbox_refused");
    for body in
        [json!({}), json!({"signal": "SIGTERM"}), json!({"signal": 0}), json!({"signal": 65})]
    {
        let answer = signal(at.clone(), body).await;
        refused(&answer, 422, "body_invalid");
        assert_eq!(answer.pointers(), ["/signal"]);
    }
    let by_number = start(&server, &place, json!({"argv": ["sleep", "600"]})).await;
    assert_eq!(signal(by_number.clone(), json!({"signal": 15})).await.status, 204);
    assert_eq!(ended(&server, &by_number).await["signal"], 15);

    let killed = start(&server, &place, json!({"argv": ["sleep", "600"]})).await;
    assert_eq!(server.delete(&killed).await.status, 204);
    refused(&server.delete(&killed).await, 404, "not_found");
    refused(&server.get(&killed).await, 404, "not_found");
    let left = sh(&server, &place, "ps ax -o comm= | grep -c sleep").await.json();
    assert_eq!(left["stdout"], "0\n", "{left}");
    server.stop().await;
}

#[tokio::test]
async fn programs_are_listed_and_only_so_many_are_kept() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let long = start(&server, &place, json!({"argv": ["sleep", "600"]})).await;
    for _ in 0..70 {
        let body = json!({"argv": ["true"]});
        assert_eq!(server.post(&format!("{place}/exec"), &body).await.status, 200);
    }
    let list = server.get(&format!("{place}/exec")).await.json();
    // The last one was still running when it was added; the one that runs is never forgotten.
    assert!((65..=66).contains(&list["count"].as_u64().unwrap()), "{}", list["count"]);
    let first = &list["programs"][0];
    assert_eq!((&first["state"], &first["argv"]), (&json!("running"), &json!(["sleep", "600"])));
    assert!(first.get("stdout").is_none() && first["usage"].is_null(), "{first}");
    let shown = server.get(&long).await.json();
    assert_eq!(shown["stdout"], "");
    server.stop().await;
}

#[tokio::test]
async fn a_program_lost_with_its_sandbox_is_told_so() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, json!({"argv": ["sleep", "600"]})).await;
    let mut stream = Stream::of(server.request("GET", &format!("{at}/events"))).await;
    assert_eq!(server.delete(&place).await.status, 204);
    let lost = stream.until(|event| event.kind == "lost").await;
    assert_eq!(lost.data["code"], "session_ended");
    refused(&server.get(&at).await, 404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn every_fault_of_a_program_is_named_at_once() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let body = json!({
        "argv": ["", "a\0b"], "env": {"A=B": "x"}, "cwd": "here", "stdin": {"base64": "!"},
        "terminal": {"rows": 0}, "timeout_secs": 0, "wait": 301, "shell": true,
    });
    let answer = server.post(&format!("{place}/exec"), &body).await;
    refused(&answer, 422, "body_invalid");
    let expected = [
        "/argv",
        "/argv",
        "/env",
        "/cwd",
        "/stdin",
        "/terminal/rows",
        "/terminal/columns",
        "/timeout_secs",
        "/wait",
        "/shell",
    ];
    assert_eq!(answer.pointers(), expected);
    let missing = server.post(&format!("{place}/exec"), &json!({"argv": ["no-such-thing"]})).await;
    refused(&missing, 409, "sandbox_refused");
    assert_eq!(missing.json()["reason"], "not_started");
    for at in ["0", "1", "+1", "x", "4294967296", "1/../1"] {
        refused(&server.get(&format!("{place}/exec/{at}")).await, 404, "not_found");
    }
    let reader = server.key(OPERATOR_TENANT, &[Scope::Read]).await;
    let request = server.bare("POST", &format!("{place}/exec")).bearer_auth(&reader);
    refused(&send(with_json(request, &json!({"argv": ["true"]}))).await, 403, "scope_missing");
    server.stop().await;
}
