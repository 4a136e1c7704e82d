//! One program in one sandbox, watched from hand-over to report.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_jail::{
    cgroup::Stats,
    socket::{self, Received},
    wire::{Ended, FromInit},
};
use ringfence_types::{Bytes, Isolation, Limits, Usage};
use tokio::{task::AbortHandle, time::sleep_until};

use crate::{
    Error, Report, Timings,
    cell::Cell,
    error::not_started,
    files::{FileLimits, Owner, Workspace},
    health::SetupTimer,
    hints::hints,
    job::{Job, Said},
    layers::layers,
    streams::Streams,
    verdict::{Observed, Stopped, outcome},
};

/// How long we wait for a killed sandbox to be gone before its pipes are emptied.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// How long we wait for the pipes of a killed sandbox to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long we wait for what an ended driver has said; it is in its socket already, unless a child
/// of its program holds the other end.
const LAST_FRAME: Duration = Duration::from_millis(100);

/// How long the end of a sandbox waits for the caller. On a small machine it takes every processor
/// for a millisecond, just when the caller puts the result on record.
const AFTER_YOU: Duration = Duration::from_millis(3);

/// A program that was handed over.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) cell: Cell,
    pub(crate) streams: Streams,
    pub(crate) job: Option<Job>,
    pub(crate) limits: Limits,
    pub(crate) program: String,
    /// Feeds standard input; ended with us.
    pub(crate) feeder: Option<AbortHandle>,
    /// What the sandbox had used before it was handed the program.
    pub(crate) spent: Stats,
    pub(crate) accepted: Instant,
    /// When the program started, which is when its clock does; `None` while the sandbox is set up.
    pub(crate) started: Option<Instant>,
}

/// What one turn of watching brought.
enum Turn {
    GoOn,
    Over,
}

impl Live {
    /// Watches the program to its end. Dropping the future ends the sandbox.
    pub(crate) async fn watch(mut self, cancel: impl Future<Output = ()>) -> Result<Report, Error> {
        let mut seen = Observed::default();
        let mut ended = None;
        tokio::pin!(cancel);
        let now = Instant::now();
        let deadline = sleep_until((self.started.unwrap_or(now) + self.limits.wall).into());
        tokio::pin!(deadline);
        let mut cpu_check = self.first_cpu_check(now);
        let ward = self.cell.enlist();
        let set_up_by = sleep_until((now + self.cell.setup_timeout()).into());
        tokio::pin!(set_up_by);
        let mut starting =
            self.started.is_none().then(|| SetupTimer::begin("start of the program"));
        loop {
            // What the program can keep busy comes last, or a flood would drown the clock.
            let turn = tokio::select! {
                biased;
                message = self.cell.control.receive() => {
                    let turn = self.heard_init(message, &mut seen, &mut ended)?;
                    if let Some(started) = self.started.filter(|_| starting.take().is_some()) {
                        deadline.as_mut().reset((started + self.limits.wall).into());
                    }
                    turn
                }
                () = &mut deadline, if self.started.is_some() => stop(&mut seen, Stopped::Wall),
                () = &mut cancel => stop(&mut seen, Stopped::Cancelled),
                strain = ward.ended() => {
                    seen.strain = Some(strain);
                    stop(&mut seen, Stopped::Host)
                }
                () = &mut set_up_by, if self.started.is_none() => {
                    return Err(Error::SetupTimeout(self.cell.setup_timeout()));
                }
                () = sleep_until(cpu_check) => {
                    let (turn, next) = self.look_at_cpu(&mut seen);
                    cpu_check = next;
                    turn
                }
                said = said(&mut self.job) => self.heard_driver(said, &mut seen),
                () = self.streams.pump() => self.look_at_output(&mut seen),
            };
            if matches!(turn, Turn::Over) {
                break;
            }
            // Reading what is there already costs no budget: others want the thread too.
            tokio::task::coop::consume_budget().await;
        }
        self.report(seen, ended).await
    }

    fn heard_init(
        &mut self,
        message: Result<Received<FromInit>, socket::Error>,
        seen: &mut Observed,
        ended: &mut Option<Ended>,
    ) -> Result<Turn, Error> {
        let Ok(Received { message, fds, .. }) = message else {
            seen.init_died = true;
            return Ok(Turn::Over);
        };
        match message {
            FromInit::Hello => Ok(Turn::GoOn),
            FromInit::Started { .. } => {
                self.started.get_or_insert_with(Instant::now);
                Ok(Turn::GoOn)
            }
            FromInit::NotStarted { error, .. } => {
                let reason = not_started(error, b"");
                Err(Error::NotStarted { program: self.program.clone(), reason, errno: error.errno })
            }
            FromInit::Ended(how) => {
                seen.code = how.code;
                seen.signal = how.signal;
                *ended = Some(how);
                Ok(Turn::Over)
            }
            ready => self.cell.note_ready(ready, fds).map(|()| Turn::GoOn),
        }
    }

    /// A driver's word counts for nothing but the end of its own program.
    fn heard_driver(&mut self, said: Option<Said>, seen: &mut Observed) -> Turn {
        match said {
            Some(Said::Done { exit, error }) => {
                seen.code = Some(exit & 0xff);
                if let Some(error) = error {
                    seen.errno = error.errno;
                    seen.error_type = error.kind;
                }
                Turn::Over
            }
            Some(_) => Turn::GoOn,
            None => {
                // The process is ending; the init will tell how.
                self.job = None;
                Turn::GoOn
            }
        }
    }

    /// A driver tells why its program failed before it ends, but its end may be heard first.
    async fn hear_driver_out(&mut self, seen: &mut Observed) {
        let deadline = tokio::time::Instant::now() + LAST_FRAME;
        let code = seen.code;
        while let Some(job) = &mut self.job
            && let Ok(said) = tokio::time::timeout_at(deadline, job.said()).await
            && matches!(self.heard_driver(said, seen), Turn::GoOn)
        {}
        // How it ended is the init's to tell.
        seen.code = code;
    }

    fn look_at_output(&self, seen: &mut Observed) -> Turn {
        match self.limits.output_total {
            Some(most) if self.streams.total() > most.0 => stop(seen, Stopped::Output),
            _ => Turn::GoOn,
        }
    }

    fn first_cpu_check(&self, now: Instant) -> tokio::time::Instant {
        let first = self.limits.cpu_time.unwrap_or(self.limits.wall * 2);
        tokio::time::Instant::from_std(now + self.soonest(first))
    }

    /// The earliest moment at which `left` of CPU time can be used up.
    fn soonest(&self, left: Duration) -> Duration {
        (left / self.limits.cpus.whole().max(1)).max(Duration::from_millis(10))
    }

    fn look_at_cpu(&self, seen: &mut Observed) -> (Turn, tokio::time::Instant) {
        let now = tokio::time::Instant::now();
        let Some(limit) = self.limits.cpu_time else { return (Turn::GoOn, now + self.limits.wall) };
        let spent = self.spent.cpu_total.unwrap_or_default();
        let used = self.used().cpu_total.unwrap_or_default().saturating_sub(spent);
        if used >= limit {
            return (stop(seen, Stopped::CpuTime), now);
        }
        (Turn::GoOn, now + self.soonest(limit - used))
    }

    fn used(&self) -> Stats {
        self.cell.group.as_ref().and_then(|group| group.usage().ok()).unwrap_or_default()
    }

    fn stats(&self) -> Stats {
        self.cell.group.as_ref().and_then(|group| group.stats().ok()).unwrap_or_default()
    }

    /// Everything the program wrote before its end is in the pipes by now. Whoever else still
    /// holds them is ended with the sandbox.
    async fn report(mut self, mut seen: Observed, ended: Option<Ended>) -> Result<Report, Error> {
        // One that was stopped still runs. It is ended before its pipes are emptied, or a flood would
        // go on into them for as long as we read.
        if seen.stopped.is_some() {
            self.cell.kill();
            self.cell.wait_for_end(END_TIMEOUT).await;
        }
        self.streams.let_go();
        self.streams.drain();
        seen.wall = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        if ended.is_some() {
            self.hear_driver_out(&mut seen).await;
        }
        // A good end needs no evidence, and each counter is a file to open while the caller waits.
        let ended_well = seen.code == Some(0) && seen.stopped.is_none();
        seen.stats = if ended_well { self.used() } else { self.stats() };
        if seen.code.is_none() || !(self.streams.all_ended() || self.job.is_some()) {
            self.cell.kill();
            let _ = tokio::time::timeout(LAST_WORDS, self.last_words()).await;
        }
        // Whoever made the sandbox took it along: that says nothing of the program. An end that the
        // kernel explains (memory) stays the program's own.
        let explained = seen.stats.oom_kills.is_some_and(|kills| kills > 0);
        let unexplained = seen.init_died && seen.stopped.is_none() && !explained;
        if let Some(error) = self.cell.lost_maker().filter(|_| unexplained) {
            return Err(error);
        }
        if seen.init_died && self.cell.standing.is_none() && seen.stopped.is_none() {
            return Err(Error::Gone("sandbox, before it was ready"));
        }
        seen.output = self.streams.total();
        seen.space_left = space_left(self.cell.workspace.as_ref());
        let timings = self.timings();
        Ok(self.write_report(&seen, ended, timings))
    }

    async fn last_words(&mut self) {
        while !self.streams.all_ended() {
            self.streams.pump().await;
        }
    }

    fn timings(&self) -> Timings {
        let total = self.accepted.elapsed();
        let setup = self.started.map_or(total, |started| started - self.accepted);
        Timings { setup, run: total - setup, total }
    }

    fn write_report(mut self, seen: &Observed, ended: Option<Ended>, timings: Timings) -> Report {
        self.streams.close();
        let layers = layers(&self.cell);
        let owner = owner(&self.cell);
        let workspace =
            match self.cell.workspace.as_ref().map(|dir| rustix::io::fcntl_dupfd_cloexec(dir, 3)) {
                Some(Ok(copy)) => Some(copy),
                _ => self.cell.workspace.take(),
            };
        let workspace =
            workspace.map(|dir| Arc::new(Workspace::new(dir, owner, FileLimits::default())));
        let outcome = outcome(seen, &self.limits);
        let report = Report {
            hints: hints(&outcome, &self.limits, &self.streams.stderr.output),
            outcome,
            exit_code: seen.code,
            signal: seen.signal,
            stdout: self.streams.stdout.output.clone(),
            stderr: self.streams.stderr.output.clone(),
            result: self.streams.result.output.kept(),
            result_truncated: self.streams.result.output.truncated(),
            usage: usage(seen, ended, &self.spent),
            layers,
            isolation: self.cell.isolation,
            timings,
            workspace,
        };
        self.end_of(seen);
        report
    }

    /// Ends the sandbox: a little later where a driver sits in it that ended well and waits for
    /// that, and where nobody waits for its place.
    fn end_of(self, seen: &Observed) {
        let ended_well = seen.code.is_some() && seen.stopped.is_none() && self.job.is_some();
        if ended_well && self.cell.isolation != Isolation::Cold && self.cell.groups().has_room() {
            tokio::spawn(async move {
                tokio::time::sleep(AFTER_YOU).await;
                drop(self);
            });
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        // However we end, nobody may wait for more.
        self.streams.close();
    }
}

/// Who owns the files of a sandbox outside.
pub(crate) fn owner(cell: &Cell) -> Owner {
    use ringfence_jail::wire::Mode;
    match cell.mode {
        Mode::Root => Owner { uid: cell.uid, gid: cell.uid },
        Mode::Rootless => Owner { uid: cell.uid, gid: rustix::process::getegid().as_raw() },
    }
}

async fn said(job: &mut Option<Job>) -> Option<Said> {
    match job {
        Some(job) => job.said().await,
        None => std::future::pending().await,
    }
}

fn stop(seen: &mut Observed, why: Stopped) -> Turn {
    seen.stopped = Some(why);
    Turn::Over
}

pub(crate) fn space_left(workspace: Option<&std::os::fd::OwnedFd>) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstatvfs(workspace?).ok()?;
    Some((stat.f_bavail * stat.f_frsize, stat.f_ffree))
}

/// The cgroup counts every process; without one we know only those that were waited for.
fn usage(seen: &Observed, ended: Option<Ended>, spent: &Stats) -> Usage {
    let stats = &seen.stats;
    let bytes = |pick: fn(&Ended) -> u64| Bytes(ended.as_ref().map(pick).unwrap_or_default());
    let (cpu_user, cpu_system) = cpu(stats, spent, ended);
    Usage {
        wall: seen.wall,
        cpu_user,
        cpu_system,
        memory_peak: stats
            .memory_peak
            .map(Bytes)
            .or_else(|| ended.as_ref().map(|e| Bytes(e.max_rss))),
        io_read: stats.io_read.map_or_else(|| bytes(|e| e.io_read), Bytes),
        io_written: stats.io_written.map_or_else(|| bytes(|e| e.io_written), Bytes),
        // The init is counted by the kernel, but it is not the program's.
        processes: stats
            .pids_peak
            .map(|peak| peak.saturating_sub(1) as u32)
            .or_else(|| ended.as_ref().map(|e| e.processes))
            .unwrap_or(1),
    }
}

/// The kernel knows the sum to the nanosecond but samples its two parts by the clock tick, so a
/// short program may show none of either: the sum is split as the samples say.
fn cpu(stats: &Stats, spent: &Stats, ended: Option<Ended>) -> (Duration, Duration) {
    let since = |now: Option<Duration>, then: Option<Duration>| {
        now.map(|now| now.saturating_sub(then.unwrap_or_default()))
    };
    let waited =
        ended.map(|e| (Duration::from_micros(e.user_us), Duration::from_micros(e.system_us)));
    let sampled =
        (since(stats.cpu_user, spent.cpu_user), since(stats.cpu_system, spent.cpu_system));
    let (user, system) = match sampled {
        (Some(user), Some(system)) if !(user + system).is_zero() => (user, system),
        _ => waited.unwrap_or_default(),
    };
    let Some(total) = since(stats.cpu_total, spent.cpu_total) else { return (user, system) };
    let sampled = (user + system).as_secs_f64();
    let share = if sampled > 0.0 { user.as_secs_f64() / sampled } else { 1.0 };
    let user = total.mul_f64(share.clamp(0.0, 1.0));
    (user, total.saturating_sub(user))
}
