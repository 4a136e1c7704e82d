//! Signals to all processes that can be named.

use std::time::{Duration, Instant};

use ringfence_jail::attack::{self, Answer};

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    child::{Victim, leave},
    finding::{broken, escaped, held},
};

const KILL: i32 = 9;
/// SIGURG, which is ignored unless a program asks for it.
const HARMLESS: i32 = 23;

/// A way to send a signal to a pid.
type Send = fn(i32, i32) -> Answer;

pub(super) fn cases() -> Vec<Case> {
    let aimed: [(&str, &str, Send); 3] = [
        ("K11.kill", "kill reaches no process outside", attack::send_signal),
        ("K11.tgkill", "tgkill reaches no process outside", attack::signal_thread),
        ("K11.queue", "rt_sigqueueinfo reaches no process outside", attack::queue_signal),
    ];
    let mut cases: Vec<Case> = aimed
        .into_iter()
        .map(|(id, promise, call)| {
            let attack = move |context: &AttackContext| aim(context, call);
            Case::new(Group::Kernel, id, promise, attack).judged(Criterion::DecoyAlive)
        })
        .collect();
    cases.push(
        Case::new(Group::Kernel, "K11", "kill(-1) kills only its own sandbox", all_processes)
            .judged(Criterion::DecoyAlive),
    );
    cases.push(Case::new(Group::Kernel, "K13", "a thousand orphans are reaped", orphans));
    cases
}

/// Signals the decoy by its pid on the host; the control sends a signal that is ignored by default.
fn aim(context: &AttackContext, call: Send) -> Finding {
    let Some(pid) = context.number("pid").and_then(|pid| i32::try_from(pid).ok()) else {
        return broken("the decoy's pid was not told");
    };
    context.succeeded(&format!("signal to {pid}"), call(pid, context.pick(KILL, HARMLESS)))
}

/// Signals all processes; the control only checks which it could kill.
fn all_processes(context: &AttackContext) -> Finding {
    if context.is_outside() {
        return context.succeeded("kill(-1, 0)", attack::signal_all(0));
    }
    let victims = [Victim::start(), Victim::start()];
    let answer = attack::signal_all(KILL);
    let survivors = victims.len();
    drop(victims);
    match answer {
        Ok(_) => held(format!("killed {survivors} of its own and no others")),
        Err(error) => held(format!("kill(-1): {error}")),
    }
}

/// Makes many more orphans than the sandbox may have processes, so unreaped ones would fill it.
///
/// The control is its own reaper and does not reap, so they pile up.
fn orphans(context: &AttackContext) -> Finding {
    if context.is_outside() {
        return pile_up(context);
    }
    let deadline = Instant::now() + Duration::from_secs(4);
    for number in 0..1000 {
        // Init reaps at its own pace: a full table is given time, up to the deadline.
        while let Err(error) = orphan() {
            if Instant::now() > deadline {
                return escaped(format!("the table is full after {number} orphans: {error}"));
            }
            std::thread::yield_now();
        }
    }
    held("a thousand orphans were reaped")
}

/// Makes a child that leaves a grandchild behind.
fn orphan() -> std::io::Result<()> {
    match attack::fork()? {
        Some(child) => match attack::wait(child)? {
            attack::ChildEnd::Code(0) => Ok(()),
            _ => Err(std::io::Error::other("no second fork")),
        },
        None => match attack::fork() {
            Ok(_) => leave(0),
            Err(_) => leave(1),
        },
    }
}

fn pile_up(context: &AttackContext) -> Finding {
    const MANY: usize = 40;
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        return context.refused("subreaper", &error.into());
    }
    for _ in 0..MANY {
        if let Err(error) = orphan() {
            return broken(format!("fork: {error}"));
        }
    }
    let mut reaped = 0;
    while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::empty()) {
        reaped += 1;
    }
    if reaped == MANY { escaped("forty zombies piled up") } else { broken(format!("{reaped}")) }
}
