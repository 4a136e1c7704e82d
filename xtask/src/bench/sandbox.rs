//! `bench sandbox`: every sandbox tier beside bare interpreters and peers, in one run.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::build::{self, Built};
use super::findings::{self, Findings};
use super::machine::{self, Quiet};
use super::options::{MIN_RUNS, Options};
use super::peers::{self, Peers};
use super::scratch::Directory;
use super::{aim, aims, measuring, tables};

/// Rounds over which each row's runs are spread.
const ROUNDS: usize = 10;
/// Rows that are also run in closed loops.
const LOOPS: [&str; 4] = ["bare python", "cold true", "cold python", "zygote python"];
/// Concurrent callers, one measurement for each.
const CONCURRENCY: [usize; 3] = [1, 4, 8];
/// Idle zygote children measured: as many as a pool of the default budget may hold. Shared pages are
/// divided by the number of sharers, so fewer children would each count more.
const IDLE_MEMBERS: usize = 64;
/// Interpreters of the distribution, which sandboxes of the host's root run.
const PYTHON: &str = "/usr/bin/python3";
const NODE: &str = "/usr/bin/node";

/// Builds, starts the peers, measures, prints.
pub(super) fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    let built = build::release()?;
    let scratch = Directory::create("bench")?;
    let peers = peers::gather(&scratch.path, options.docker_runs);
    let before = Quiet::look();
    println!("machine: {}", machine::describe());
    println!("before: {}", before.describe());
    before.warning().into_iter().for_each(|words| println!("{words}"));
    if options.runs < MIN_RUNS {
        println!("{} runs of each: a look, not a measurement", options.runs);
    }
    let text = measuring::measure(&built.bench, &[], &plan(options, &built, &peers))?;
    let skipped = peers.skipped.clone();
    // Peers end before the table: their daemons are part of the load.
    drop(peers);
    let mut found = findings::parse(&text)?;
    found.missing.extend(skipped);
    print(&found);
    let after = Quiet::look();
    println!("after: {}; {}", after.describe(), tables::took(started.elapsed()));
    measuring::keep(options.json.as_deref(), &text, &before, &after)
}

fn print(found: &Findings) {
    println!("\nOne call at a time\n{}", tables::latency(found));
    println!("Closed loops, refill and teardown included\n{}", tables::throughput(found));
    println!("(CPU ms/call from: {})\n", found.processor_source);
    println!("Memory\n{}", tables::memory(found));
    println!("Aims\n{}", aim::render(aims::AIMS, found));
}

fn plan(options: &Options, built: &Built, peers: &Peers) -> Value {
    let ringfence = built.ringfence.display().to_string();
    let mut commands = vec![
        json!({"name": "bare true", "argv": ["/bin/true"]}),
        json!({"name": "bare python", "argv": [PYTHON, "-c", "pass"]}),
        json!({"name": "bare node", "argv": [NODE, "-e", "0"]}),
        json!({"name": "ringfence run true", "argv": [ringfence, "run", "--", "/bin/true"]}),
        json!({"name": "ringfence run python", "argv": [ringfence, "run", "-c", "pass"]}),
    ];
    commands.extend(peers.commands.iter().cloned());
    json!({
        "runs": options.runs,
        "rounds": ROUNDS,
        "loop_secs": options.loop_millis as f64 / 1000.0,
        "loops": LOOPS,
        "concurrency": CONCURRENCY,
        "idle_members": IDLE_MEMBERS,
        "bare_python": [PYTHON, "-c", "pass"],
        "commands": commands,
    })
}
