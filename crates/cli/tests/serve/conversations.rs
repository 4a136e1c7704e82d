//! `kill -9` of a server in the midst of conversations: a turn ends once, no tool of it runs twice, and a client
//! that comes back misses nothing.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::Duration,
};

use ringfence_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::{
    kills::place_with_effects,
    support::{Place, Server, until},
};

/// Starts a server whose dialogue model is this one.
fn serve(place: &Place, model: &ScriptedModel) -> Server {
    let profiles = place.path("profiles.yaml");
    let url = model.base_url();
    let text = format!("T: {{profiles: [{{role: dialogue, model: m, base_url: '{url}'}}]}}\n");
    std::fs::write(&profiles, text).expect("profiles");
    let (profiles, policy) = (profiles.display().to_string(), place.path("policy"));
    place.serve_with(&[
        ("RINGFENCE_MODELS_PROFILES", &profiles),
        ("RINGFENCE_MODELS_MODE", "T"),
        ("RINGFENCE_POLICY", &policy.display().to_string()),
    ])
}

fn send(server: &Server, session: &str, message: &str) -> String {
    let body =
        json!({"session_id": session, "message": message, "metadata": {"tools": ["effect"]}});
    let sent = server.ask("POST", "/v1/session/message", Some(&body));
    assert_eq!(sent.status, 200, "{sent:?}");
    sent.json()["event_id"].as_str().expect("an id").to_owned()
}

fn events(server: &Server, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/events?limit=500");
    server.ask("GET", &path, None).json()["events"].as_array().expect("events").clone()
}

fn has(events: &[Value], kind: &str) -> bool {
    events.iter().any(|event| event["kind"] == kind)
}

/// Ids of the events of a session after a position, as server-sent events, up to the answer.
fn followed(server: &Server, session: &str, after: u64) -> Vec<u64> {
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
    let (address, key) = (&server.address, &server.key);
    let head = format!(
        "GET /v1/session/{session}/events HTTP/1.1\r\nhost: {address}\r\n\
         authorization: Bearer {key}\r\nlast-event-id: {after}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut ids = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the stream goes on until the answer");
        ids.extend(line.strip_prefix("id: ").map(|id| id.parse::<u64>().expect("a number")));
        if line == "event: assistant" {
            return ids;
        }
    }
    panic!("the stream ended before the answer: {ids:?}");
}

/// Calls of the tool with effects.
fn effects(server: &Server) -> Vec<Value> {
    let page = server.ask("GET", "/v1/calls?limit=200", None).json();
    let calls = page["calls"].as_array().expect("a list").iter();
    calls.filter(|call| call["tool"] == "effect").cloned().collect()
}

/// The only answer of a turn.
fn answer(server: &Server, session: &str, event_id: &str) -> Value {
    let ends = || -> Vec<Value> {
        let of_turn = |event: &Value| event["payload"]["correlation_id"] == event_id;
        let is_end = |event: &Value| event["kind"] == "assistant" || event["kind"] == "error";
        let all = events(server, session).into_iter();
        all.filter(|event| of_turn(event) && is_end(event)).collect()
    };
    until("the turn ends", || !ends().is_empty());
    let ends = ends();
    assert_eq!(ends.len(), 1, "{ends:?}");
    ends[0].clone()
}

#[test]
fn a_turn_that_a_kill_met_while_it_streamed_ends_once_and_a_client_misses_nothing() {
    let place = place_with_effects();
    let model = ScriptedModel::start([
        Script::Paced(vec!["I was ", "about to say"]),
        Script::Text(vec!["the whole ", "answer"]),
        Script::Text(vec!["still here"]),
    ]);
    let server = serve(&place, &model);
    let event_id = send(&server, "s", "hello");
    until("a part of the answer is shown", || has(&events(&server, "s"), "assistant.stream"));
    let seen: Vec<u64> =
        events(&server, "s").iter().map(|event| event["id"].as_u64().expect("an id")).collect();
    let last = *seen.last().expect("events");
    server.kill();
    let server = serve(&place, &model);
    let mut ids = seen;
    ids.extend(followed(&server, "s", last));
    let end = answer(&server, "s", &event_id);
    assert_eq!(end["payload"]["message"], "the whole answer");
    let stored: Vec<u64> =
        events(&server, "s").iter().map(|event| event["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids, stored, "what was seen before and after is everything, once");
    // The session goes on.
    let event_id = send(&server, "s", "and now?");
    assert_eq!(answer(&server, "s", &event_id)["payload"]["message"], "still here");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_kill_in_a_tool_loop_doubles_no_effect() {
    let place = place_with_effects();
    let model = ScriptedModel::start([
        Script::Tools(vec![("effect", json!({"n": 1}))]),
        Script::Hangs("the tool has"),
        Script::Text(vec!["done"]),
    ]);
    let server = serve(&place, &model);
    let event_id = send(&server, "s", "do it");
    // The tool has run, its result is on record, and the model is about to speak.
    model.asked(2);
    server.kill();
    let server = serve(&place, &model);
    assert_eq!(answer(&server, "s", &event_id)["payload"]["message"], "done");
    let made = effects(&server);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["state"], "finished");
    let results = events(&server, "s").iter().filter(|event| event["kind"] == "tool").count();
    assert_eq!(
        (results, model.requests().len()),
        (1, 3),
        "the first answer was not asked for again"
    );

    // Now while the tool runs: its end is unknown, and it is not begun again.
    model.then([
        Script::Tools(vec![("effect", json!({"n": 2}))]),
        Script::Text(vec!["that may have been done"]),
    ]);
    let event_id = send(&server, "s", "once more");
    let runs = |call: &Value| matches!(call["state"].as_str(), Some("running" | "dispatched"));
    until("the tool runs", || effects(&server).iter().any(runs));
    server.kill();
    let server = serve(&place, &model);
    assert_eq!(answer(&server, "s", &event_id)["payload"]["message"], "that may have been done");
    let made = effects(&server);
    assert_eq!(made.len(), 2, "{made:?}");
    let ends: Vec<_> = made.iter().filter_map(|call| call["state"].as_str()).collect();
    assert!(ends.iter().all(|end| ["finished", "outcome_unknown"].contains(end)), "{ends:?}");
    for call in &made {
        let path = format!("/v1/calls/{}/events", call["id"].as_str().expect("an id"));
        let facts = server.ask("GET", &path, None).events();
        let begun = facts.iter().filter(|(_, kind)| kind == "call.dispatched").count();
        assert_eq!(begun, 1, "{facts:?}");
    }
    assert_eq!(server.stop(), Some(0));
}
