//! The process behind an interpreter: our driver, its channel and its output.

use std::time::Duration;

use ringfence_jail::wire::{Ended, Whom};
use serde_json::{Value, json};
use tokio::{
    task::coop::consume_budget,
    time::{sleep, timeout},
};

use super::{
    super::{Error, dispatch::Heard, runner::unpaused, shared::Refusals, start::Begun},
    said::Said,
};
use crate::{Language, job::Job, launch, output::Output, streams::Streams};

/// An interpreter that takes longer than this to start never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the last frames of a dead driver may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long a driver may take to come back to its loop after an interrupt.
const SETTLING: Duration = Duration::from_secs(5);

const SIGINT: i32 = 2;

/// A driver that runs.
#[derive(Debug)]
pub(super) struct Kernel {
    begun: Begun,
    streams: Streams,
    job: Job,
    language: Language,
    /// How it ended, once that is known; its last frames may still be on their way.
    death: Option<String>,
    /// Signals the init has not confirmed.
    unanswered: usize,
    /// A signal was sent that the driver may not have handled.
    is_signalled: bool,
}

/// What waiting for a driver brought.
#[derive(Debug)]
pub(super) enum Turn {
    /// It said something, in that many bytes.
    Said(Said, usize),
    /// Some output was moved, or the init confirmed a signal.
    Moved,
    /// It is dead, for this reason.
    Died(String),
}

impl Kernel {
    pub(super) fn new(begun: Begun, streams: Streams, job: Job, language: Language) -> Self {
        let (death, unanswered, is_signalled) = (None, 0, false);
        Self { begun, streams, job, language, death, unanswered, is_signalled }
    }

    /// Waits until it is ready for code. What it complained of is part of the error.
    pub(super) async fn until_ready(&mut self) -> Result<(), Error> {
        let time = self.time(PATIENCE);
        let waiting = async {
            loop {
                match self.turn().await {
                    Turn::Said(Said::Ready, _) => return Ok(()),
                    Turn::Died(why) => return Err(why),
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

    /// Waits until something happens, frames before the death that followed them. Cancel safe.
    pub(super) async fn turn(&mut self) -> Turn {
        consume_budget().await;
        if self.death.is_some() {
            return self.last_frame().await;
        }
        tokio::select! {
            frame = self.job.frame() => match frame {
                Some(frame) => Turn::Said(Said::parse(&frame), frame.len()),
                None => self.channel_closed().await,
            },
            heard = self.begun.route.recv() => {
                self.hear(heard);
                Turn::Moved
            }
            () = self.streams.stdout.pump() => Turn::Moved,
            () = self.streams.stderr.pump() => Turn::Moved,
            () = self.streams.result.pump() => Turn::Moved,
        }
    }

    async fn last_frame(&mut self) -> Turn {
        match timeout(LAST_WORDS, self.job.frame()).await {
            Ok(Some(frame)) => Turn::Said(Said::parse(&frame), frame.len()),
            _ => {
                self.streams.drain();
                Turn::Died(self.death.clone().unwrap_or_default())
            }
        }
    }

    /// A driver without its channel is of no use, whatever its process does.
    async fn channel_closed(&mut self) -> Turn {
        // Most often it is just exiting, and the init will tell how.
        tokio::select! {
            heard = self.begun.route.recv() => self.hear(heard),
            () = sleep(LAST_WORDS) => {
                let _ = self.begun.tether.kill().await;
                self.death = Some("it closed its channel".to_owned());
            }
        }
        Turn::Moved
    }

    fn hear(&mut self, heard: Option<Heard>) {
        match heard {
            Some(Heard::Signalled) => self.unanswered = self.unanswered.saturating_sub(1),
            Some(Heard::Ended(ended)) => {
                self.begun.tether.release();
                self.death = Some(self.explain(&ended));
            }
            Some(_) => {}
            None => {
                let ending = self.begun.tether.shared.ending();
                self.death = Some(format!("the session has ended: {ending}"));
            }
        }
    }

    fn explain(&self, ended: &Ended) -> String {
        let shared = &self.begun.tether.shared;
        let cell = shared.parts().map(|parts| parts.cell);
        let refusals = cell.map(|cell| Refusals::of(&cell)).unwrap_or_default();
        match (ended.signal, ended.code) {
            (Some(9), _) if shared.new_refusals(refusals).oom_kills > 0 => {
                "it was killed because the sandbox ran out of memory".to_owned()
            }
            (Some(signal), _) => format!("it was ended by signal {signal}"),
            (None, code) => format!("it exited with code {}", code.unwrap_or_default()),
        }
    }

    /// What is written from now on goes here; what was written before does not.
    pub(super) fn redirect(&mut self, stdout: Output, stderr: Output) {
        self.streams.drain();
        self.streams.stdout.output = stdout;
        self.streams.stderr.output = stderr;
    }

    /// Passes when `limit` has, pauses of the session left out.
    pub(super) fn time(&self, limit: Duration) -> impl Future<Output = ()> + use<> {
        unpaused(Some(limit), self.begun.tether.shared.watch_state())
    }

    /// Takes all output that was written before now.
    pub(super) fn drain(&mut self) {
        self.streams.drain();
    }

    /// Sends one frame, moving output meanwhile: a driver blocked on its output reads nothing.
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

    /// Asks the code of execution `id` to stop; `true` if that cannot get lost. Python loses no
    /// signal, and more than one would disturb code that cleans up. Node hears a message while it
    /// waits and a signal while it computes, and may lose a signal in between: so the message goes
    /// first, and signals follow, by further calls, as long as it did not help.
    pub(super) async fn interrupt(&mut self, id: u64, again: bool) -> bool {
        let is_node = self.language == Language::Javascript;
        if is_node && !again {
            let _ = self.send(&json!({ "op": "interrupt", "id": id })).await;
        } else if self.begun.tether.signal(SIGINT, Whom::Process).await.is_ok() {
            self.unanswered += 1;
            self.is_signalled = true;
        }
        !is_node
    }

    /// Ends the process; its death follows.
    pub(super) async fn kill(&mut self) {
        let _ = self.begun.tether.kill().await;
    }

    /// Waits until no signal can be on its way any more, so that none meets a later execution.
    /// `false` if it died, or is too busy with something else to be of use. `id` is one that
    /// nothing else has.
    pub(super) async fn settle(&mut self, id: u64) -> bool {
        if !std::mem::take(&mut self.is_signalled) {
            return true;
        }
        let time = self.time(SETTLING);
        tokio::select! {
            settled = self.until_settled(id) => settled,
            () = time => false,
        }
    }

    async fn until_settled(&mut self, id: u64) -> bool {
        while self.unanswered > 0 {
            if let Turn::Died(_) = self.turn().await {
                return false;
            }
        }
        // Node runs the handlers of signals in its loop; once it has answered something that was
        // sent after the signal, even if only to refuse it, the handler has run.
        self.language != Language::Javascript || self.round_trip(id).await
    }

    async fn round_trip(&mut self, id: u64) -> bool {
        if self.send(&json!({ "op": "settle", "id": id })).await.is_err() {
            return false;
        }
        loop {
            match self.turn().await {
                Turn::Said(said, _) if said.id() == Some(id) => return true,
                Turn::Died(_) => return false,
                _ => {}
            }
        }
    }
}
