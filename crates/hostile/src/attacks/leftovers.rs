//! Processes that try to outlive their run. The host looks for them by a marker in their arguments.

use std::{thread, time::Duration};

use ringfence_jail::attack;
use rustix::process::{Signal, kill_process, setsid};

use crate::{
    Case, Finding, Ground, Group, Judge,
    child::leave,
    finding::{broken, escaped},
};

/// How long one stays if nobody ends it; the suite does.
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
            let attack = move |_: &Ground| leave_behind(hide);
            Case::new(Group::Resources, id, promise, attack).judged(Judge::NobodyLeft)
        })
        .collect()
}

/// Forks twice, so that nobody here is its parent, and lets the first process report and end.
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
