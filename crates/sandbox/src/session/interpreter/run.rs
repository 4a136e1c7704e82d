//! One execution, from its frame to its last event.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    super::{State, access::Busy, runner::unpaused},
    Event, ExecuteRequest, Raised, Rich, Status,
    driver_frame::DriverFrame,
    kernel::{Kernel, KernelEvent},
    log::EventLog,
};

/// A waiting or running execution. If dropped before its end, it ends as that of a dead
/// interpreter.
#[derive(Debug)]
pub(super) struct PendingExecution {
    pub(super) request: ExecuteRequest,
    pub(super) log: Arc<EventLog>,
    /// Marks the session as used, from the request to the end of the execution.
    pub(super) _busy: Busy,
}

impl Drop for PendingExecution {
    fn drop(&mut self) {
        self.log.finish(Status::Died, 0);
    }
}

impl PendingExecution {
    /// Ends it with an error.
    pub(super) fn fail(&self, status: Status, name: &str, why: &str) {
        let raised = Raised { name: name.to_owned(), value: why.to_owned(), traceback: Vec::new() };
        self.log.push(Event::Error(raised), why.len());
        self.log.finish(status, 0);
    }
}

/// Interval between attempts to interrupt an execution.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);
/// Time after its limit at which the interpreter of code that resists is killed.
const KILL_DELAY: Duration = Duration::from_secs(2);

/// State of the interpreter after an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRun {
    Alive,
    Dead,
    /// Dead before the code began: it had died earlier, unnoticed.
    Unbegun,
}

pub(super) struct Run<'a> {
    pub(super) pending: &'a PendingExecution,
    pub(super) kernel: &'a mut Kernel,
    pub(super) id: u64,
    pub(super) fresh: bool,
    /// Whether the code may be given to another interpreter if it did not begin in this one.
    pub(super) may_retry: bool,
    is_started: bool,
    timed_out: bool,
    is_killed: bool,
    /// Time of the next attempt to interrupt it.
    again_at: Option<Instant>,
    /// Time to kill it.
    kill_at: Option<Instant>,
}

impl<'a> Run<'a> {
    pub(super) fn new(pending: &'a PendingExecution, kernel: &'a mut Kernel, id: u64) -> Self {
        Self {
            pending,
            kernel,
            id,
            fresh: false,
            may_retry: false,
            is_started: false,
            timed_out: false,
            is_killed: false,
            again_at: None,
            kill_at: None,
        }
    }

    /// Runs it to its end. `kill` resolves when the interpreter is to be killed.
    pub(super) async fn run(
        mut self,
        state: watch::Receiver<State>,
        kill: impl Future<Output = ()>,
    ) -> AfterRun {
        let time = unpaused(self.pending.request.timeout, state);
        tokio::pin!(time, kill);
        let log = self.pending.log.clone();
        self.kernel.redirect(log.stdout.clone(), log.stderr.clone());
        if !self.send(time.as_mut(), kill.as_mut()).await {
            self.kernel.kill().await;
        }
        loop {
            tokio::select! {
                event = self.kernel.next_event() => match event {
                    KernelEvent::Frame(frame, bytes) => {
                        if self.handle(frame, bytes).await {
                            return self.settle().await;
                        }
                    }
                    KernelEvent::Moved => {}
                    KernelEvent::Died(why) => return self.died(&why),
                },
                () = log.interrupted(), if self.is_started => self.interrupt(false).await,
                () = &mut time, if !self.timed_out => self.time_out().await,
                () = at(self.again_at) => self.interrupt(true).await,
                () = at(self.kill_at) => {
                    self.kill_at = None;
                    self.kernel.kill().await;
                }
                () = &mut kill, if !self.is_killed => {
                    self.is_killed = true;
                    self.kernel.kill().await;
                }
            }
        }
    }

    /// Sends the code; `false` if that was cut short, which makes the channel useless.
    async fn send(
        &mut self,
        time: Pin<&mut impl Future<Output = ()>>,
        kill: Pin<&mut impl Future<Output = ()>>,
    ) -> bool {
        let ExecuteRequest { code, call, .. } = &self.pending.request;
        let body = json!({ "op": "execute", "id": self.id, "code": code, "call": call });
        tokio::select! {
            sent = self.kernel.send(&body) => sent.is_ok(),
            () = time => {
                self.timed_out = true;
                false
            }
            () = kill => {
                self.is_killed = true;
                false
            }
        }
    }

    fn died(&self, why: &str) -> AfterRun {
        if self.may_retry && !self.is_started && !self.timed_out && !self.is_killed {
            return AfterRun::Unbegun;
        }
        let status = if self.timed_out { Status::TimedOut } else { Status::Died };
        self.pending.fail(status, "InterpreterDied", why);
        AfterRun::Dead
    }

    /// Handles a frame of the driver; `true` if it was the end.
    async fn handle(&mut self, frame: DriverFrame, bytes: usize) -> bool {
        if frame.id() != Some(self.id) {
            return false;
        }
        // The driver flushes all output before it sends a frame.
        self.kernel.drain();
        let log = &self.pending.log;
        match frame {
            DriverFrame::Started { .. } if !self.is_started => {
                self.is_started = true;
                log.start(self.fresh);
                if log.is_interrupted() || self.timed_out {
                    self.interrupt(false).await;
                }
            }
            DriverFrame::Result { main, data, .. } => {
                log.push(Event::Result(Rich { main, data }), bytes);
            }
            DriverFrame::Error { raised, .. } => log.push(Event::Error(raised), bytes),
            DriverFrame::Done { status, execution_count, .. } => {
                let status = if self.timed_out { Status::TimedOut } else { Status::from(status) };
                log.finish(status, execution_count);
                return true;
            }
            DriverFrame::Refused { message, .. } => {
                self.pending.fail(Status::Error, "Refused", &message);
                return true;
            }
            _ => {}
        }
        false
    }

    async fn interrupt(&mut self, again: bool) {
        if self.pending.log.is_cancelled() {
            self.kill_at.get_or_insert_with(|| Instant::now() + KILL_DELAY);
        }
        let is_sure = self.kernel.interrupt(self.id, again).await;
        self.again_at = (!is_sure).then(|| Instant::now() + INTERRUPT_INTERVAL);
    }

    async fn time_out(&mut self) {
        self.timed_out = true;
        self.kill_at = Some(Instant::now() + KILL_DELAY);
        if self.is_started {
            self.interrupt(false).await;
        }
    }

    async fn settle(self) -> AfterRun {
        match self.kernel.settle(self.id + 1).await {
            true => AfterRun::Alive,
            false => AfterRun::Dead,
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
