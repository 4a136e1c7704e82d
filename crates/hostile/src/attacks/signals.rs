//! Signals to whoever can be named.

use std::time::{Duration, Instant};

use ringfence_jail::attack::{self, Answer};

use crate::{
    Case, Finding, Ground, Group, Judge,
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
        ("K11.kill", "kill reaches nobody outside", attack::send_signal),
        ("K11.tgkill", "tgkill reaches nobody outside", attack::signal_thread),
        ("K11.queue", "rt_sigqueueinfo reaches nobody outside", attack::queue_signal),
    ];
    let mut cases: Vec<Case> = aimed
        .into_iter()
        .map(|(id, promise, call)| {
            let attack = move |ground: &Ground| aim(ground, call);
            Case::new(Group::Kernel, id, promise, attack).judged(Judge::DecoyAlive)
        })
        .collect();
    cases.push(
        Case::new(Group::Kernel, "K11", "kill(-1) kills only its own sandbox", everybody)
            .judged(Judge::DecoyAlive),
    );
    cases.push(Case::new(Group::Kernel, "K13", "a thousand orphans are reaped", orphans));
    cases
}

/// At the decoy's pid as the host knows it; the control sends what everybody ignores.
fn aim(ground: &Ground, call: Send) -> Finding {
    let Some(pid) = ground.number("pid").and_then(|pid| i32::try_from(pid).ok()) else {
        return broken("the decoy's pid was not told");
    };
    ground.succeeded(&format!("signal to {pid}"), call(pid, ground.pick(KILL, HARMLESS)))
}

/// The control only asks whom it could kill.
fn everybody(ground: &Ground) -> Finding {
    if ground.is_outside() {
        return ground.succeeded("kill(-1, 0)", attack::signal_everybody(0));
    }
    let victims = [Victim::start(), Victim::start()];
    let answer = attack::signal_everybody(KILL);
    let survivors = victims.len();
    drop(victims);
    match answer {
        Ok(_) => held(format!("killed {survivors} of its own and nobody else")),
        Err(error) => held(format!("kill(-1): {error}")),
    }
}

/// Many more orphans than the sandbox may have processes, so unreaped ones would fill it.
///
/// The control is its own reaper and does not reap: they pile up.
fn orphans(ground: &Ground) -> Finding {
    if ground.is_outside() {
        return pile_up(ground);
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
    held("a thousand came and went")
}

/// A child that leaves a grandchild behind.
fn orphan() -> std::io::Result<()> {
    match attack::fork()? {
        Some(child) => match attack::wait(child)? {
            attack::Ended::Code(0) => Ok(()),
            _ => Err(std::io::Error::other("no second fork")),
        },
        None => match attack::fork() {
            Ok(_) => leave(0),
            Err(_) => leave(1),
        },
    }
}

fn pile_up(ground: &Ground) -> Finding {
    const MANY: usize = 40;
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        return ground.refused("subreaper", &error.into());
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
