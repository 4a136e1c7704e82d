//! Microseconds per decision for a few kinds of rules.
//!
//! ```text
//! cargo run --release -p ringfence-policy --example cost
//! ```

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::{Duration, Instant};

use ringfence_policy::{Bundle, Engine, Input, InvalidBundle, Rego, contract::document, decide};
use ringfence_types::{Digest, Json};

/// Duration of each measurement.
const WHILE: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), InvalidBundle> {
    let arguments = r#"{"path":"notes/2026/plan.md","limit":20,"tags":["a","b"],"dry_run":true}"#;
    let input = document(&["none", "file_system"], arguments);
    let built_in = Rego::load(&Bundle::built_in())?;
    report("built-in rules, answer remembered", &built_in, &input, false).await;
    let rules = "package ringfence\ndecision := startswith(input.args.path, \"notes/\")";
    let by_argument = Rego::load(&Bundle::from_files([("rules.rego", rules)])?)?;
    report("a rule over arguments, the same ones", &by_argument, &input, false).await;
    report("a rule over arguments, new ones", &by_argument, &input, true).await;
    let rules = "package ringfence\ndecision := input.time != \"\"";
    let by_time = Rego::load(&Bundle::from_files([("rules.rego", rules)])?)?;
    report("a rule over the time, never remembered", &by_time, &input, false).await;
    println!("\nparts of the first:");
    repeat("document and its digest", || input.digest());
    repeat("digest of the arguments", || Digest::of_json(&input.args));
    Ok(())
}

async fn report(what: &str, engine: &dyn Engine, input: &Input, new: bool) {
    let mut input = input.clone();
    let (started, mut count) = (Instant::now(), 0_u32);
    while started.elapsed() < WHILE {
        if new {
            let args = format!(r#"{{"path":"notes/{count}"}}"#);
            input.args = Json::parse(args.as_bytes()).expect("an object");
        }
        std::hint::black_box(decide(engine, &input).await);
        count += 1;
    }
    println!("{:>9.2} µs  {what}", micros(started, count));
}

fn repeat<T>(what: &str, act: impl Fn() -> T) {
    let (started, mut count) = (Instant::now(), 0_u32);
    while started.elapsed() < WHILE {
        std::hint::black_box(act());
        count += 1;
    }
    println!("{:>9.2} µs  {what}", micros(started, count));
}

fn micros(started: Instant, count: u32) -> f64 {
    started.elapsed().as_secs_f64() * 1e6 / f64::from(count.max(1))
}
