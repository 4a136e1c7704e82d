//! Measures Ringfence beside its peers, in one run.
//!
//! `cargo xtask bench sandbox` brings the peers, writes a plan, starts this binary and prints the
//! tables. This binary only measures: plan in on standard input, findings out on standard output,
//! both JSON. It plays the spawner's part itself, as `ringfence` does. With the word `load` it
//! measures running services instead, for `cargo xtask bench load`.

mod contender;
mod findings;
mod latency;
mod library;
mod load;
mod memory;
mod plan;
mod processes;
mod processor;
mod session;
mod throughput;

use std::io::{Read, Write};

use anyhow::{Context, Result};
use ringfence_sandbox::{SPAWNER_ROLE, own_files};
use serde::{Serialize, de::DeserializeOwned};

use crate::{findings::Findings, plan::Plan, processor::Meter};

fn main() -> Result<()> {
    if std::env::args_os().next().is_some_and(|name| name == SPAWNER_ROLE) {
        ringfence_jail::spawner::serve(&own_files());
    }
    if std::env::args().nth(1).is_some_and(|word| word == "load") {
        return write(&load::measure(&read_plan()?)?);
    }
    let plan: Plan = read_plan()?;
    // Joined before the first thread and before the library determines its cgroups.
    let meter = Meter::open();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(async { tokio::spawn(measure(plan, meter)).await })??;
    drop(runtime);
    write(&findings)
}

fn write(findings: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(findings)?;
    std::io::stdout().write_all(&text).context("write the findings")
}

fn read_plan<T: DeserializeOwned>() -> Result<T> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("read the plan")?;
    serde_json::from_str(&text).context("understand the plan")
}

async fn measure(plan: Plan, meter: Meter) -> Result<Findings> {
    let latency = latency::measure(&plan).await;
    let throughput = throughput::measure(&plan, &meter).await;
    let memory = memory::measure(plan.idle_members).await;
    Ok(Findings {
        latency: latency.rows,
        failed: latency.failed,
        throughput,
        memory: memory.as_ref().ok().cloned(),
        memory_failed: memory.err().map(|error| format!("{error:#}")),
        processor_source: meter.source(),
    })
}
