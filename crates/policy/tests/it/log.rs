//! Decision log in OPA's format, to a file and to a service that is down at first.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use ringfence_policy::{
    Engine, Input, LogConfig, Logged, State, Target, contract, contract::document, decide,
};
use ringfence_testkit::HttpServer;
use serde_json::{Value, json};
use tempfile::tempdir;

fn rego(rules: &str) -> Arc<dyn Engine> {
    Arc::new(super::load(&format!("package ringfence\n{rules}")).expect("rules"))
}

fn config(target: Target, erase: &[&str]) -> LogConfig {
    let labels = vec![("app".to_owned(), "ringfence".to_owned())];
    LogConfig { target, erase: erase.iter().map(|text| (*text).to_owned()).collect(), labels }
}

fn entries(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

#[tokio::test]
async fn every_decision_is_a_line_with_the_fields_of_opa() {
    let dir = tempdir().expect("temp dir");
    let path = dir.path().join("decisions.ndjson");
    let rules = rego("decision := true if input.args.yes");
    let revision = rules.revision();
    let log = Logged::open(rules, config(Target::File(path.clone()), &[])).expect("a log");
    for args in [r#"{"yes":true}"#, "{}"] {
        decide(&log, &document(&["none"], args)).await;
    }
    drop(log);
    let [allowed, held] = &entries(&path)[..] else { panic!("two entries") };
    assert_eq!(allowed["labels"], json!({"app": "ringfence"}));
    assert_eq!(allowed["path"], "ringfence/decision");
    assert_eq!(allowed["input"]["args"], json!({"yes": true}));
    assert_eq!(allowed["result"]["decision"], "allow");
    assert_eq!(allowed["bundles"]["rego"]["revision"], json!(revision));
    assert_eq!(allowed["requested_by"], "019a8b7c-1234-7abc-8def-000000000001");
    assert_eq!(allowed["timestamp"], allowed["input"]["time"]);
    assert!(allowed["metrics"]["timer_server_handler_ns"].is_u64());
    assert_eq!(held["error"]["code"], "policy_unavailable");
    assert_eq!(held["result"], Value::Null);
    assert_ne!(allowed["decision_id"], held["decision_id"]);
}

#[tokio::test]
async fn what_is_to_be_erased_never_reaches_the_disk() {
    let dir = tempdir().expect("temp dir");
    let path = dir.path().join("decisions.ndjson");
    let target = Target::File(path.clone());
    let log = Logged::open(rego("decision := true"), config(target, &["/input/args"]));
    let log = log.expect("a log");
    contract::run(&log).await;
    decide(&log, &document(&[], r#"{"password":"hunter2"}"#)).await;
    drop(log);
    assert!(!fs::read_to_string(&path).expect("a log").contains("hunter2"));
    assert_eq!(entries(&path).last().expect("an entry")["erased"], json!(["/input/args"]));
}

#[tokio::test]
async fn an_entry_has_the_trace_of_its_call_and_the_document_has_not() {
    let dir = tempdir().expect("temp dir");
    let path = dir.path().join("decisions.ndjson");
    let log = Logged::open(rego("decision := true"), config(Target::File(path.clone()), &[]));
    let log = log.expect("a log");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().expect("a trace");
    let plain = document(&[], "{}");
    let traced = Input { trace: Some(trace), ..plain.clone() };
    assert_eq!(traced.text(), plain.text());
    decide(&log, &traced).await;
    decide(&log, &plain).await;
    drop(log);
    let [traced, plain] = &entries(&path)[..] else { panic!("two entries") };
    assert_eq!(traced["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(traced["span_id"], "b7ad6b7169203331");
    assert_eq!((&plain["trace_id"], &plain["span_id"]), (&Value::Null, &Value::Null));
}

/// Log entry of a document with a password, under rules with this mask.
async fn logged_with(mask: &str) -> (Value, Vec<ringfence_policy::Status>) {
    let dir = tempdir().expect("temp dir");
    let path = dir.path().join("decisions.ndjson");
    let mask = format!("package system.log\n{mask}");
    let files = [("rules.rego", "package ringfence\ndecision := true"), ("mask.rego", &mask)];
    let bundle = ringfence_policy::Bundle::from_files(files).expect("files");
    let rules = Arc::new(ringfence_policy::Rego::load(&bundle).expect("rules"));
    let log = Logged::open(rules, config(Target::File(path.clone()), &["/input/time"]));
    let log = Arc::new(log.expect("a log"));
    decide(log.as_ref(), &document(&["none"], r#"{"password":"hunter2","to":"bob"}"#)).await;
    let mut entry = Value::Null;
    for _ in 0..2_000 {
        if let Some(line) = entries(&path).pop() {
            entry = line;
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let status = log.status();
    (entry, status)
}

#[tokio::test]
async fn the_rules_say_what_is_left_out_and_what_is_replaced() {
    let (entry, status) = logged_with(
        r#"
        mask contains "/input/args/password" if input.input.tool.name == "echo"
        mask contains "/result/reasons" if input.result.decision == "deny"
        mask contains {"op": "upsert", "path": "/input/args/to", "value": x} if {
            x := sprintf("%d letters", [count(input.input.args.to)])
        }
        "#,
    )
    .await;
    assert_eq!(entry["input"]["args"], json!({"to": "3 letters"}), "{entry}");
    assert_eq!(entry["erased"], json!(["/input/time", "/input/args/password"]));
    assert_eq!(entry["masked"], json!(["/input/args/to"]));
    assert!(entry["result"]["reasons"].is_array());
    assert_eq!(status.last().expect("its own").state, State::Well);
}

#[tokio::test]
async fn a_mask_that_cannot_be_made_out_leaves_out_everything() {
    for mask in [
        r#"mask contains "/labels/app""#,
        r#"mask := 1"#,
        "mask contains x if {\n  some x in input.input.args\n}",
    ] {
        let (entry, status) = logged_with(mask).await;
        assert_eq!((&entry["input"], &entry["result"]), (&Value::Null, &Value::Null), "{mask}");
        assert_eq!(entry["erased"], json!(["/input/time", "/input", "/result"]), "{mask}");
        let problems = &status.last().expect("its own").problems;
        assert!(problems[0].contains("1 entries have neither"), "{problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_service_is_away_or_we_are() {
    let dir = tempdir().expect("temp dir");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nowhere = format!("http://{}/logs", free.local_addr().expect("an address"));
    drop(free);
    let to = |url: &str| Target::Service {
        url: url.parse().expect("an address"),
        spool: dir.path().join("spool"),
    };
    let log = Logged::open(rego("decision := true"), config(to(&nowhere), &[])).expect("a log");
    for n in 0..100 {
        decide(&log, &document(&[], &format!(r#"{{"n":{n}}}"#))).await;
    }
    super::until("the status reports failing uploads", async || {
        log.status().iter().any(|s| s.engine == "decision log" && s.state == State::Troubled)
    })
    .await;
    drop(log);
    let taken = Arc::new(Mutex::new(Vec::new()));
    let taking = taken.clone();
    let service = HttpServer::open_raw(move |path, body| {
        assert_eq!(path, "/logs");
        let mut text = String::new();
        let read =
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(body), &mut text);
        read.expect("gzip");
        let list: Vec<Value> = serde_json::from_str(&text).expect("a list");
        taking.lock().expect("no panic").extend(list);
        (200, "{}".to_owned())
    });
    let service = service.expect("a service");
    let url = format!("{}/logs", service.url());
    let log = Logged::open(rego("decision := true"), config(to(&url), &[])).expect("a log");
    decide(&log, &document(&[], r#"{"n":100}"#)).await;
    super::until("all were taken", async || taken.lock().expect("no panic").len() == 101).await;
    let numbers: Vec<_> = {
        let taken = taken.lock().expect("no panic");
        taken.iter().map(|entry| entry["input"]["args"]["n"].as_u64()).collect()
    };
    assert_eq!(numbers, (0..=100).map(Some).collect::<Vec<_>>(), "in order, each once");
    assert!(log.status().iter().all(|status| status.state == State::Well));
}
