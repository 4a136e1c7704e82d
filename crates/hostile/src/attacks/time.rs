//! Cpu time and wall time: spinning and sleeping.

use std::{
    thread,
    time::{Duration, Instant},
};

use ringfence_types::{Cpus, Layer, Limit};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    finding::{escaped, held},
};

/// Duration inside: above every limit below, short enough to end by itself.
const LONG: Duration = Duration::from_secs(5);
/// Duration of a control, enough to show that no limit stops it.
const SHORT: Duration = Duration::from_millis(1200);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(Group::Resources, "R08.share", "four threads get one share of a CPU", share)
            .limited(|limits| limits.cpus = Cpus(50))
            .needing(Layer::CgroupCpu),
        Case::new(Group::Resources, "R08.time", "spinning ends at the CPU time limit", |context| {
            spin(context.pick(LONG, SHORT), 2);
            escaped("it span to the end")
        })
        .limited(|limits| limits.cpu_time = Some(Duration::from_secs(1)))
        .judged(Criterion::Limit(Limit::CpuTime))
        .needing(Layer::CgroupCpu),
        Case::new(Group::Resources, "R09", "sleeping ends at the wall limit", |context| {
            thread::sleep(context.pick(LONG, SHORT));
            escaped("it slept to the end")
        })
        .limited(|limits| limits.wall = Duration::from_secs(1))
        .judged(Criterion::Limit(Limit::Wall)),
        Case::new(Group::Resources, "R09.deaf", "ignoring signals does not help", deaf)
            .limited(|limits| limits.wall = Duration::from_secs(1))
            .judged(Criterion::Limit(Limit::Wall)),
    ]
}

fn spin(wall: Duration, threads: usize) {
    let deadline = Instant::now() + wall;
    let spinners: Vec<_> = (0..threads)
        .filter_map(|_| {
            let work = move || while Instant::now() < deadline {};
            thread::Builder::new().spawn(work).ok()
        })
        .collect();
    spinners.into_iter().for_each(|spinner| drop(spinner.join()));
}

/// Checks the share of a twentieth of a cpu; thrice that over a second is more than any scheduling
/// slack, and less than four threads get even on a busy host.
fn share(_: &AttackContext) -> Finding {
    let started = Instant::now();
    let before = cpu_time();
    spin(Duration::from_secs(1), 4);
    let used = cpu_time().saturating_sub(before);
    let share = used.as_secs_f64() / started.elapsed().as_secs_f64();
    let said = format!("used {share:.3} CPUs over {:.1?}, 0.05 are given", started.elapsed());
    if share > 0.15 { escaped(said) } else { held(said) }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Blocks every signal that can be blocked, in itself and a child, and sleeps.
fn deaf(context: &AttackContext) -> Finding {
    ringfence_jail::attack::block_signals();
    let child = ringfence_jail::attack::fork();
    thread::sleep(context.pick(LONG, SHORT));
    match child {
        Ok(None) => crate::child::leave(0),
        Ok(Some(child)) => drop(ringfence_jail::attack::wait(child)),
        Err(_) => {}
    }
    escaped("it slept to the end")
}
