//! The log of a server: whom each line is about, and what is in none of them.

use serde_json::{Value, json};

use crate::{
    support::{Place, Server, command, ran},
    wire,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A call within a trace.
fn traced(server: &Server, tool: &str, args: &Value) -> Value {
    let headers = [
        ("authorization", format!("Bearer {}", server.key)),
        ("traceparent", format!("00-{TRACE}-b7ad6b7169203331-00")),
    ];
    let body = json!({"tool": tool, "args": args, "persona_id": "persona-7"});
    let asked = wire::ask(&server.address, "POST", "/v1/calls", &headers, Some(&body));
    let answer = asked.expect("an answer");
    assert!(answer.status < 300, "{answer:?}");
    answer.json()
}

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).expect("a log")
}

#[test]
fn every_line_about_a_request_or_a_call_says_whose_it_is() {
    let place = Place::new();
    let level = [("RINGFENCE_LOG_LEVEL", "debug"), ("RINGFENCE_LOG_FORMAT", "json")];
    let server = place.serve_with(&level);
    let call = traced(&server, "echo", &json!({"text": "x"}));
    let admin = server.ask("GET", "/v1/calls?tool=secret-query", None);
    assert_eq!(admin.status, 200);
    assert_eq!(server.stop(), Some(0));
    let text = log(&place);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("one object")).collect();
    let said = |words: &str| {
        let found = lines.iter().filter(|line| line["message"] == words);
        found.cloned().collect::<Vec<Value>>()
    };
    let [rested] = &said("call")[..] else { panic!("{text}") };
    let of = |line: &Value, names: &[&str]| names.iter().map(|n| line[n].clone()).collect();
    let subject: Vec<Value> = of(rested, &["trace_id", "tenant", "persona_id", "call_id"]);
    assert_eq!(subject, [json!(TRACE), json!("default"), json!("persona-7"), call["id"].clone()]);
    let answered = said("answered");
    let [made, listed] = &answered[..] else { panic!("{text}") };
    let request = ["trace_id", "tenant", "method", "route", "status"];
    let request: Vec<Value> = of(made, &request);
    assert_eq!(
        request,
        [json!(TRACE), json!("default"), json!("POST"), json!("/v1/calls"), json!(200)]
    );
    assert!(made["milliseconds"].is_number());
    assert_eq!(listed["trace_id"].as_str().map(str::len), Some(32));
    assert!(!text.contains("secret-query"), "{text}");
}

#[test]
fn no_argument_no_output_and_no_key_is_logged_at_the_most_verbose_level() {
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_LOG_LEVEL", "trace")]);
    let key = server.key.clone();
    let secret = "hunter2-squeamish-ossifrage";
    traced(&server, "echo", &json!({"text": secret}));
    let printing = format!("import sys\nprint('{secret}')\nprint('{secret}', file=sys.stderr)");
    traced(&server, "code_execute", &json!({"code": printing}));
    traced(&server, "code_execute", &json!({"code": format!("raise ValueError('{secret}')")}));
    traced(&server, "http_fetch", &json!({"url": format!("https://example.com/?q={secret}")}));
    let bad = json!({"tool": "echo", "args": {"text": 7, "other": secret}, "metadata": secret});
    assert_eq!(server.ask("POST", "/v1/calls", Some(&bad)).status, 422);
    let stranger = [("x-api-key", format!("rf_{secret}"))];
    let refused = wire::ask(&server.address, "GET", "/v1/calls", &stranger, None);
    assert_eq!(refused.expect("an answer").status, 401);
    let made = server.ask("POST", "/v1/keys", Some(&json!({"label": "x", "scopes": ["read"]})));
    let made = made.json()["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(server.stop(), Some(0));
    let text = log(&place);
    // The control: the log is that verbose.
    assert!(text.contains("TRACE") || text.contains("DEBUG"), "{text}");
    assert!(text.contains(&format!("trace_id={TRACE} tenant=default persona_id=persona-7")));
    for hidden in [secret, &key, &made] {
        let line = text.lines().find(|line| line.contains(hidden));
        assert_eq!(line, None, "a secret is in the log");
    }
}

#[test]
fn the_level_can_be_a_flag_and_a_quiet_log_is_quiet() {
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_LOG_LEVEL", "error")]);
    traced(&server, "echo", &json!({"text": "x"}));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(log(&place), "");
    let mut show = command(&["config", "show", "--json", "--log-level", "debug"]);
    show.args(["--log-format", "json"]);
    let shown = ran(show.env("RINGFENCE_LOG_LEVEL", "error")).worked().stdout;
    for (name, value, source) in
        [("log.level", "debug", "--log-level"), ("log.format", "json", "--log-format")]
    {
        let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let row = rows.into_iter().find(|row| row["name"] == name).expect("it is listed");
        assert_eq!((&row["value"], &row["source"]), (&json!(value), &json!(source)));
    }
}

#[test]
fn secrets_of_the_receiver_of_traces_are_not_shown() {
    let show = |args: &[&str]| {
        let mut show = command(&["config", "show"]);
        show.args(args).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        show.env("OTEL_EXPORTER_OTLP_TIMEOUT", "2500");
        ran(show.env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2,x-other=hunter2"))
    };
    for args in [&[][..], &["--json"]] {
        let shown = show(args).worked().stdout;
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("api-key=***") && shown.contains("x-other=***"), "{shown}");
        assert!(shown.contains("2500ms"), "{shown}");
    }
    let mut wrong = command(&["serve"]);
    wrong.env("RINGFENCE_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    wrong.env("RINGFENCE_OTLP_HEADERS", "hunter2").env("RINGFENCE_OTLP_PROTOCOL", "grpc");
    let wrong = ran(&mut wrong);
    let grpc = "otlp.protocol (from RINGFENCE_OTLP_PROTOCOL): `grpc` is not supported";
    wrong.failed(2, &["otlp.headers (from RINGFENCE_OTLP_HEADERS)", grpc]);
    assert!(!wrong.stderr.contains("hunter2"), "{}", wrong.stderr);
}
