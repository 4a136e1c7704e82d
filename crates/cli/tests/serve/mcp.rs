//! `ringfence mcp`: the protocol over standard input and output, and the configuration of clients.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran};

/// A client that starts `ringfence mcp`.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = command(args);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    fn of(server: &Server) -> Self {
        Self::start(&["mcp", "--data", &server.data], &[("RINGFENCE_KEY", &server.key)])
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it reads");
    }

    /// The next message with this id.
    fn answer(&mut self, id: u32) -> Value {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("it writes");
            assert!(length > 0, "it ended without an answer to {id}");
            let message: Value = serde_json::from_str(&line).expect("one message per line");
            if message["id"] == id {
                return message;
            }
        }
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(id)
    }

    /// Ends its input and waits for its end.
    fn end(mut self) -> Option<i32> {
        self.input.take();
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parameters of a request of revision 2026-07-28.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn both_revisions_are_spoken_over_standard_input_and_output() {
    let place = Place::new();
    let server = place.serve();
    let mut old = Client::of(&server);
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let begun = old.ask(1, "initialize", params);
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25", "{begun}");
    old.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = json!({"name": "echo", "arguments": {"text": "old"}});
    let called = old.ask(2, "tools/call", call);
    assert_eq!(called["result"]["structuredContent"], json!({"message": "old"}), "{called}");

    let mut new = Client::of(&server);
    let listed = new.ask(1, "tools/list", stateless(json!({})));
    let names = listed["result"]["tools"].as_array().expect("a list");
    assert!(names.iter().any(|tool| tool["name"] == "echo"), "{listed}");
    let call = stateless(json!({"name": "echo", "arguments": {"text": "new"}}));
    let called = new.ask(2, "tools/call", call);
    assert_eq!(called["result"]["structuredContent"], json!({"message": "new"}), "{called}");
    let id = called["result"]["_meta"]["dev.ringfence/call_id"].as_str().expect("an id");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None);
    assert_eq!(receipt.status, 200, "{receipt:?}");

    // A line that is no message is answered, and the next one is served.
    let input = new.input.as_mut().expect("it is open");
    writeln!(input, "not json").expect("it reads");
    let found = new.ask(3, "server/discover", stateless(json!({})));
    assert!(found["result"]["supportedVersions"].is_array(), "{found}");
    assert_eq!((old.end(), new.end()), (Some(0), Some(0)));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_cancelled_request_ends_its_call() {
    let place = Place::new();
    let server = place.serve();
    let mut client = Client::of(&server);
    let args = json!({"code": "import time\ntime.sleep(300)\n"});
    let params = stateless(json!({"name": "code_execute", "arguments": args}));
    client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}));
    let running = || {
        let calls = server.ask("GET", "/v1/calls?tool=code_execute", None).json();
        calls["calls"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    crate::support::until("the call to run", || running() == "running");
    let cancelled = json!({"requestId": 7});
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    crate::support::until("the call to end", || running() == "cancelled");
}

#[test]
fn without_a_server_one_runs_for_as_long_as_its_client() {
    let place = Place::new();
    let data = place.data().display().to_string();
    let mut client = Client::start(&["mcp", "--data", &data], &[]);
    let call = stateless(json!({"name": "echo", "arguments": {"text": "alone"}}));
    let called = client.ask(1, "tools/call", call);
    assert_eq!(called["result"]["structuredContent"], json!({"message": "alone"}), "{called}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_configuration_of_a_client_names_the_server_that_is_used() {
    let place = Place::new();
    let server = place.serve();
    let file = place.path("client.json");
    let file = file.display().to_string();
    let url = format!("http://{}", server.address);
    let variables = [("RINGFENCE_URL", url.as_str()), ("RINGFENCE_KEY", server.key.as_str())];
    let install = |more: &[&str]| {
        let mut args = vec!["mcp", "install", "cursor", "--file", &file];
        args.extend(more);
        ran(command(&args).envs(variables))
    };
    let shown = install(&[]);
    let shown: Value = serde_json::from_str(&shown.worked().stdout).expect("JSON");
    let expected = json!(["mcp", "--url", url]);
    assert_eq!(shown["mcpServers"]["ringfence"]["args"], expected);
    install(&["--write"]).worked();
    let written = std::fs::read_to_string(&file).expect("it is written");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    let entry = &written["mcpServers"]["ringfence"];
    assert_eq!(entry["args"], expected);
    // The entry works as it stands.
    let key = entry["env"]["RINGFENCE_KEY"].as_str().expect("a key");
    assert_ne!(key, server.key);
    let words: Vec<&str> =
        entry["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let mut client = Client::start(&words, &[("RINGFENCE_KEY", key)]);
    let call = stateless(json!({"name": "echo", "arguments": {"text": "there"}}));
    let called = client.ask(1, "tools/call", call);
    assert_eq!(called["result"]["structuredContent"], json!({"message": "there"}), "{called}");
}
