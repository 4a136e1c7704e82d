//! Plan of `bench load`.

use std::path::Path;

use serde_json::{Value, json};

use super::options::Options;
use super::peer::{self, Peer};
use crate::bench::peers::docker::Engine;

/// Rows of Ringfence.
pub(super) const NO_OP: &str = "ringfence no-op";
pub(super) const SKILL: &str = "ringfence skill";
/// Prefixes of the peers' rows; the number of workers follows.
pub(super) const PEER_NO_OP: &str = "fastapi no-op";
pub(super) const PEER_INSIDE: &str = "fastapi handler in process";
pub(super) const PEER_PYTHON: &str = "fastapi + python3";
pub(super) const PEER_DOCKER: &str = "fastapi + docker run";

/// Text in every call.
const TEXT: &str =
    "The quick brown fox jumps over the lazy dog.\nPack my box with five dozen jugs.";
/// Part of every correct answer and of no wrong one: an error has a `message` too.
const ECHOED: &str = "\"message\":\"The quick";
const COUNTED: &str = "\"longest\":";
/// Requests per second: low enough for an interpreter per call on two cores, so that no median
/// measures a queue.
const RATE: f64 = 25.0;
/// Requests per second for containers, each of which takes a third of a second.
const DOCKER_RATE: f64 = 1.0;

/// Services that are measured.
pub(super) struct Parties<'a> {
    pub(super) ringfence: &'a Path,
    pub(super) wrk: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) peer: Option<&'a Peer>,
    pub(super) engine: Option<&'a Engine>,
}

/// Plan for the measuring binary.
pub(super) fn plan(options: &Options, parties: &Parties<'_>) -> Value {
    let mut services = vec![ours(parties.ringfence)];
    let mut rows = our_rows();
    if let Some(peer) = parties.peer {
        services.extend([1, 2].map(|workers| peer.service(workers, parties.engine)));
        rows.extend(peer_rows(parties.engine.is_some()));
    }
    json!({
        "scratch": parties.scratch,
        "wrk": parties.wrk,
        "rounds": options.rounds,
        "loop_secs": options.loop_secs,
        "open_secs": options.open_secs,
        "starts": options.starts,
        "batches": [1, 16, 64, 256],
        "services": services,
        "rows": rows,
    })
}

fn ours(ringfence: &Path) -> Value {
    let skills = peer::peers_directory().join("skills");
    json!({
        "name": "ringfence",
        "argv": [
            ringfence, "serve", "--data", "{data}", "--listen", "127.0.0.1:0", "--skills", skills,
            "--json",
        ],
        // Without the rate limit of a key, which is not measured here.
        "env": {"RINGFENCE_API_RATE_PER_SECOND": "0"},
        "ready": "/readyz",
        "is_ours": true,
    })
}

fn our_rows() -> Vec<Value> {
    let row = |name: &str, tool: &str, answer: Value, mark: &str, connections: &[u32], flood| {
        json!({
            "name": name,
            "service": "ringfence",
            "path": "/v1/calls",
            "body": json!({"tool": tool, "args": {"text": TEXT}}).to_string(),
            "answer": answer,
            "mark": mark,
            "connections": connections,
            "rate": RATE,
            "flood": flood,
        })
    };
    vec![
        row(NO_OP, "echo", echoed(), ECHOED, &[16, 64, 256], 512),
        row(SKILL, "text_statistics", counted(), COUNTED, &[4, 16, 64], 256),
    ]
}

fn peer_rows(has_engine: bool) -> Vec<Value> {
    let mut rows = Vec::new();
    for workers in [1, 2] {
        let row = |kind: &str, path: &str, answer: Value, connections: &[u32], rate: f64| {
            let mark = if path == "/echo" { ECHOED } else { COUNTED };
            let service = peer::name(workers);
            json!({
                "name": service.replace("fastapi", kind),
                "service": service,
                "path": path,
                "body": json!({"text": TEXT}).to_string(),
                "answer": answer,
                "mark": mark,
                "connections": connections,
                "rate": rate,
                "flood": null,
            })
        };
        rows.push(row(PEER_NO_OP, "/echo", echoed(), &[16, 64, 256], RATE));
        rows.push(row(PEER_INSIDE, "/inside", counted(), &[64], RATE));
        rows.push(row(PEER_PYTHON, "/python", counted(), &[4, 16], RATE));
        if has_engine && workers == 2 {
            rows.push(row(PEER_DOCKER, "/docker", counted(), &[2, 4], DOCKER_RATE));
        }
    }
    rows
}

fn echoed() -> Value {
    json!({"message": TEXT})
}

/// Expected result of the handler, computed the same way in another language.
fn counted() -> Value {
    let words = TEXT.split_whitespace();
    let longest = words.clone().rev().max_by_key(|word| word.len());
    json!({
        "characters": TEXT.chars().count(),
        "words": words.count(),
        "lines": TEXT.lines().count(),
        "longest": longest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_asks_a_service_and_knows_its_answer() {
        let names: Vec<_> =
            our_rows().iter().chain(&peer_rows(true)).map(|row| row["name"].clone()).collect();
        let expected = [
            "ringfence no-op",
            "ringfence skill",
            "fastapi no-op, 1 worker",
            "fastapi handler in process, 1 worker",
            "fastapi + python3, 1 worker",
            "fastapi no-op, 2 workers",
            "fastapi handler in process, 2 workers",
            "fastapi + python3, 2 workers",
            "fastapi + docker run, 2 workers",
        ];
        assert_eq!(names, expected);
        let expected = json!({"characters": 78, "words": 16, "lines": 2, "longest": "quick"});
        assert_eq!(counted(), expected);
    }

    #[test]
    fn no_row_is_of_an_engine_that_is_not_there() {
        let rows = peer_rows(false);
        assert!(rows.iter().all(|row| row["path"] != "/docker"));
    }
}
