//! Reading side of an execution.

use std::sync::Arc;

use super::{
    Event, Raised, Rich, Status, Stream,
    log::{EventLog, QueuedEvent, Summary},
};
use crate::output::{Chunk, Output};

/// Reader of an execution's events. One reader gets each event once; the outputs can be read by any
/// number of others, by offset.
#[derive(Debug)]
pub struct Execution {
    log: Arc<EventLog>,
    /// Next event, once it was seen; output before it is delivered first.
    next: Option<QueuedEvent>,
    stdout_at: u64,
    stderr_at: u64,
    /// Whether the first event was delivered; output waits for it.
    is_begun: bool,
}

/// Handle of an execution for others than its reader. Cheap to clone; holding it keeps nothing
/// running.
#[derive(Debug, Clone)]
pub struct ExecutionHandle {
    log: Arc<EventLog>,
}

impl ExecutionHandle {
    /// Its standard output, live.
    pub fn stdout(&self) -> &Output {
        &self.log.stdout
    }

    /// Its standard error, live.
    pub fn stderr(&self) -> &Output {
        &self.log.stderr
    }

    /// Stops this execution, running or queued, and no other. If the code resists, its interpreter
    /// is killed.
    pub fn cancel(&self) {
        self.log.cancel();
    }

    /// Waits for the end. Takes nothing from the reader.
    pub async fn ended(&self) -> Summary {
        self.log.summary().await
    }
}

/// Result of a complete execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Kept standard output.
    pub stdout: Vec<u8>,
    /// Kept standard error.
    pub stderr: Vec<u8>,
    /// Displayed values and the result.
    pub results: Vec<Rich>,
    /// Error that the code raised.
    pub error: Option<Raised>,
    /// End of the execution.
    pub status: Status,
    /// Number of executions.
    pub count: u64,
}

/// Largest number of bytes of one event.
const CHUNK: usize = 64 << 10;

impl Execution {
    pub(super) fn new(log: Arc<EventLog>) -> Self {
        Self { log, next: None, stdout_at: 0, stderr_at: 0, is_begun: false }
    }

    /// Handle for others than the reader.
    pub fn handle(&self) -> ExecutionHandle {
        ExecutionHandle { log: self.log.clone() }
    }

    /// Its standard output, live.
    pub fn stdout(&self) -> &Output {
        &self.log.stdout
    }

    /// Its standard error, live.
    pub fn stderr(&self) -> &Output {
        &self.log.stderr
    }

    /// Interrupts this execution, running or queued, and no other. Code can resist.
    pub fn interrupt(&self) {
        self.log.interrupt();
    }

    /// The next event; `None` after [`Event::Done`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.next = self.next.take().or_else(|| self.log.pop());
            if let Some(item) = &self.next {
                let (stdout, stderr) = (item.stdout, item.stderr);
                if let Some(event) = self.output_before(stdout, stderr).await {
                    return Some(event);
                }
                self.is_begun = true;
                return self.next.take().map(|item| item.event);
            }
            if self.log.is_finished() {
                return None;
            }
            let log = self.log.clone();
            tokio::select! {
                () = log.changed.notified() => {}
                chunk = more(&log.stdout, self.stdout_at), if self.is_begun => {
                    if let Some(event) = self.take(Stream::Stdout, chunk) {
                        return Some(event);
                    }
                }
                chunk = more(&log.stderr, self.stderr_at), if self.is_begun => {
                    if let Some(event) = self.take(Stream::Stderr, chunk) {
                        return Some(event);
                    }
                }
            }
        }
    }

    /// Reads all events to the end and collects them.
    pub async fn collect(mut self) -> Collected {
        let mut all = Collected {
            stdout: Vec::new(),
            stderr: Vec::new(),
            results: Vec::new(),
            error: None,
            status: Status::Died,
            count: 0,
        };
        while let Some(event) = self.next().await {
            match event {
                Event::Stdout(bytes) => all.stdout.extend(bytes),
                Event::Stderr(bytes) => all.stderr.extend(bytes),
                Event::Result(rich) => all.results.push(rich),
                Event::Error(raised) => all.error = Some(raised),
                Event::Done { status, count } => (all.status, all.count) = (status, count),
                Event::Started { .. } | Event::Gap { .. } | Event::Dropped { .. } => {}
            }
        }
        all
    }

    /// Available output up to these offsets that has not been delivered.
    async fn output_before(&mut self, stdout: u64, stderr: u64) -> Option<Event> {
        for (stream, end) in [(Stream::Stdout, stdout), (Stream::Stderr, stderr)] {
            let (output, at) = self.position(stream);
            let at = *at;
            if at < end {
                let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
                let chunk = output.read(at, most).await;
                return self.tell(stream, chunk, end);
            }
        }
        None
    }

    /// Output that arrived while no event was queued. An event may be queued by now, and some of
    /// these bytes may have come after it: those are left for later.
    fn take(&mut self, stream: Stream, chunk: Chunk) -> Option<Event> {
        self.next = self.log.pop();
        let end = self.next.as_ref().map_or(u64::MAX, |item| match stream {
            Stream::Stdout => item.stdout,
            Stream::Stderr => item.stderr,
        });
        self.tell(stream, chunk, end)
    }

    /// Turns a chunk into an event, up to `end` at most.
    fn tell(&mut self, stream: Stream, chunk: Chunk, end: u64) -> Option<Event> {
        let (_, at) = self.position(stream);
        match chunk {
            Chunk::Data(mut bytes) => {
                bytes.truncate(usize::try_from(end - *at).unwrap_or(usize::MAX));
                *at += bytes.len() as u64;
                let event = match stream {
                    Stream::Stdout => Event::Stdout,
                    Stream::Stderr => Event::Stderr,
                };
                (!bytes.is_empty()).then(|| event(bytes))
            }
            Chunk::Gap { resume } => {
                let dropped = resume.min(end) - *at;
                *at += dropped;
                (dropped > 0).then_some(Event::Gap { stream, dropped })
            }
            Chunk::End => None,
        }
    }

    fn position(&mut self, stream: Stream) -> (Output, &mut u64) {
        match stream {
            Stream::Stdout => (self.log.stdout.clone(), &mut self.stdout_at),
            Stream::Stderr => (self.log.stderr.clone(), &mut self.stderr_at),
        }
    }
}

/// More output; pending for ever at the end, which the last event reports.
async fn more(output: &Output, at: u64) -> Chunk {
    match output.read(at, CHUNK).await {
        Chunk::End => std::future::pending().await,
        chunk => chunk,
    }
}

#[cfg(test)]
mod tests;
