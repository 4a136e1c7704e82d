//! Supervision of one program in one sandbox, from hand-over to report.

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
    error::not_started,
    files::{FileLimits, Owner, Workspace},
    health::SetupTimer,
    hints::hints,
    jailed::Jailed,
    job::{DriverEvent, JobChannel},
    layers::layers,
    streams::Streams,
    verdict::{Observed, Stopped, outcome},
};

/// Time limit for the end of a killed sandbox before its pipes are drained.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for the end of the pipes of a killed sandbox.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the last message of an ended driver; it is in the socket already, unless a child
/// of its program holds the other end.
const FRAME_TIMEOUT: Duration = Duration::from_millis(100);

/// Delay of the teardown after the report. On a small machine it takes every processor for a
/// millisecond, just when the caller records the result.
const TEARDOWN_DELAY: Duration = Duration::from_millis(3);

/// A program that was handed over, with everything to supervise it.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) jailed: Jailed,
    pub(crate) streams: Streams,
    pub(crate) job: Option<JobChannel>,
    pub(crate) limits: Limits,
    pub(crate) program: String,
    /// Task that writes standard input; aborted on drop.
    pub(crate) feeder: Option<AbortHandle>,
    /// Usage of the sandbox before it was handed the program.
    pub(crate) spent: Stats,
    pub(crate) accepted: Instant,
    /// Start of the program and of its clock; `None` while the sandbox is set up.
    pub(crate) started: Option<Instant>,
}

/// Result of one round of the supervision loop.
enum Step {
    GoOn,
    Over,
}

impl Supervisor {
    /// Supervises the program to its end. Dropping the future ends the sandbox.
    pub(crate) async fn watch(mut self, cancel: impl Future<Output = ()>) -> Result<Report, Error> {
        let mut seen = Observed::default();
        let mut ended = None;
        tokio::pin!(cancel);
        let now = Instant::now();
        let deadline = sleep_until((self.started.unwrap_or(now) + self.limits.wall).into());
        tokio::pin!(deadline);
        let mut cpu_check = self.first_cpu_check(now);
        let watch_guard = self.jailed.watch();
        let set_up_by = sleep_until((now + self.jailed.setup_timeout()).into());
        tokio::pin!(set_up_by);
        let mut starting =
            self.started.is_none().then(|| SetupTimer::begin("start of the program"));
        loop {
            // Branches that the program can keep busy come last, so that a flood cannot starve the
            // clock.
            let step = tokio::select! {
                biased;
                message = self.jailed.control.receive() => {
                    let step = self.on_init_message(message, &mut seen, &mut ended)?;
                    if let Some(started) = self.started.filter(|_| starting.take().is_some()) {
                        deadline.as_mut().reset((started + self.limits.wall).into());
                    }
                    step
                }
                () = &mut deadline, if self.started.is_some() => stop(&mut seen, Stopped::Wall),
                () = &mut cancel => stop(&mut seen, Stopped::Cancelled),
                strain = watch_guard.ended() => {
                    seen.strain = Some(strain);
                    stop(&mut seen, Stopped::Host)
                }
                () = &mut set_up_by, if self.started.is_none() => {
                    return Err(Error::SetupTimeout(self.jailed.setup_timeout()));
                }
                () = sleep_until(cpu_check) => {
                    let (step, next) = self.check_cpu(&mut seen);
                    cpu_check = next;
                    step
                }
                event = event(&mut self.job) => self.on_driver_event(event, &mut seen),
                () = self.streams.pump() => self.check_output(&mut seen),
            };
            if matches!(step, Step::Over) {
                break;
            }
            // Reading available data consumes no budget by itself; yield to other tasks.
            tokio::task::coop::consume_budget().await;
        }
        self.report(seen, ended).await
    }

    fn on_init_message(
        &mut self,
        message: Result<Received<FromInit>, socket::Error>,
        seen: &mut Observed,
        ended: &mut Option<Ended>,
    ) -> Result<Step, Error> {
        let Ok(Received { message, fds, .. }) = message else {
            seen.init_died = true;
            return Ok(Step::Over);
        };
        match message {
            FromInit::Hello => Ok(Step::GoOn),
            FromInit::Started { .. } => {
                self.started.get_or_insert_with(Instant::now);
                Ok(Step::GoOn)
            }
            FromInit::NotStarted { error, .. } => {
                let reason = not_started(error, b"");
                Err(Error::NotStarted { program: self.program.clone(), reason, errno: error.errno })
            }
            FromInit::Ended(how) => {
                seen.code = how.code;
                seen.signal = how.signal;
                *ended = Some(how);
                Ok(Step::Over)
            }
            ready => self.jailed.note_ready(ready, fds).map(|()| Step::GoOn),
        }
    }

    /// Handles a driver's message, which counts for nothing but the end of its own program.
    fn on_driver_event(&mut self, event: Option<DriverEvent>, seen: &mut Observed) -> Step {
        match event {
            Some(DriverEvent::Done { exit, error }) => {
                seen.code = Some(exit & 0xff);
                if let Some(error) = error {
                    seen.errno = error.errno;
                    seen.error_type = error.kind;
                }
                Step::Over
            }
            Some(_) => Step::GoOn,
            None => {
                // The process is ending; the init reports how.
                self.job = None;
                Step::GoOn
            }
        }
    }

    /// Reads the driver's last message: it says why the program failed, but the init's report may
    /// come first.
    async fn drain_driver(&mut self, seen: &mut Observed) {
        let deadline = tokio::time::Instant::now() + FRAME_TIMEOUT;
        let code = seen.code;
        while let Some(job) = &mut self.job
            && let Ok(event) = tokio::time::timeout_at(deadline, job.event()).await
            && matches!(self.on_driver_event(event, seen), Step::GoOn)
        {}
        // The exit code comes from the init.
        seen.code = code;
    }

    fn check_output(&self, seen: &mut Observed) -> Step {
        match self.limits.output_total {
            Some(most) if self.streams.total() > most.0 => stop(seen, Stopped::Output),
            _ => Step::GoOn,
        }
    }

    fn first_cpu_check(&self, now: Instant) -> tokio::time::Instant {
        let first = self.limits.cpu_time.unwrap_or(self.limits.wall * 2);
        tokio::time::Instant::from_std(now + self.soonest(first))
    }

    /// Earliest moment at which `left` of cpu time can be used up.
    fn soonest(&self, left: Duration) -> Duration {
        (left / self.limits.cpus.whole().max(1)).max(Duration::from_millis(10))
    }

    fn check_cpu(&self, seen: &mut Observed) -> (Step, tokio::time::Instant) {
        let now = tokio::time::Instant::now();
        let Some(limit) = self.limits.cpu_time else { return (Step::GoOn, now + self.limits.wall) };
        let spent = self.spent.cpu_total.unwrap_or_default();
        let used = self.used().cpu_total.unwrap_or_default().saturating_sub(spent);
        if used >= limit {
            return (stop(seen, Stopped::CpuTime), now);
        }
        (Step::GoOn, now + self.soonest(limit - used))
    }

    fn used(&self) -> Stats {
        self.jailed.group.as_ref().and_then(|group| group.usage().ok()).unwrap_or_default()
    }

    fn stats(&self) -> Stats {
        self.jailed.group.as_ref().and_then(|group| group.stats().ok()).unwrap_or_default()
    }

    /// Makes the report. Everything the program wrote before its end is in the pipes by now; other
    /// processes that still hold them end with the sandbox.
    async fn report(mut self, mut seen: Observed, ended: Option<Ended>) -> Result<Report, Error> {
        // A stopped program still runs. It is killed before its pipes are drained, or a flood would
        // go on for as long as we read.
        if seen.stopped.is_some() {
            self.jailed.kill();
            self.jailed.wait_for_end(END_TIMEOUT).await;
        }
        self.streams.unblock();
        self.streams.drain();
        seen.wall = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        if ended.is_some() {
            self.drain_driver(&mut seen).await;
        }
        // A successful end needs no evidence, and each counter is a file to open while the caller
        // waits.
        let ended_well = seen.code == Some(0) && seen.stopped.is_none();
        seen.stats = if ended_well { self.used() } else { self.stats() };
        if seen.code.is_none() || !(self.streams.all_ended() || self.job.is_some()) {
            self.jailed.kill();
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.drain_output()).await;
        }
        // The template or zygote ended and took the sandbox along: that says nothing about the
        // program. An end that the kernel explains (memory) stays the program's own.
        let explained = seen.stats.oom_kills.is_some_and(|kills| kills > 0);
        let unexplained = seen.init_died && seen.stopped.is_none() && !explained;
        if let Some(error) = self.jailed.lost_parent().filter(|_| unexplained) {
            return Err(error);
        }
        if seen.init_died && self.jailed.active_layers.is_none() && seen.stopped.is_none() {
            return Err(Error::Gone("sandbox, before it was ready"));
        }
        seen.output = self.streams.total();
        seen.space_left = space_left(self.jailed.workspace.as_ref());
        let timings = self.timings();
        Ok(self.write_report(&seen, ended, timings))
    }

    async fn drain_output(&mut self) {
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
        let layers = layers(&self.jailed);
        let owner = owner(&self.jailed);
        let workspace =
            match self.jailed.workspace.as_ref().map(|dir| rustix::io::fcntl_dupfd_cloexec(dir, 3))
            {
                Some(Ok(copy)) => Some(copy),
                _ => self.jailed.workspace.take(),
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
            isolation: self.jailed.isolation,
            timings,
            workspace,
            container: None,
        };
        self.end_sandbox(seen);
        report
    }

    /// Ends the sandbox: a little later if its driver ended well and no caller waits for the slot.
    fn end_sandbox(self, seen: &Observed) {
        let ended_well = seen.code.is_some() && seen.stopped.is_none() && self.job.is_some();
        if ended_well && self.jailed.isolation != Isolation::Cold && self.jailed.groups().has_room()
        {
            tokio::spawn(async move {
                tokio::time::sleep(TEARDOWN_DELAY).await;
                drop(self);
            });
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        // On every path, readers must not wait for more output.
        self.streams.close();
    }
}

/// Owner of a sandbox's files outside.
pub(crate) fn owner(jailed: &Jailed) -> Owner {
    use ringfence_jail::wire::Mode;
    match jailed.mode {
        Mode::Root => Owner { uid: jailed.uid, gid: jailed.uid },
        Mode::Rootless => Owner { uid: jailed.uid, gid: rustix::process::getegid().as_raw() },
    }
}

async fn event(job: &mut Option<JobChannel>) -> Option<DriverEvent> {
    match job {
        Some(job) => job.event().await,
        None => std::future::pending().await,
    }
}

fn stop(seen: &mut Observed, why: Stopped) -> Step {
    seen.stopped = Some(why);
    Step::Over
}

pub(crate) fn space_left(workspace: Option<&std::os::fd::OwnedFd>) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstatvfs(workspace?).ok()?;
    Some((stat.f_bavail * stat.f_frsize, stat.f_ffree))
}

/// Usage of the program. The cgroup counts every process; without one only those that were waited
/// for are known.
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
        // The kernel counts the init as well; it is not part of the program.
        processes: stats
            .pids_peak
            .map(|peak| peak.saturating_sub(1) as u32)
            .or_else(|| ended.as_ref().map(|e| e.processes))
            .unwrap_or(1),
    }
}

/// Cpu time in user and kernel mode. The kernel knows the sum to the nanosecond but samples its two
/// parts by the clock tick, so a short program may show none of either: the sum is split in
/// proportion to the samples.
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
