//! Two servers on one database, asked about what the other one has in memory.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    postgres::{Host, call},
    support::{Server, command, ran, until},
    wire,
};

/// Two hosts of one installation, with a server on each.
fn two() -> (Host, Host, Server, Server) {
    let one = Host::first();
    one.run(&["migrate"]).worked();
    let other = Host::second(&one);
    let (first, second) = (one.serve(), other.serve());
    (one, other, first, second)
}

/// Begins a program that prints a line and goes on.
fn program(server: &Server) -> String {
    let code = "import time\nprint('live', flush=True)\ntime.sleep(50)\n";
    let body = json!({"tool": "code_execute", "args": {"code": code}, "wait": 0});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    assert!(answer.status < 300, "{answer:?}");
    answer.json()["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_call_is_waited_for_shown_and_cancelled_whichever_server_is_asked() {
    let (one, _other, first, second) = two();
    let id = program(&first);
    until("the other to see it", || call(&second, &id)["state"] == "running");
    let output = format!("/v1/calls/{id}/output/stdout?offset=0");
    let shown = second.ask("GET", &output, None);
    assert_eq!((shown.status, shown.body.as_str()), (200, "live\n"), "{shown:?}");
    // A request that was forwarded once is not forwarded again.
    let key = format!("Bearer {}", second.key);
    let marked = [("authorization", key), ("ringfence-forwarded", "1".to_owned())];
    let marked = wire::ask(&second.address, "GET", &output, &marked, None).expect("an answer");
    assert_eq!((marked.status, &marked.json()["code"]), (503, &json!("elsewhere")));
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| second.ask("GET", &format!("/v1/calls/{id}?wait=60"), None).json());
        let cancel = second.ask("DELETE", &format!("/v1/calls/{id}"), None);
        assert!(cancel.status < 300, "{cancel:?}");
        assert_eq!(waiting.join().expect("no panic")["state"], "cancelled");
    });
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}

#[test]
fn a_session_sandbox_is_used_through_another_server_until_its_own_is_gone() {
    let (_one, _other, first, second) = two();
    let made = first.ask("POST", "/v1/sandboxes", Some(&json!({"metadata": {"of": "one"}})));
    assert!(made.status < 300, "{made:?}");
    let sandbox = format!("/v1/sandboxes/{}", made.json()["id"].as_str().expect("an id"));
    let read = second.ask("GET", &sandbox, None);
    assert_eq!((read.status, &read.json()["metadata"]["of"]), (200, &json!("one")), "{read:?}");
    let run = json!({"argv": ["sh", "-c", "echo from inside > note && cat note"], "wait": 30});
    let ran = second.ask("POST", &format!("{sandbox}/exec"), Some(&run));
    assert!(ran.status < 300, "{ran:?}");
    let file = second.ask("GET", &format!("{sandbox}/files?path=note"), None);
    assert_eq!((file.status, file.body.as_str()), (200, "from inside\n"), "{file:?}");
    let size = json!({"rows": 24, "columns": 80});
    let shell = json!({"argv": ["cat"], "wait": 0, "timeout_secs": 60, "terminal": size});
    let shell = second.ask("POST", &format!("{sandbox}/exec"), Some(&shell)).json();
    let number = shell["id"].as_u64().expect("a number");
    assert!(types_into(&second, &format!("{sandbox}/exec/{number}/terminal"), "typed"));
    let gone = wire::ask(&second.address, "GET", &sandbox, &[], None).expect("an answer");
    assert_eq!(gone.status, 401, "the key is asked for before anything is forwarded");
    first.kill();
    let mut codes = Vec::new();
    until("the sandbox to be gone", || {
        let answer = second.ask("GET", &sandbox, None);
        codes.push((answer.status, answer.json()["code"].clone()));
        answer.status == 404
    });
    let expected = [(502, json!("owner_unreachable")), (404, json!("not_found"))];
    assert!(codes.iter().all(|code| expected.contains(code)), "{codes:?}");
    assert_eq!(second.stop(), Some(0));
}

/// Types a word into a terminal over a WebSocket; whether it comes back.
fn types_into(server: &Server, path: &str, word: &str) -> bool {
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let (address, key) = (&server.address, &server.key);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("a request");
    // A masked binary frame, by a mask that changes nothing.
    let mut frame =
        vec![0x82, 0x80 | u8::try_from(word.len() + 1).expect("a short word"), 0, 0, 0, 0];
    frame.extend_from_slice(word.as_bytes());
    frame.push(b'\n');
    stream.write_all(&frame).expect("a frame");
    let (mut seen, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let length = stream.read(&mut part).expect("bytes");
        seen.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&seen);
        if length == 0 || text.contains(word) {
            return text.starts_with("HTTP/1.1 101") && text.contains(word);
        }
    }
}

#[test]
fn servers_list_each_other_and_say_whose_rules_differ() {
    let (_one, other, first, second) = two();
    let differing = |server: &Server| {
        let ready = wire::ask(&server.address, "GET", "/readyz", &[], None).expect("an answer");
        ready.json()["policy"]["differing_servers"].clone()
    };
    until("both to be known", || {
        let listed = second.client(&["processes", "--json"]).worked().stdout;
        let rows: Vec<Value> =
            listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let addresses: Vec<_> = rows.iter().filter_map(|row| row["address"].as_str()).collect();
        [&first, &second]
            .iter()
            .all(|server| addresses.contains(&format!("http://{}", server.address).as_str()))
    });
    assert_eq!((differing(&first), differing(&second)), (json!(0), json!(0)));
    let rules = std::path::Path::new(&other.policy).join("rules.rego");
    let changed = format!("{}\n# changed\n", fs::read_to_string(&rules).expect("rules"));
    fs::write(&rules, changed.replace("not ours", "not ours at all")).expect("other rules");
    until("the rules to differ", || {
        differing(&first) == json!(1) && differing(&second) == json!(1)
    });
    let doctor = ran(command(&["doctor"]).envs(other.variables()));
    assert!(doctor.stdout.contains("2 different sets of rules"), "{doctor:?}");
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
}

#[test]
fn a_revoked_key_ends_its_streams_on_every_server() {
    let (_one, _other, first, second) = two();
    let body = json!({"label": "short-lived", "scopes": ["read"]});
    let key = first.ask("POST", "/v1/keys", Some(&body)).json();
    let bearer = [("authorization", format!("Bearer {}", key["secret"].as_str().expect("one")))];
    let path = format!("/v1/keys/{}", key["key_id"].as_str().expect("an id"));
    std::thread::scope(|scope| {
        let streaming =
            scope.spawn(|| wire::ask(&second.address, "GET", "/v1/events", &bearer, None));
        let streams = || second.ask("GET", "/metrics", None).body;
        until("the stream to be open", || {
            streams().lines().any(|line| line.contains("streams") && line.ends_with(" 1"))
        });
        let revoked = std::time::Instant::now();
        assert!(first.ask("DELETE", &path, None).status < 300);
        // It ends: else this test would never.
        let streamed = streaming.join().expect("no panic").expect("a whole answer");
        println!("a revoked key's stream on another server ended after {:?}", revoked.elapsed());
        assert_eq!(streamed.status, 200, "{streamed:?}");
    });
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
}

#[test]
fn of_equal_requests_to_two_servers_one_is_a_call_and_none_is_a_failure() {
    let (one, _other, first, second) = two();
    let mut won = 0;
    for round in 0..30 {
        let ask = |server: &Server| {
            let key = format!("Bearer {}", server.key);
            let headers = [("authorization", key), ("idempotency-key", format!("k{round}"))];
            let body = json!({"tool": "echo", "args": {"text": "once"}});
            wire::ask(&server.address, "POST", "/v1/calls", &headers, Some(&body))
                .expect("an answer")
        };
        let answers = std::thread::scope(|scope| {
            let asked = [&first, &second].map(|server| scope.spawn(move || ask(server)));
            asked.map(|asked| asked.join().expect("no panic"))
        });
        let known = |answer: &wire::Answer| match answer.status {
            200 => answer.json()["id"].clone(),
            409 => answer.json()["call_id"].clone(),
            _ => panic!("{answer:?}"),
        };
        assert_eq!(known(&answers[0]), known(&answers[1]), "{answers:?}");
        won += answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(ask(&first).status, 200, "it is replayed");
    }
    assert!(won >= 30, "one of each two is answered with the call: {won}");
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}
