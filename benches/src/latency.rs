//! Single calls, all rows in turn.
//!
//! Noise must not affect one row alone, so each round takes a block of samples from every row, and
//! each round starts with another one.

use anyhow::Result;
use ringfence_sandbox::{Config, Language, Native};
use ringfence_types::Isolation;

use crate::{
    contender::Contender,
    findings::{Failed, Row},
    library::{Run, code_of, true_program},
    plan::Plan,
    session::ExecTrue,
};

/// Runs that are not counted: they fault in files and fill caches.
const WARM_UP: usize = 3;

/// Rows with samples, and those without.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    pub(crate) rows: Vec<Row>,
    pub(crate) failed: Vec<Failed>,
}

struct Entry {
    contender: Contender,
    runs: usize,
    row: Row,
    error: Option<String>,
}

/// Measures every row of the plan.
pub(crate) async fn measure(plan: &Plan) -> Latency {
    let service = Native::open(Config::service());
    // Without a pool, a zygote's child is forked during the call.
    let without_pools = Native::open(Config::one_shot());
    let mut entries = commands(plan);
    entries.extend(library(&service, &without_pools, plan.runs).await);
    for entry in &mut entries {
        warm_up(entry).await;
    }
    for round in 0..plan.rounds.max(1) {
        take_round(&mut entries, plan.rounds.max(1), round).await;
    }
    let latency = collect(entries).await;
    service.close().await;
    without_pools.close().await;
    latency
}

fn commands(plan: &Plan) -> Vec<Entry> {
    let entry = |command: &crate::plan::Command| {
        let runs = command.runs.unwrap_or(plan.runs);
        Entry::new(&command.name, runs, Contender::Command(command.argv.clone()))
    };
    plan.commands.iter().map(entry).collect()
}

async fn library(service: &Native, without_pools: &Native, runs: usize) -> Vec<Entry> {
    let python = || code_of(Language::Python, "pass");
    let on_call = Run::new(without_pools, python(), Isolation::Zygote);
    let runs_of = |name: &str, run: Run| Entry::new(name, runs, Contender::Run(Box::new(run)));
    let mut entries = vec![
        runs_of("cold true", Run::cold(without_pools, true_program())),
        runs_of("cold bash", Run::cold(without_pools, code_of(Language::Bash, ":"))),
        runs_of("cold python", Run::cold(without_pools, python())),
        runs_of("zygote python", Run::pooled(service, Language::Python, Isolation::Zygote)),
        runs_of("zygote python, fork on call", on_call),
        runs_of("warm node", Run::pooled(service, Language::Javascript, Isolation::Warm)),
    ];
    entries.push(match ExecTrue::open(without_pools).await {
        Ok(exec) => Entry::new("session exec true", runs, Contender::Session(Box::new(exec))),
        Err(error) => Entry::broken("session exec true", &error),
    });
    entries
}

impl Entry {
    fn new(name: &str, runs: usize, contender: Contender) -> Self {
        let row = Row {
            name: name.to_owned(),
            total_us: Vec::with_capacity(runs),
            setup_us: Vec::new(),
            run_us: Vec::new(),
        };
        Self { contender, runs, row, error: None }
    }

    fn broken(name: &str, error: &anyhow::Error) -> Self {
        let entry = Self::new(name, 0, Contender::Command(Vec::new()));
        Self { error: Some(format!("{error:#}")), ..entry }
    }

    /// Removes a row that failed; its reason is printed in its place.
    fn fail(&mut self, error: &anyhow::Error) {
        eprintln!("{}: {error:#}", self.row.name);
        self.error = Some(format!("{error:#}"));
    }
}

async fn warm_up(entry: &mut Entry) {
    let times = if entry.runs < 100 { 1 } else { WARM_UP };
    for _ in 0..times {
        if entry.error.is_none()
            && let Err(error) = entry.contender.sample().await
        {
            entry.fail(&error);
        }
    }
}

/// Samples of every row for this round, beginning with another row each time.
async fn take_round(entries: &mut [Entry], rounds: usize, round: usize) {
    let count = entries.len();
    for step in 0..count {
        let entry = &mut entries[(round + step) % count];
        let done_after = entry.runs * (round + 1) / rounds;
        while entry.error.is_none() && entry.row.total_us.len() < done_after {
            if let Err(error) = take_sample(entry).await {
                entry.fail(&error);
            }
        }
    }
}

async fn take_sample(entry: &mut Entry) -> Result<()> {
    let sample = entry.contender.sample().await?;
    let micros = |duration: std::time::Duration| duration.as_micros() as u64;
    entry.row.total_us.push(micros(sample.total));
    if let Some((setup, run)) = sample.split {
        entry.row.setup_us.push(micros(setup));
        entry.row.run_us.push(micros(run));
    }
    Ok(())
}

async fn collect(entries: Vec<Entry>) -> Latency {
    let mut latency = Latency::default();
    for entry in entries {
        if let Contender::Session(exec) = entry.contender {
            exec.close().await;
        }
        match entry.error {
            None => latency.rows.push(entry.row),
            Some(error) => latency.failed.push(Failed { name: entry.row.name, error }),
        }
    }
    latency
}
