//! Closed loops: concurrent callers, each repeating its call as soon as it was answered.
//!
//! No work is hidden here. Pools refill while the loop runs, and the clock stops only when the last
//! sandbox is torn down, so a tier that works before or after the call shows it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use ringfence_sandbox::{Config, Language, Native};
use ringfence_types::Isolation;
use tokio::task::JoinSet;

use crate::{
    contender::time_command,
    findings::Loop,
    library::{Run, code_of, true_program, wait_for_members},
    plan::Plan,
    processor::{Meter, Used},
};

/// Operation of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    BarePython,
    ColdTrue,
    ColdPython,
    ZygotePython,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::BarePython, "bare python"),
    (Kind::ColdTrue, "cold true"),
    (Kind::ColdPython, "cold python"),
    (Kind::ZygotePython, "zygote python"),
];

/// Every kind at every concurrency, the kinds side by side so that noise affects all alike.
pub(crate) async fn measure(plan: &Plan, meter: &Meter) -> Vec<Loop> {
    let mut loops = Vec::new();
    for concurrency in &plan.concurrency {
        for (kind, name) in KINDS.into_iter().filter(|(_, name)| plan.has_loop(name)) {
            let found = one(kind, name, *concurrency, plan, meter).await;
            loops.push(found.unwrap_or_else(|error| failed(name, *concurrency, &error)));
        }
    }
    loops
}

fn failed(name: &str, concurrency: usize, error: &anyhow::Error) -> Loop {
    eprintln!("{name} at {concurrency}: {error:#}");
    Loop {
        name: name.to_owned(),
        concurrency,
        calls: 0,
        secs: 0.0,
        own_cpu_secs: None,
        machine_cpu_secs: 0.0,
        error: Some(format!("{error:#}")),
    }
}

async fn one(
    kind: Kind,
    name: &str,
    concurrency: usize,
    plan: &Plan,
    meter: &Meter,
) -> Result<Loop> {
    let native = Native::open(match kind {
        Kind::ZygotePython => Config::service(),
        _ => Config::one_shot(),
    });
    let caller = Caller { kind, run: run_of(kind, &native), bare: plan.bare_python.clone() };
    // The template, the zygote and the first members are ready before the clock starts.
    caller.call().await?;
    if kind == Kind::ZygotePython {
        wait_for_members(&native, Language::Python).await?;
    }
    let before = meter.read();
    let started = Instant::now();
    let calls = keep_calling(&caller, concurrency, Duration::from_secs_f64(plan.loop_secs)).await;
    drop(caller);
    native.close().await;
    let secs = started.elapsed().as_secs_f64();
    let Used { own, machine } = meter.read().since(&before);
    Ok(Loop {
        name: name.to_owned(),
        concurrency,
        calls: calls?,
        secs,
        own_cpu_secs: own.map(|time| time.as_secs_f64()),
        machine_cpu_secs: machine.as_secs_f64(),
        error: None,
    })
}

fn run_of(kind: Kind, native: &Native) -> Run {
    let python = code_of(Language::Python, "pass");
    match kind {
        Kind::ColdTrue => Run::cold(native, true_program()),
        Kind::ZygotePython => Run::new(native, python, Isolation::Zygote),
        Kind::BarePython | Kind::ColdPython => Run::cold(native, python),
    }
}

#[derive(Debug, Clone)]
struct Caller {
    kind: Kind,
    run: Run,
    bare: Vec<String>,
}

impl Caller {
    async fn call(&self) -> Result<()> {
        if self.kind == Kind::BarePython {
            let argv = self.bare.clone();
            return tokio::task::spawn_blocking(move || time_command(&argv)).await?.map(drop);
        }
        self.run.call().await
    }
}

async fn keep_calling(caller: &Caller, concurrency: usize, span: Duration) -> Result<u64> {
    let calls = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + span;
    let mut loops = JoinSet::new();
    for _ in 0..concurrency {
        let (caller, calls) = (caller.clone(), calls.clone());
        loops.spawn(async move {
            while Instant::now() < deadline {
                caller.call().await?;
                calls.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(calls.load(Ordering::Relaxed))
}
