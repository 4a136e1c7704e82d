//! The task that listens to a session's init: messages to whom they concern, the end when due.

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
use crate::cell::Cell;

/// The way a program's messages take. A full one drops messages, and its program's task with them;
/// an honest init never says that much.
pub(super) type Route = mpsc::Sender<Heard>;

/// Messages that may wait for one program's task.
pub(super) const ROUTE: usize = 64;

/// What the init said of one program.
#[derive(Debug)]
pub(super) enum Heard {
    Started { pid: i32, terminal: Option<OwnedFd> },
    NotStarted(SetupError),
    Ended(Ended),
    Signalled,
}

/// How long the kernel may take to end a killed sandbox before we stop waiting for it.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// Listens until the init is gone.
pub(super) async fn listen(shared: Arc<Shared>, cell: Arc<Cell>) {
    let mut cpu_check = first_cpu_check(&shared);
    let ward = cell.enlist();
    loop {
        let (deadline, why) = shared.with_clock(|clock| clock.deadline());
        tokio::select! {
            biased;
            heard = cell.control.receive() => match heard {
                Ok(received) => tell(&shared, received),
                Err(_) => break,
            },
            () = shared.rescheduled.notified() => {}
            _ = ward.ended(), if is_alive(&shared) => shared.end(Ending::Host),
            () = sleep_until(deadline.into()), if is_alive(&shared) => shared.end(why),
            () = sleep_until(cpu_check), if is_alive(&shared) => {
                cpu_check = check_cpu(&shared, &cell);
            }
        }
    }
    if is_alive(&shared) {
        shared.end(crashed(&shared, &cell));
    }
    wait_for_end(&cell).await;
    drop(cell);
    shared.set_gone();
}

fn is_alive(shared: &Shared) -> bool {
    shared.parts().is_ok()
}

fn tell(shared: &Shared, received: Received<FromInit>) {
    let (id, heard) = match received.message {
        FromInit::Started { id, pid } => {
            (id, Heard::Started { pid, terminal: received.fds.into_iter().next() })
        }
        FromInit::NotStarted { id, error } => (id, Heard::NotStarted(error)),
        FromInit::Ended(ended) => (ended.id, Heard::Ended(ended)),
        FromInit::Signalled { id } => (id, Heard::Signalled),
        FromInit::Hello | FromInit::Ready(_) | FromInit::Failed(_) => return,
    };
    if let Some(route) = shared.route(id)
        && route.try_send(heard).is_err()
    {
        shared.remove_route(id);
    }
}

/// Why an init is gone that nobody of ours killed.
fn crashed(shared: &Shared, cell: &Cell) -> Ending {
    match shared.new_refusals(Refusals::of(cell)).oom_kills {
        0 => Ending::Crashed,
        _ => Ending::OutOfMemory,
    }
}

/// The kernel reports the end of an init only when all of its pid namespace is dead.
async fn wait_for_end(cell: &Cell) {
    let Ok(pidfd) = rustix::io::fcntl_dupfd_cloexec(&cell.pidfd, 3) else { return };
    // No pipe, but the runtime's nearest type: only readiness is asked of it.
    let Ok(pidfd) = pipe::Receiver::from_owned_fd_unchecked(pidfd) else { return };
    let _ = timeout(LAST_BREATH, pidfd.readable()).await;
}

fn first_cpu_check(shared: &Shared) -> Instant {
    let limit = shared.request.limits.cpu_time;
    Instant::now() + limit.map_or(shared.request.lifetime, |limit| soonest(shared, limit))
}

/// Ends the session if its cpu time is used up; else tells when to look again.
fn check_cpu(shared: &Shared, cell: &Cell) -> Instant {
    let now = Instant::now();
    let Some(limit) = shared.request.limits.cpu_time else { return now + shared.request.lifetime };
    let stats = cell.group.as_ref().and_then(|group| group.stats().ok()).unwrap_or_default();
    let used = stats.cpu_total.unwrap_or_default();
    if used >= limit {
        shared.end(Ending::CpuTime);
    }
    now + soonest(shared, limit.saturating_sub(used))
}

/// The earliest moment at which `left` of cpu time can be used up.
fn soonest(shared: &Shared, left: Duration) -> Duration {
    (left / shared.request.limits.cpus.whole().max(1)).max(Duration::from_millis(10))
}
