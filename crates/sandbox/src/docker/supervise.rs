//! Supervision of one program in one container, from hand-over to report.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use bollard::{
    container::{AttachContainerResults, LogOutput},
    errors::Error as ClientError,
};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use ringfence_jail::{
    cgroup::Stats,
    container::{End, Finish, Step},
};
use ringfence_types::{Bytes, ContainerRecord, Isolation, Layers, Limits, Usage};
use rustix::io::Errno;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    task::AbortHandle,
    time::sleep_until,
};

use super::{body::Shape, engine::Guard, start::Frame, tail::Tail};
use crate::{
    Canceller, Error, Output, Report, Request, Running, Stdin, Timings,
    hints::hints,
    verdict::{Observed, Stopped, outcome},
};

/// Time limit for the rest of the output of a killed container.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

const SIGKILL: i32 = 9;

type Chunks = Pin<Box<dyn Stream<Item = Result<LogOutput, ClientError>> + Send>>;

/// A container that waits for its one program.
pub(super) struct Prepared {
    guard: Guard,
    output: Chunks,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    record: ContainerRecord,
    /// Whether it was started before there was a program for it.
    pub(super) is_warm: bool,
}

impl Prepared {
    pub(super) fn new(guard: Guard, attached: AttachContainerResults, shape: &Shape) -> Self {
        let record = ContainerRecord {
            engine: guard.engine.info.version.clone(),
            runtime: shape.runtime.clone(),
            image: shape.name.clone(),
            image_id: shape.image.clone(),
            id: guard.id.clone(),
        };
        let (output, input) = (attached.output, attached.input);
        Self { guard, output, input, record, is_warm: false }
    }

    /// Whether it still runs: one that waits writes nothing.
    pub(super) fn still_waits(&mut self) -> bool {
        self.output.next().now_or_never().is_none()
    }
}

/// A program that was handed over, with everything to supervise it.
pub(super) struct ContainerRun {
    guard: Guard,
    output: Chunks,
    tail: Tail,
    stdout: Output,
    stderr: Output,
    limits: Limits,
    program: String,
    _feeder: Feeder,
    record: ContainerRecord,
    layers: Layers,
    isolation: Isolation,
    accepted: Instant,
    started: Instant,
}

/// Task that writes the message and standard input. Aborted when dropped.
struct Feeder(AbortHandle);

impl Drop for Feeder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ContainerRun {
    /// Hands the program over and supervises it.
    pub(super) fn start(
        prepared: Prepared,
        request: Request,
        frame: Frame,
        layers: Layers,
        accepted: Instant,
    ) -> Running {
        let Prepared { guard, output, input, record, is_warm } = prepared;
        let cap = request.limits.output.0;
        let feeder = Feeder(tokio::spawn(feed(input, frame.bytes, request.stdin)).abort_handle());
        let run = Self {
            guard,
            output,
            tail: Tail::new(frame.mark),
            stdout: Output::new(cap),
            stderr: Output::new(cap),
            limits: request.limits,
            program: frame.program,
            _feeder: feeder,
            record,
            layers,
            isolation: if is_warm { Isolation::Warm } else { Isolation::Cold },
            accepted,
            started: Instant::now(),
        };
        let (stdout, stderr) = (run.stdout.clone(), run.stderr.clone());
        let canceller = Canceller::default();
        let asked = canceller.clone();
        let end = async move { run.watch(asked).await.inspect_err(Error::log) };
        Running::new(stdout, stderr, canceller, end)
    }

    async fn watch(mut self, canceller: Canceller) -> Result<Report, Error> {
        let mut seen = Observed::default();
        let deadline = sleep_until((self.started + self.limits.wall).into());
        tokio::pin!(deadline);
        loop {
            // The output comes last, so that a flood cannot starve the clock.
            let stopped = tokio::select! {
                biased;
                () = &mut deadline => Some(Stopped::Wall),
                () = canceller.cancelled() => Some(Stopped::Cancelled),
                goes_on = self.pump() => {
                    if !goes_on {
                        break;
                    }
                    let total = self.stdout.total() + self.stderr.total();
                    let most = self.limits.output_total;
                    most.is_some_and(|most| total > most.0).then_some(Stopped::Output)
                }
            };
            if stopped.is_some() {
                seen.stopped = stopped;
                break;
            }
            tokio::task::coop::consume_budget().await;
        }
        seen.wall = self.started.elapsed();
        if seen.stopped.is_some() {
            let killed = self.guard.kill();
            // An engine whose output is not read does not finish the kill; what is left is bounded.
            let rest = async { while self.read_some().await {} };
            let both = async { tokio::join!(killed, rest) };
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, both).await;
        }
        self.report(seen).await
    }

    /// Reads some output once readers have room for it; false at the end of the stream.
    async fn pump(&mut self) -> bool {
        self.stdout.room().await;
        self.stderr.room().await;
        self.read_some().await
    }

    async fn read_some(&mut self) -> bool {
        match self.output.next().await {
            Some(Ok(LogOutput::StdErr { message })) => self.tail.feed(&message, &self.stderr),
            Some(Ok(LogOutput::StdOut { message })) => self.stdout.append(&message),
            // Half a message at the end of a stream that was cut off.
            Some(Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. })) => {}
            // How it ended is asked of the engine.
            Some(Err(_)) | None => return false,
        }
        true
    }

    async fn report(mut self, mut seen: Observed) -> Result<Report, Error> {
        let tail = std::mem::replace(&mut self.tail, Tail::new([0; 32]));
        let finish = tail.finish(&self.stderr);
        self.stdout.close();
        self.stderr.close();
        let end = match finish {
            Some(Finish::NotStarted { step, what, errno }) => {
                return Err(self.not_started(step, &what, errno));
            }
            Some(Finish::Ended(end)) => {
                (seen.code, seen.signal) = (end.code, end.signal);
                seen.space_left = end.space_left;
                seen.stats = end.counters.stats();
                self.blame_cpu(&mut seen);
                end
            }
            // We ended it, so the report of its first process is lost.
            None if seen.stopped.is_some() => {
                seen.init_died = true;
                End::default()
            }
            None => {
                let (code, out_of_memory) = self.guard.end().await?;
                if !out_of_memory && code != Some(137) {
                    return Err(Error::Gone("container"));
                }
                seen.init_died = true;
                seen.stats.sources.oom_kills = "State.OOMKilled of the engine";
                seen.stats.oom_kills = Some(u64::from(out_of_memory));
                End::default()
            }
        };
        seen.output = self.stdout.total() + self.stderr.total();
        let total = self.accepted.elapsed();
        let setup = self.started - self.accepted;
        let outcome = outcome(&seen, &self.limits);
        Ok(Report {
            hints: hints(&outcome, &self.limits, &self.stderr),
            outcome,
            exit_code: seen.code,
            signal: seen.signal,
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            result: Vec::new(),
            result_truncated: None,
            usage: usage(&seen, &end),
            layers: std::mem::take(&mut self.layers),
            isolation: self.isolation,
            timings: Timings { setup, run: total - setup, total },
            workspace: None,
            container: Some(Box::new(self.record.clone())),
        })
    }

    /// A program that does not end at the signal of its limit is killed a second later, which says nothing
    /// by itself.
    fn blame_cpu(&self, seen: &mut Observed) {
        let used = seen.stats.cpu_total.unwrap_or_default();
        let is_over = self.limits.cpu_time.is_some_and(|limit| used >= limit);
        if seen.stopped.is_none() && seen.signal == Some(SIGKILL) && is_over {
            seen.stopped = Some(Stopped::CpuTime);
        }
    }

    fn not_started(&self, step: Step, what: &str, errno: i32) -> Error {
        let cause = Errno::from_raw_os_error(errno);
        let reason = match step {
            Step::Program => cause.to_string(),
            Step::Directory => format!("directory `{what}`: {cause}"),
            Step::File => format!("file `{what}`: {cause}"),
        };
        Error::NotStarted { program: self.program.clone(), reason, errno }
    }
}

impl Drop for ContainerRun {
    fn drop(&mut self) {
        // On every path, readers must not wait for more output.
        self.stdout.close();
        self.stderr.close();
    }
}

async fn feed(mut input: Pin<Box<dyn AsyncWrite + Send>>, frame: Vec<u8>, stdin: Stdin) {
    // A program that ended or reads no input is no error.
    if input.write_all(&frame).await.is_err() {
        return;
    }
    let _ = match stdin {
        Stdin::Empty => Ok(()),
        Stdin::Bytes(bytes) => input.write_all(&bytes).await,
        Stdin::Inherit => tokio::io::copy(&mut tokio::io::stdin(), &mut input).await.map(drop),
    };
    let _ = input.shutdown().await;
    // The stream is held until the end: dropping one half would not end the connection.
    std::future::pending::<()>().await;
}

fn usage(seen: &Observed, end: &End) -> Usage {
    let Stats { cpu_total, memory_peak, pids_peak, .. } = &seen.stats;
    let (user, system) = (Duration::from_micros(end.user_us), Duration::from_micros(end.system_us));
    let (cpu_user, cpu_system) = match cpu_total {
        // The cgroup counts the processes that were not waited for as well.
        Some(total) if *total > user + system => (total.saturating_sub(system), system),
        _ => (user, system),
    };
    Usage {
        wall: seen.wall,
        cpu_user,
        cpu_system,
        memory_peak: memory_peak.map(Bytes).or((end.max_rss > 0).then_some(Bytes(end.max_rss))),
        io_read: Bytes(0),
        io_written: Bytes(0),
        processes: pids_peak.map_or(end.processes.max(1), |peak| peak.saturating_sub(1) as u32),
    }
}
