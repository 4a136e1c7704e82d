//! Process of an interpreter: our driver, its channel and its output.

use std::time::Duration;

use ringfence_jail::wire::{Ended, SignalScope};
use serde_json::{Value, json};
use tokio::{
    task::coop::consume_budget,
    time::{sleep, timeout},
};

use super::{
    super::{Error, dispatch::ProgramMessage, runner::unpaused, shared::Refusals, start::Begun},
    driver_frame::DriverFrame,
};
use crate::{Language, job::JobChannel, launch, output::Output, streams::Streams};

/// Time limit for the start of an interpreter.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the last frames of a dead driver.
const FRAME_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit for a driver to return to its loop after an interrupt.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

const SIGINT: i32 = 2;

/// A running driver.
#[derive(Debug)]
pub(super) struct Kernel {
    begun: Begun,
    streams: Streams,
    job: JobChannel,
    language: Language,
    /// Cause of its end, once known; its last frames may still arrive.
    death: Option<String>,
    /// Number of signals that the init has not confirmed.
    unanswered: usize,
    /// Whether a signal was sent that the driver may not have handled.
    is_signalled: bool,
}

/// Result of waiting for a driver.
#[derive(Debug)]
pub(super) enum KernelEvent {
    /// A frame, with its size in bytes.
    Frame(DriverFrame, usize),
    /// Output was moved, or the init confirmed a signal.
    Moved,
    /// The driver is dead, with the cause.
    Died(String),
}

impl Kernel {
    pub(super) fn new(begun: Begun, streams: Streams, job: JobChannel, language: Language) -> Self {
        let (death, unanswered, is_signalled) = (None, 0, false);
        Self { begun, streams, job, language, death, unanswered, is_signalled }
    }

    /// Waits until it is ready for code. Its standard error is part of the error.
    pub(super) async fn until_ready(&mut self) -> Result<(), Error> {
        let time = self.time(START_TIMEOUT);
        let waiting = async {
            loop {
                match self.next_event().await {
                    KernelEvent::Frame(DriverFrame::Ready, _) => return Ok(()),
                    KernelEvent::Died(why) => return Err(why),
                    _ => {}
                }
            }
        };
        let why = tokio::select! {
            ready = waiting => match ready {
                Ok(()) => return Ok(()),
                Err(why) => why,
            },
            () = time => "it did not become ready".to_owned(),
        };
        self.streams.drain();
        let complaints = self.streams.stderr.output.kept();
        let complaints = String::from_utf8_lossy(&complaints);
        Err(Error::InterpreterGone(format!("{why} {}", complaints.trim()).trim().to_owned()))
    }

    /// Waits for the next event; frames come before the end that followed them. Cancel safe.
    pub(super) async fn next_event(&mut self) -> KernelEvent {
        consume_budget().await;
        if self.death.is_some() {
            return self.last_frame().await;
        }
        tokio::select! {
            frame = self.job.frame() => match frame {
                Some(frame) => KernelEvent::Frame(DriverFrame::parse(&frame), frame.len()),
                None => self.channel_closed().await,
            },
            heard = self.begun.route.recv() => {
                self.handle(heard);
                KernelEvent::Moved
            }
            () = self.streams.stdout.pump() => KernelEvent::Moved,
            () = self.streams.stderr.pump() => KernelEvent::Moved,
            () = self.streams.result.pump() => KernelEvent::Moved,
        }
    }

    async fn last_frame(&mut self) -> KernelEvent {
        match timeout(FRAME_TIMEOUT, self.job.frame()).await {
            Ok(Some(frame)) => KernelEvent::Frame(DriverFrame::parse(&frame), frame.len()),
            _ => {
                self.streams.drain();
                KernelEvent::Died(self.death.clone().unwrap_or_default())
            }
        }
    }

    /// Handles the end of the channel, without which a driver is useless.
    async fn channel_closed(&mut self) -> KernelEvent {
        // Usually the process is just exiting, and the init reports how.
        tokio::select! {
            heard = self.begun.route.recv() => self.handle(heard),
            () = sleep(FRAME_TIMEOUT) => {
                let _ = self.begun.guard.kill().await;
                self.death = Some("it closed its channel".to_owned());
            }
        }
        KernelEvent::Moved
    }

    fn handle(&mut self, heard: Option<ProgramMessage>) {
        match heard {
            Some(ProgramMessage::Signalled) => self.unanswered = self.unanswered.saturating_sub(1),
            Some(ProgramMessage::Ended(ended)) => {
                self.begun.guard.release();
                self.death = Some(self.explain(&ended));
            }
            Some(_) => {}
            None => {
                let ending = self.begun.guard.shared.ending();
                self.death = Some(format!("the session has ended: {ending}"));
            }
        }
    }

    fn explain(&self, ended: &Ended) -> String {
        let shared = &self.begun.guard.shared;
        let jailed = shared.parts().map(|parts| parts.jailed);
        let refusals = jailed.map(|jailed| Refusals::of(&jailed)).unwrap_or_default();
        match (ended.signal, ended.code) {
            (Some(9), _) if shared.new_refusals(refusals).oom_kills > 0 => {
                "it was killed because the sandbox ran out of memory".to_owned()
            }
            (Some(signal), _) => format!("it was ended by signal {signal}"),
            (None, code) => format!("it exited with code {}", code.unwrap_or_default()),
        }
    }

    /// Sends output from now on to these; earlier output is not included.
    pub(super) fn redirect(&mut self, stdout: Output, stderr: Output) {
        self.streams.drain();
        self.streams.stdout.output = stdout;
        self.streams.stderr.output = stderr;
    }

    /// Resolves after `limit`, not counting pauses of the session.
    pub(super) fn time(&self, limit: Duration) -> impl Future<Output = ()> + use<> {
        unpaused(Some(limit), self.begun.guard.shared.watch_state())
    }

    /// Reads all output that was written before now.
    pub(super) fn drain(&mut self) {
        self.streams.drain();
    }

    /// Sends one frame and moves output meanwhile: a driver blocked on its output reads nothing.
    /// Not cancel safe: half a frame makes the channel useless.
    pub(super) async fn send(&mut self, body: &Value) -> Result<(), Error> {
        let frame = launch::frame(body)?;
        let sending = self.job.send(&frame);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                sent = &mut sending => {
                    let lost = |_| Error::InterpreterGone("it closed its channel".to_owned());
                    return sent.map_err(lost);
                }
                () = self.streams.stdout.pump() => {}
                () = self.streams.stderr.pump() => {}
                () = self.streams.result.pump() => {}
            }
        }
    }

    /// Asks the code of execution `id` to stop; `true` if the request cannot get lost. Python loses
    /// no signal, and more than one would disturb code that cleans up. Node receives a message
    /// while it waits and a signal while it computes, and may lose a signal in between: so the
    /// message is sent first, and signals follow by further calls while it still runs.
    pub(super) async fn interrupt(&mut self, id: u64, again: bool) -> bool {
        let is_node = self.language == Language::Javascript;
        if is_node && !again {
            let _ = self.send(&json!({ "op": "interrupt", "id": id })).await;
        } else if self.begun.guard.signal(SIGINT, SignalScope::Process).await.is_ok() {
            self.unanswered += 1;
            self.is_signalled = true;
        }
        !is_node
    }

    /// Kills the process; its end is reported afterwards.
    pub(super) async fn kill(&mut self) {
        let _ = self.begun.guard.kill().await;
    }

    /// Waits until no signal can be in flight, so that none reaches a later execution. `false` if
    /// it died, or is too busy with something else to be used. `id` must be unique.
    pub(super) async fn settle(&mut self, id: u64) -> bool {
        if !std::mem::take(&mut self.is_signalled) {
            return true;
        }
        let time = self.time(SETTLE_TIMEOUT);
        tokio::select! {
            settled = self.until_settled(id) => settled,
            () = time => false,
        }
    }

    async fn until_settled(&mut self, id: u64) -> bool {
        while self.unanswered > 0 {
            if let KernelEvent::Died(_) = self.next_event().await {
                return false;
            }
        }
        // Node runs signal handlers in its loop; once it has answered something that was sent after
        // the signal, even with a refusal, the handler has run.
        self.language != Language::Javascript || self.round_trip(id).await
    }

    async fn round_trip(&mut self, id: u64) -> bool {
        if self.send(&json!({ "op": "settle", "id": id })).await.is_err() {
            return false;
        }
        loop {
            match self.next_event().await {
                KernelEvent::Frame(frame, _) if frame.id() == Some(id) => return true,
                KernelEvent::Died(_) => return false,
                _ => {}
            }
        }
    }
}
