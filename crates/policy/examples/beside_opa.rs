//! Comparison of the embedded rules with a real OPA server on loopback in one run; started by `cargo
//! xtask bench policy`. Prints one object with all samples, in nanoseconds.
//!
//! Both get the same rules and the same documents, one after the other. Each document has new
//! arguments, so that no answer is cached, except in the rows that say so. The rules of the last rows
//! have conditions that cannot be looked up, so that each of them is evaluated.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use ringfence_policy::{
    Bundle, Engine, Input, Opa, OpaConfig, Rego, Remote, Shape, Undefined, contract::document,
};
use ringfence_testkit::{Opa as Server, server};
use ringfence_types::{Json, Verdict};
use serde_json::{Value, json};

/// Rules in a bundle.
const SIZES: [usize; 3] = [1, 100, 1_000];
/// Evaluations before the measurement.
const WARM_UP: usize = 200;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: usize = std::env::args().nth(1).map_or(Ok(5_000), |word| word.parse())?;
    let program = server::OPA.program().ok_or("no `opa`: `cargo xtask services build`")?;
    let mut rows = Vec::new();
    for size in SIZES {
        let rules = rules(size);
        let embedded = Rego::load(&Bundle::from_files([("rules.rego", rules.as_str())])?)?;
        let server = Server::start(&program, "1", &[("rules.rego", &rules)])?;
        let opa = opa(&server.url())?;
        rows.push(row("embedded", size, measure(&embedded, runs, true).await));
        rows.push(row("embedded, remembered", size, measure(&embedded, runs, false).await));
        rows.push(row("OPA server", size, measure(&opa, runs.min(3_000), true).await));
    }
    for size in SIZES.into_iter().skip(1) {
        let rules = searching(size);
        let embedded = Rego::load(&Bundle::from_files([("rules.rego", rules.as_str())])?)?;
        let server = Server::start(&program, "1", &[("rules.rego", &rules)])?;
        let opa = opa(&server.url())?;
        let runs = runs.min(500);
        rows.push(row("embedded, every rule", size, measure(&embedded, runs, true).await));
        rows.push(row("OPA server, every rule", size, measure(&opa, runs, true).await));
    }
    println!("{}", json!({"rows": rows}));
    Ok(())
}

fn row(name: &str, rules: usize, nanos: Vec<u64>) -> Value {
    json!({"name": name, "rules": rules, "nanos": nanos})
}

/// Rules as in practice: a few facts, exceptions by argument, and one summarizing rule. `size` rules in
/// all, and all of them are evaluated before the answer is an allow.
fn rules(size: usize) -> String {
    let mut text = String::from("package ringfence\n");
    if size == 1 {
        text += "decision := startswith(input.args.path, \"notes/\")\n";
        return text;
    }
    for index in 0..size - 2 {
        let rule = format!("deny_{index}");
        let _ = match index % 3 {
            0 => writeln!(
                text,
                "reasons contains \"{rule}\" if input.args.path == \"secret/{index}\""
            ),
            1 => writeln!(
                text,
                "reasons contains \"{rule}\" if startswith(input.args.path, \"private/{index}/\")"
            ),
            _ => writeln!(
                text,
                "reasons contains \"{rule}\" if {{ input.args.size > {} ; input.tenant == \"t{index}\" }}",
                1_000_000 + index
            ),
        };
    }
    text += "decision := {\"decision\": \"allow\"} if count(reasons) == 0\n";
    text += "decision := {\"decision\": \"deny\"} if count(reasons) > 0\n";
    text
}

/// Rules that must all be evaluated: their search text may be anywhere in a string.
fn searching(size: usize) -> String {
    let mut text = String::from("package ringfence\n");
    for index in 0..size - 2 {
        let when = format!("contains(input.args.path, \"/secret/{index}/\")");
        let _ = writeln!(text, "reasons contains \"deny_{index}\" if {when}");
    }
    text += "decision := {\"decision\": \"allow\"} if count(reasons) == 0\n";
    text += "decision := {\"decision\": \"deny\"} if count(reasons) > 0\n";
    text
}

fn opa(url: &str) -> Result<Opa, Box<dyn std::error::Error>> {
    let remote = Remote {
        name: "opa".to_owned(),
        url: url.parse()?,
        timeout: Duration::from_secs(4),
        authorization: None,
    };
    let path = "/v1/data/ringfence/decision".to_owned();
    let (shape, undefined) = (Shape::Document, Undefined::Deny);
    Ok(Opa::open(OpaConfig { remote, path, shape, undefined })?)
}

async fn measure(engine: &dyn Engine, runs: usize, is_new: bool) -> Vec<u64> {
    let mut input = document(&["none", "file_system"], "{}");
    let mut nanos = Vec::with_capacity(runs);
    for number in 0..WARM_UP + runs {
        set(&mut input, if is_new { number } else { 0 });
        let started = Instant::now();
        let answer = engine.evaluate(&input).await;
        let took = started.elapsed();
        assert_eq!(answer.map(|answer| answer.verdict).ok(), Some(Verdict::Allow));
        if number >= WARM_UP {
            nanos.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }
    nanos
}

fn set(input: &mut Input, number: usize) {
    let args = format!(r#"{{"path":"notes/{number}.md","size":{number},"tags":["a","b"]}}"#);
    input.args = Json::parse(args.as_bytes()).expect("an object");
}
