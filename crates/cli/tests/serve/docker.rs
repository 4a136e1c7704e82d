//! Tools of manifests in containers, through the server: imported, approved, called, refused, and a dead
//! engine.

use std::fs;

use ringfence_testkit::{Dockerd, docker::IMAGE};
use serde_json::{Value, json};

use crate::{
    support::{Place, Server, shown, until},
    wire,
};

const MANIFEST: &str = r#"
name: adder
version: 1.0.0
description: Adds two numbers in a container.
parameters_schema:
  type: object
  properties: {a: {type: number}, b: {type: number}, how: {type: string}}
  required: [a, b]
permissions: {memory_limit_mb: 64, cpu_limit_percent: 100, storage_quota_mb: 10}
execution:
  type: docker
  image: debian-python
  entrypoint: [python3, add.py]
  timeout: 20
  files:
    add.py: |
      import os, sys
      text = sys.stdin.read()
      assert text == os.environ["TOOL_PARAMS"]
      # The image has the smallest Python, which has no module `json`.
      given = eval(text)
      if given.get("how") == "eat":
          held = []
          while True: held.append(bytearray(b"x" * (4 << 20)))
      print('{"sum": %d, "uid": %d}' % (given["a"] + given["b"], os.getuid()))
"#;

fn ready(server: &Server) -> Value {
    wire::ask(&server.address, "GET", "/readyz", &[], None).expect("an answer").json()
}

fn import(place: &Place, server: &Server) {
    let path = place.path("adder.yaml");
    fs::write(&path, MANIFEST).expect("written");
    server.client(&["tool", "import", &shown(&path)]).worked();
    server.client(&["tool", "approve", "adder", "--why", "needed"]).worked();
}

/// A call that may fail.
fn call(server: &Server, args: &Value) -> Value {
    let body = json!({"tool": "adder", "args": args});
    server.ask("POST", "/v1/calls", Some(&body)).json()
}

#[test]
fn a_manifest_with_an_image_runs_in_a_container_of_its_own() {
    let test = "a_manifest_with_an_image_runs_in_a_container_of_its_own";
    let Some(engine) = Dockerd::shared_or_skip(test) else { return };
    let place = Place::new();
    let host = format!("unix://{}", engine.socket().display());
    let server = place.serve_with(&[("RINGFENCE_DOCKER_HOST", &host)]);
    until("the engine to be found", || ready(&server)["status"] == "ready");
    import(&place, &server);
    let called = server.call("adder", &json!({"a": 20, "b": 22}));
    assert_eq!(called["result"]["sum"], 42, "{called:#}");
    assert!(called["result"]["uid"].as_u64().is_some_and(|uid| uid >= 2_000_000_000), "{called:#}");
    let id = called["id"].as_str().expect("an id");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None).json();
    let text = receipt.to_string();
    for part in ["debian-python", "sha256:", "docker ", "runc"] {
        assert!(text.contains(part), "{part}: {receipt:#}");
    }
    let eaten = call(&server, &json!({"a": 1, "b": 2, "how": "eat"}));
    assert_eq!(eaten["error"]["code"], "memory_limit", "{eaten:#}");
    let again = server.call("adder", &json!({"a": 1, "b": 2}));
    assert_eq!(again["result"]["sum"], 3, "{again:#}");
    let all = engine.containers().expect("a list");
    assert!(all.iter().all(|one| one["Image"] != IMAGE || one["State"] != "exited"), "{all:?}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(engine.containers().expect("a list").len(), 0, "nothing is left");
}

#[test]
fn without_an_engine_it_runs_natively_or_says_what_is_missing() {
    let place = Place::new();
    let server = place.serve();
    import(&place, &server);
    let called = call(&server, &json!({"a": 1, "b": 2}));
    let error = called["error"]["message"].as_str().unwrap_or_default();
    assert!(error.contains("`docker.host`") && error.contains("debian-python"), "{called:#}");
    server.stop();
    let gone = ("RINGFENCE_DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let server = place.serve_with(&[gone]);
    let probe = ready(&server);
    assert_eq!((&probe["status"], &probe["missing"]), (&json!("degraded"), &json!(["docker"])));
    let called = call(&server, &json!({"a": 1, "b": 2}));
    let detail = called["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("container engine"), "{called:#}");
}
