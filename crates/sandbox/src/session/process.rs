//! Handle of a program in a session.

use std::{sync::Arc, time::Duration};

use ringfence_jail::wire::{SignalScope, Spent};
use ringfence_types::{Bytes, Outcome};
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe,
    sync::{Mutex, watch},
};

use super::{
    Ending, Error, Reach, Size, State,
    family::Family,
    shared::Shared,
    start::{kill, send_signal},
    terminal::Terminal,
};
use crate::output::Output;

/// A started program. Cheap to clone; it belongs to the session, so dropping every handle ends
/// nothing.
#[derive(Debug, Clone)]
pub struct Process {
    pub(super) inner: Arc<ProcessInner>,
}

#[derive(Debug)]
pub(super) struct ProcessInner {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u32,
    pub(super) pid: i32,
    pub(super) family: Option<Family>,
    pub(super) stdin: Mutex<Option<pipe::Sender>>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) result: Output,
    pub(super) terminal: Option<Terminal>,
    pub(super) finish: watch::Receiver<Option<Finish>>,
}

/// Result of supervising a program.
#[derive(Debug, Clone)]
pub(super) enum Finish {
    Ended(ProcessEnd),
    /// The session ended first.
    Lost(Ending),
}

/// End of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Outcome, with the limit it met if one explains it. Limits are the session's, and programs
    /// that run at the same time share them: the evidence is what the kernel counted since the last
    /// program that failed.
    pub outcome: Outcome,
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// Signal that ended it, from any sender.
    pub signal: Option<i32>,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Resources used.
    pub usage: ProcessUsage,
}

/// Resources used by a program and those of its children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Time from its start to its end.
    pub wall: Duration,
    /// User cpu time.
    pub cpu_user: Duration,
    /// System cpu time.
    pub cpu_system: Duration,
    /// Largest resident memory of one process.
    pub memory_peak: Bytes,
    /// Bytes read from storage.
    pub io_read: Bytes,
    /// Bytes written to storage.
    pub io_written: Bytes,
}

impl ProcessUsage {
    pub(super) fn new(wall: Duration, spent: Spent) -> Self {
        Self {
            wall,
            cpu_user: Duration::from_micros(spent.user_us),
            cpu_system: Duration::from_micros(spent.system_us),
            memory_peak: Bytes(spent.max_rss),
            io_read: Bytes(spent.io_read),
            io_written: Bytes(spent.io_written),
        }
    }
}

impl Process {
    /// Its number in the session.
    pub fn id(&self) -> u32 {
        self.inner.id
    }

    /// Its pid inside the sandbox.
    pub fn pid(&self) -> i32 {
        self.inner.pid
    }

    /// Standard output, or all output of its terminal. Closed when the program ends; output of
    /// background children after that is read and dropped, so that they never block.
    pub fn stdout(&self) -> &Output {
        &self.inner.stdout
    }

    /// Its standard error; empty with a terminal.
    pub fn stderr(&self) -> &Output {
        &self.inner.stderr
    }

    /// Content of the descriptor that `RINGFENCE_RESULT_FD` names.
    pub fn result(&self) -> &Output {
        &self.inner.result
    }

    /// Sends bytes to its standard input or types them into its terminal; waits while it does not
    /// read them. Writers take turns.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.demand_running()?;
        let _busy = self.inner.shared.busy();
        let mut finish = self.inner.finish.clone();
        let mut stdin = self.inner.stdin.lock().await;
        let pipe = stdin.as_mut().ok_or(Error::ProcessEnded)?;
        tokio::select! {
            written = pipe.write_all(bytes) => written.map_err(|_| Error::ProcessEnded),
            _ = finish.wait_for(Option::is_some) => Err(Error::ProcessEnded),
        }
    }

    /// Ends its standard input, after writes in progress. A terminal has no such end: type `\x04`
    /// instead.
    pub async fn close_stdin(&self) {
        if self.inner.terminal.is_none() {
            self.inner.stdin.lock().await.take();
        }
    }

    /// Changes the size of its terminal.
    pub fn resize(&self, size: Size) -> Result<(), Error> {
        self.demand_running()?;
        self.inner.terminal.as_ref().ok_or(Error::NoTerminal)?.resize(size)
    }

    /// Sends a signal to its process group, as a terminal does.
    pub async fn signal(&self, signal: i32) -> Result<(), Error> {
        self.send(signal, SignalScope::Group).await
    }

    /// Kills it and what it started, as far as [`Process::reach`] says.
    pub async fn kill(&self) -> Result<(), Error> {
        self.demand_running()?;
        let _busy = self.inner.shared.busy();
        kill(&self.inner.shared, self.inner.id, self.inner.family.as_ref()).await
    }

    /// Extent of what its timeout or [`Process::kill`] ends.
    pub fn reach(&self) -> Reach {
        if self.inner.family.is_some() { Reach::Everything } else { Reach::Session }
    }

    /// Waits for its end; an error only if the session ended first. Can be called repeatedly.
    pub async fn wait(&self) -> Result<ProcessEnd, Error> {
        let mut finish = self.inner.finish.clone();
        match finish.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Finish::Ended(end))) => Ok(end.clone()),
            Ok(Some(Finish::Lost(why))) => Err(Error::Ended(*why)),
            _ => Err(Error::Ended(self.inner.shared.ending())),
        }
    }

    /// Its end, if it has ended.
    pub fn try_wait(&self) -> Option<ProcessEnd> {
        match &*self.inner.finish.borrow() {
            Some(Finish::Ended(end)) => Some(end.clone()),
            _ => None,
        }
    }

    async fn send(&self, signal: i32, scope: SignalScope) -> Result<(), Error> {
        if !(1..=64).contains(&signal) {
            return Err(Error::Invalid("a signal is a number from 1 to 64".to_owned()));
        }
        self.demand_running()?;
        let _busy = self.inner.shared.busy();
        send_signal(&self.inner.shared, self.inner.id, signal, scope).await
    }

    fn demand_running(&self) -> Result<(), Error> {
        match self.inner.shared.state() {
            State::Ended(why) => Err(Error::Ended(why)),
            State::Paused => Err(Error::Paused),
            State::Running if self.inner.finish.borrow().is_some() => Err(Error::ProcessEnded),
            State::Running => Ok(()),
        }
    }
}
