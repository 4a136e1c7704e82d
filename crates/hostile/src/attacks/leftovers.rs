//! Processes that try to outlive their run. The host finds them by a marker in their arguments.

use std::{thread, time::Duration};

use ringfence_jail::attack;
use rustix::process::{Signal, kill_process, setsid};

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    child::leave,
    finding::{broken, escaped},
};

/// Lifetime of such a process unless the suite ends it.
const STAY: Duration = Duration::from_secs(6);

pub(super) fn cases() -> Vec<Case> {
    let hide: [(&str, &str, fn()); 4] = [
        ("R20.child", "a child left behind dies with the run", || ()),
        ("R20.daemon", "a daemon of its own session dies with the run", || {
            let _ = setsid();
        }),
        ("R20.stopped", "a stopped process dies with the run", || {
            let _ = setsid();
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }),
        ("R20.deaf", "a process that ignores signals dies with the run", || {
            let _ = setsid();
            attack::block_signals();
        }),
    ];
    hide.into_iter()
        .map(|(id, promise, hide)| {
            let attack = move |_: &AttackContext| leave_behind(hide);
            Case::new(Group::Resources, id, promise, attack).judged(Criterion::NoSurvivors)
        })
        .collect()
}

/// Forks twice, so that the process has no parent here, and lets the first process report and end.
fn leave_behind(hide: fn()) -> Finding {
    match attack::fork() {
        Ok(None) => match attack::fork() {
            Ok(None) => {
                attack::detach_streams();
                hide();
                attack::die_after(STAY.as_secs() as u32);
                thread::sleep(STAY);
                leave(0)
            }
            _ => leave(0),
        },
        Ok(Some(child)) => {
            drop(attack::wait(child));
            escaped("a process was left behind")
        }
        Err(error) => broken(format!("fork: {error}")),
    }
}
