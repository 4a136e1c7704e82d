//! Task of one program: moves its output, enforces its timeout, determines its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_jail::wire::Ended;
use ringfence_types::Limits;
use tokio::{
    sync::{Mutex, watch},
    task::{AbortHandle, coop::consume_budget},
    time::{sleep, timeout},
};

use super::{
    Input, Process, ProcessEnd, ProcessUsage, State,
    access::Busy,
    dispatch::ProgramMessage,
    process::{Finish, ProcessInner},
    shared::{Refusals, Shared},
    start::Begun,
    terminal::Terminal,
};
use crate::{
    output::Output,
    streams::Streams,
    supervisor::space_left,
    verdict::{Observed, Stopped, outcome},
};

/// Time limit for the pipes of an ended session to end as well.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A started program that is to be supervised.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) begun: Begun,
    pub(super) streams: Streams,
    pub(super) terminal: Option<Terminal>,
    pub(super) timeout: Option<Duration>,
}

/// Spawns the task of the program.
pub(super) fn launch(shared: &Arc<Shared>, watched: Watched, busy: Busy, input: Input) -> Process {
    let Watched { begun, mut streams, terminal, timeout } = watched;
    let (finished, finish) = watch::channel(None);
    let has_terminal = terminal.is_some();
    let inner = ProcessInner {
        shared: shared.clone(),
        id: begun.guard.id,
        family: begun.guard.family.clone(),
        pid: begun.pid,
        stdin: Mutex::new(streams.stdin.take()),
        stdout: streams.stdout.output.clone(),
        stderr: streams.stderr.output.clone(),
        result: streams.result.output.clone(),
        terminal,
        finish,
    };
    let process = Process { inner: Arc::new(inner) };
    shared.add_process(process.clone());
    let feeder = feed(&process, input, has_terminal);
    let runner = Runner { begun, streams, timeout, feeder, begun_at: Instant::now() };
    tokio::spawn(runner.run(shared.clone(), finished, busy));
    process
}

/// Writes given bytes in the background, so that a program that never reads them blocks no task.
fn feed(process: &Process, input: Input, has_terminal: bool) -> Option<AbortHandle> {
    let Input::Bytes(bytes) = input else { return None };
    let process = process.clone();
    let task = tokio::spawn(async move {
        let written = process.write(&bytes).await;
        if written.is_ok() && !has_terminal {
            process.close_stdin().await;
        }
    });
    Some(task.abort_handle())
}

struct Runner {
    begun: Begun,
    streams: Streams,
    timeout: Option<Duration>,
    feeder: Option<AbortHandle>,
    begun_at: Instant,
}

/// Observations about the end.
struct ObservedEnd {
    ended: Option<Ended>,
    stopped: Option<Stopped>,
}

impl Runner {
    async fn run(
        mut self,
        shared: Arc<Shared>,
        finished: watch::Sender<Option<Finish>>,
        busy: Busy,
    ) {
        let seen = self.watch(&shared).await;
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        let finish = match seen.ended {
            Some(ended) => {
                self.begun.guard.release();
                // All its output is in the pipes by now.
                self.streams.drain();
                Finish::Ended(self.process_end(&shared, ended, seen.stopped))
            }
            None => {
                self.streams.unblock();
                let _ = timeout(DRAIN_TIMEOUT, self.drain_output()).await;
                Finish::Lost(shared.ending())
            }
        };
        self.close_outputs();
        shared.remove_process(self.begun.guard.id);
        finished.send_replace(Some(finish));
        drop(busy);
        self.linger(&shared).await;
    }

    async fn watch(&mut self, shared: &Shared) -> ObservedEnd {
        let mut stopped = None;
        let time = unpaused(self.timeout, shared.watch_state());
        tokio::pin!(time);
        loop {
            tokio::select! {
                message = self.begun.route.recv() => match message {
                    Some(ProgramMessage::Ended(ended)) => return ObservedEnd { ended: Some(ended), stopped },
                    Some(_) => {}
                    None => return ObservedEnd { ended: None, stopped },
                },
                () = self.streams.stdout.pump() => {}
                () = self.streams.stderr.pump() => {}
                () = self.streams.result.pump() => {}
                () = &mut time, if stopped.is_none() => {
                    stopped = Some(Stopped::Wall);
                    let _ = self.begun.guard.kill().await;
                }
            }
            if stopped.is_none() && self.is_over_output(&shared.request.limits) {
                stopped = Some(Stopped::Output);
                let _ = self.begun.guard.kill().await;
            }
            // A program that writes without pause must not keep other tasks from running.
            consume_budget().await;
        }
    }

    fn is_over_output(&self, limits: &Limits) -> bool {
        limits.output_total.is_some_and(|most| self.streams.total() > most.0)
    }

    fn process_end(&self, shared: &Shared, ended: Ended, stopped: Option<Stopped>) -> ProcessEnd {
        let wall = self.begun_at.elapsed();
        let mut seen = Observed {
            stopped,
            code: ended.code,
            signal: ended.signal,
            wall,
            output: self.streams.total(),
            ..Observed::default()
        };
        if ended.code != Some(0) {
            add_evidence(shared, &mut seen);
        }
        let mut limits = shared.request.limits.clone();
        limits.wall = self.timeout.unwrap_or(limits.wall);
        ProcessEnd {
            outcome: outcome(&seen, &limits),
            code: ended.code,
            signal: ended.signal,
            timed_out: stopped == Some(Stopped::Wall),
            usage: ProcessUsage::new(wall, ended.own),
        }
    }

    async fn drain_output(&mut self) {
        while !self.streams.all_ended() {
            self.pump().await;
        }
    }

    async fn pump(&mut self) {
        tokio::select! {
            () = self.streams.stdout.pump() => {}
            () = self.streams.stderr.pump() => {}
            () = self.streams.result.pump() => {}
        }
        consume_budget().await;
    }

    /// Ends the outputs for readers; later bytes are dropped.
    fn close_outputs(&mut self) {
        for tap in [&mut self.streams.stdout, &mut self.streams.stderr, &mut self.streams.result] {
            std::mem::replace(&mut tap.output, Output::new(0)).close();
        }
    }

    /// Reads what background children still write, so that they neither block nor die of a closed
    /// pipe, until the last one has closed it or the session has ended.
    async fn linger(mut self, shared: &Shared) {
        tokio::select! {
            () = self.drain_output() => {}
            _ = shared.ended() => {}
        }
    }
}

/// Adds evidence from the kernel's counters. They are the sandbox's, so only the increase since the
/// last check counts.
fn add_evidence(shared: &Shared, seen: &mut Observed) {
    let Ok(parts) = shared.parts() else { return };
    let stats = parts.jailed.group.as_ref().and_then(|group| group.stats().ok());
    seen.stats = stats.unwrap_or_default();
    let new = shared.new_refusals(Refusals {
        oom_kills: seen.stats.oom_kills.unwrap_or_default(),
        pids_refused: seen.stats.pids_refused.unwrap_or_default(),
    });
    seen.stats.oom_kills = seen.stats.oom_kills.map(|_| new.oom_kills);
    seen.stats.ooms = None;
    seen.stats.pids_refused = seen.stats.pids_refused.map(|_| new.pids_refused);
    seen.space_left = space_left(parts.jailed.workspace.as_ref());
}

/// Resolves after `limit`, not counting pauses of the session; never without a limit.
pub(super) async fn unpaused(limit: Option<Duration>, mut state: watch::Receiver<State>) {
    let Some(mut left) = limit else { return std::future::pending().await };
    loop {
        let _ = state.wait_for(|state| *state != State::Paused).await;
        let begun = Instant::now();
        tokio::select! {
            () = sleep(left) => return,
            _ = state.wait_for(|state| *state == State::Paused) => {}
        }
        left = left.saturating_sub(begun.elapsed());
    }
}
