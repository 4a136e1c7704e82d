//! Task that reads the messages of a session's init, routes them to programs, and enforces
//! deadlines.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use ringfence_jail::{
    SetupError,
    socket::Received,
    wire::{Ended, FromInit},
};
use tokio::{
    net::unix::pipe,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Ending,
    shared::{Refusals, Shared},
};
use crate::jailed::Jailed;

/// Channel for the messages about one program. If it is full, messages are dropped, which ends the
/// program's task; a genuine init never sends that many.
pub(super) type Route = mpsc::Sender<ProgramMessage>;

/// Capacity of the channel of one program.
pub(super) const ROUTE_CAPACITY: usize = 64;

/// Message of the init about one program.
#[derive(Debug)]
pub(super) enum ProgramMessage {
    Started { pid: i32, terminal: Option<OwnedFd> },
    NotStarted(SetupError),
    Ended(Ended),
    Signalled,
}

/// Time limit for the end of a killed sandbox.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until the init is gone.
pub(super) async fn listen(shared: Arc<Shared>, jailed: Arc<Jailed>) {
    let mut cpu_check = first_cpu_check(&shared);
    let watch_guard = jailed.watch();
    loop {
        let (deadline, why) = shared.with_clock(|clock| clock.deadline());
        tokio::select! {
            biased;
            message = jailed.control.receive() => match message {
                Ok(received) => tell(&shared, received),
                Err(_) => break,
            },
            () = shared.rescheduled.notified() => {}
            _ = watch_guard.ended(), if is_alive(&shared) => shared.end(Ending::Host),
            () = sleep_until(deadline.into()), if is_alive(&shared) => shared.end(why),
            () = sleep_until(cpu_check), if is_alive(&shared) => {
                cpu_check = check_cpu(&shared, &jailed);
            }
        }
    }
    if is_alive(&shared) {
        shared.end(crashed(&shared, &jailed));
    }
    wait_for_end(&jailed).await;
    drop(jailed);
    shared.set_gone();
}

fn is_alive(shared: &Shared) -> bool {
    shared.parts().is_ok()
}

fn tell(shared: &Shared, received: Received<FromInit>) {
    let (id, message) = match received.message {
        FromInit::Started { id, pid } => {
            (id, ProgramMessage::Started { pid, terminal: received.fds.into_iter().next() })
        }
        FromInit::NotStarted { id, error } => (id, ProgramMessage::NotStarted(error)),
        FromInit::Ended(ended) => (ended.id, ProgramMessage::Ended(ended)),
        FromInit::Signalled { id } => (id, ProgramMessage::Signalled),
        FromInit::Hello | FromInit::Ready(_) | FromInit::Failed(_) => return,
    };
    if let Some(route) = shared.route(id)
        && route.try_send(message).is_err()
    {
        shared.remove_route(id);
    }
}

/// Cause of the end of an init that the service did not kill.
fn crashed(shared: &Shared, jailed: &Jailed) -> Ending {
    match shared.new_refusals(Refusals::of(jailed)).oom_kills {
        0 => Ending::Crashed,
        _ => Ending::OutOfMemory,
    }
}

/// Waits for the end. The kernel reports the end of an init only when its whole pid namespace is
/// dead.
async fn wait_for_end(jailed: &Jailed) {
    let Ok(pidfd) = rustix::io::fcntl_dupfd_cloexec(&jailed.pidfd, 3) else { return };
    // A pidfd in the runtime's nearest type; only its readiness is used.
    let Ok(pidfd) = pipe::Receiver::from_owned_fd_unchecked(pidfd) else { return };
    let _ = timeout(EXIT_TIMEOUT, pidfd.readable()).await;
}

fn first_cpu_check(shared: &Shared) -> Instant {
    let limit = shared.request.limits.cpu_time;
    Instant::now() + limit.map_or(shared.request.lifetime, |limit| soonest(shared, limit))
}

/// Ends the session if its cpu time is used up; otherwise returns the time of the next check.
fn check_cpu(shared: &Shared, jailed: &Jailed) -> Instant {
    let now = Instant::now();
    let Some(limit) = shared.request.limits.cpu_time else { return now + shared.request.lifetime };
    let stats = jailed.group.as_ref().and_then(|group| group.stats().ok()).unwrap_or_default();
    let used = stats.cpu_total.unwrap_or_default();
    if used >= limit {
        shared.end(Ending::CpuTime);
    }
    now + soonest(shared, limit.saturating_sub(used))
}

/// Earliest moment at which `left` of cpu time can be used up.
fn soonest(shared: &Shared, left: Duration) -> Duration {
    (left / shared.request.limits.cpus.whole().max(1)).max(Duration::from_millis(10))
}
