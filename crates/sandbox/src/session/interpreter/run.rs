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
    kernel::{Kernel, Turn},
    log::EventLog,
    said::Said,
};

/// An execution that waits or runs. Dropped before its end, it ends as that of a dead interpreter.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) request: ExecuteRequest,
    pub(super) log: Arc<EventLog>,
    /// An execution is use of the session, from its request to its end.
    pub(super) _busy: Busy,
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.log.finish(Status::Died, 0);
    }
}

impl Cell {
    /// Ends it with an explanation.
    pub(super) fn give_up(&self, status: Status, name: &str, why: &str) {
        let raised = Raised { name: name.to_owned(), value: why.to_owned(), traceback: Vec::new() };
        self.log.push(Event::Error(raised), why.len());
        self.log.finish(status, 0);
    }
}

/// How long one attempt to stop an execution may take before the next follows, if one has to.
const NEXT_TRY: Duration = Duration::from_millis(100);
/// How long code whose time is over may resist before its interpreter is killed.
const RESISTANCE: Duration = Duration::from_secs(2);

/// What an execution left of its interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Alive,
    Dead,
    /// Dead before the code began: it had died before, and nobody knew.
    Unbegun,
}

pub(super) struct Run<'a> {
    pub(super) cell: &'a Cell,
    pub(super) kernel: &'a mut Kernel,
    pub(super) id: u64,
    pub(super) fresh: bool,
    /// Whether the code may be given to another interpreter if it did not begin in this one.
    pub(super) may_retry: bool,
    is_started: bool,
    timed_out: bool,
    is_killed: bool,
    /// When to try again to stop it.
    again_at: Option<Instant>,
    /// When to kill it.
    kill_at: Option<Instant>,
}

impl<'a> Run<'a> {
    pub(super) fn new(cell: &'a Cell, kernel: &'a mut Kernel, id: u64) -> Self {
        Self {
            cell,
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

    /// Runs it to its end. `kill` passes when somebody wants the interpreter gone.
    pub(super) async fn run(
        mut self,
        state: watch::Receiver<State>,
        kill: impl Future<Output = ()>,
    ) -> Left {
        let time = unpaused(self.cell.request.timeout, state);
        tokio::pin!(time, kill);
        let log = self.cell.log.clone();
        self.kernel.redirect(log.stdout.clone(), log.stderr.clone());
        if !self.send(time.as_mut(), kill.as_mut()).await {
            self.kernel.kill().await;
        }
        loop {
            tokio::select! {
                turn = self.kernel.turn() => match turn {
                    Turn::Said(said, bytes) => {
                        if self.hear(said, bytes).await {
                            return self.settle().await;
                        }
                    }
                    Turn::Moved => {}
                    Turn::Died(why) => return self.died(&why),
                },
                () = log.interrupted(), if self.is_started => self.interrupt(false).await,
                () = &mut time, if !self.timed_out => self.time_is_over().await,
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

    /// Hands the code over; `false` if that was cut short, which leaves the channel useless.
    async fn send(
        &mut self,
        time: Pin<&mut impl Future<Output = ()>>,
        kill: Pin<&mut impl Future<Output = ()>>,
    ) -> bool {
        let body = json!({ "op": "execute", "id": self.id, "code": self.cell.request.code });
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

    fn died(&self, why: &str) -> Left {
        if self.may_retry && !self.is_started && !self.timed_out && !self.is_killed {
            return Left::Unbegun;
        }
        let status = if self.timed_out { Status::TimedOut } else { Status::Died };
        self.cell.give_up(status, "InterpreterDied", why);
        Left::Dead
    }

    /// Takes what the driver said; `true` if it was the end.
    async fn hear(&mut self, said: Said, bytes: usize) -> bool {
        if said.id() != Some(self.id) {
            return false;
        }
        // The driver lets everything out before it says something.
        self.kernel.drain();
        let log = &self.cell.log;
        match said {
            Said::Started { .. } if !self.is_started => {
                self.is_started = true;
                log.start(self.fresh);
                if log.is_interrupted() || self.timed_out {
                    self.interrupt(false).await;
                }
            }
            Said::Result { main, data, .. } => {
                log.push(Event::Result(Rich { main, data }), bytes);
            }
            Said::Error { raised, .. } => log.push(Event::Error(raised), bytes),
            Said::Done { status, execution_count, .. } => {
                let status = if self.timed_out { Status::TimedOut } else { Status::from(status) };
                log.finish(status, execution_count);
                return true;
            }
            Said::Refused { message, .. } => {
                self.cell.give_up(Status::Error, "Refused", &message);
                return true;
            }
            _ => {}
        }
        false
    }

    async fn interrupt(&mut self, again: bool) {
        if self.cell.log.is_cancelled() {
            self.kill_at.get_or_insert_with(|| Instant::now() + RESISTANCE);
        }
        let is_sure = self.kernel.interrupt(self.id, again).await;
        self.again_at = (!is_sure).then(|| Instant::now() + NEXT_TRY);
    }

    async fn time_is_over(&mut self) {
        self.timed_out = true;
        self.kill_at = Some(Instant::now() + RESISTANCE);
        if self.is_started {
            self.interrupt(false).await;
        }
    }

    async fn settle(self) -> Left {
        match self.kernel.settle(self.id + 1).await {
            true => Left::Alive,
            false => Left::Dead,
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
