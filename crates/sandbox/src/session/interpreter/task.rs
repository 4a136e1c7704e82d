//! Task of one interpreter: a queue of executions and questions, one at a time.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    super::{Error, shared::Shared},
    Completions, Status, Variable,
    driver_frame::DriverFrame,
    kernel::{Kernel, KernelEvent},
    run::{AfterRun, PendingExecution, Run},
    start_spec::StartSpec,
};
use crate::output::Output;

/// Commands of handles that are queued.
#[derive(Debug)]
pub(super) enum Command {
    Execute(PendingExecution),
    Ask(Question, oneshot::Sender<Result<Answer, Error>>),
    Close(oneshot::Sender<()>),
}

/// Command of handles that is served at once.
pub(super) type Restart = oneshot::Sender<Result<(), Error>>;

/// A question to the driver.
#[derive(Debug)]
pub(super) enum Question {
    Variables,
    Complete { code: String, cursor: u64 },
    Reset,
}

/// Answer of the driver, with the field that was asked for.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) variables: Option<Vec<Variable>>,
    pub(super) completions: Option<Completions>,
}

/// Time limit for a question, which may run user code such as a representation, before it is
/// interrupted, and for the answer after that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const INTERRUPTED_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Task {
    shared: Arc<Shared>,
    start_spec: StartSpec,
    /// Driver; `None` after it died, until one is needed.
    kernel: Option<Kernel>,
    queue: mpsc::Receiver<Command>,
    restarts: mpsc::Receiver<Restart>,
    /// Next id, always even; odd ones are for settling.
    next_id: u64,
    /// Whether the interpreter has executed nothing yet.
    fresh: bool,
    _permit: OwnedSemaphorePermit,
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        start_spec: StartSpec,
        kernel: Kernel,
        queue: mpsc::Receiver<Command>,
        restarts: mpsc::Receiver<Restart>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let kernel = Some(kernel);
        Self {
            shared,
            start_spec,
            kernel,
            queue,
            restarts,
            next_id: 1,
            fresh: true,
            _permit: permit,
        }
    }

    /// Runs until the last handle is dropped or the session ends.
    pub(super) async fn serve(mut self) {
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                command = self.queue.recv() => match command {
                    Some(Command::Execute(pending)) => self.execute(pending).await,
                    Some(Command::Ask(question, answer)) => {
                        let _ = answer.send(self.ask(question).await);
                    }
                    Some(Command::Close(done)) => {
                        self.end().await;
                        let _ = done.send(());
                        return;
                    }
                    None => return self.end().await,
                },
                Some(restart) = self.restarts.recv() => self.restart(restart).await,
                () = idle(&mut self.kernel) => {}
                _ = shared.ended() => return,
            }
        }
    }

    async fn execute(&mut self, pending: PendingExecution) {
        if pending.log.is_interrupted() {
            return pending.fail(Status::Interrupted, "Interrupted", "interrupted before it began");
        }
        let mut restart = None;
        for may_retry in [true, false] {
            if let Err(error) = self.revive().await {
                pending.fail(Status::Died, "InterpreterDied", &error.to_string());
                break;
            }
            if self.attempt(&pending, may_retry, &mut restart).await != AfterRun::Unbegun {
                break;
            }
        }
        drop(pending);
        if let Some(restart) = restart {
            self.restart(restart).await;
        }
    }

    /// Runs the code in the current kernel; collects requests for a restart meanwhile.
    async fn attempt(
        &mut self,
        pending: &PendingExecution,
        may_retry: bool,
        restart: &mut Option<Restart>,
    ) -> AfterRun {
        let Some(kernel) = &mut self.kernel else { return AfterRun::Dead };
        self.next_id += 2;
        let fresh = std::mem::take(&mut self.fresh);
        let kill = async {
            match self.restarts.recv().await {
                Some(asked) => *restart = Some(asked),
                None => std::future::pending().await,
            }
        };
        let state = self.shared.watch_state();
        let mut run = Run::new(pending, kernel, self.next_id);
        (run.fresh, run.may_retry) = (fresh, may_retry);
        let left = run.run(state, kill).await;
        match left {
            AfterRun::Alive => kernel.redirect(Output::new(0), Output::new(0)),
            AfterRun::Dead | AfterRun::Unbegun => self.kernel = None,
        }
        left
    }

    /// Starts a kernel if the last one died.
    async fn revive(&mut self) -> Result<(), Error> {
        if self.kernel.is_none() {
            self.kernel = Some(self.start_spec.start(&self.shared).await?);
            self.fresh = true;
        }
        Ok(())
    }

    async fn restart(&mut self, asked: Restart) {
        self.end().await;
        let _ = asked.send(self.revive().await);
    }

    async fn end(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        kernel.kill().await;
        while !matches!(kernel.next_event().await, KernelEvent::Died(_)) {}
    }

    async fn ask(&mut self, question: Question) -> Result<Answer, Error> {
        self.revive().await?;
        let Some(kernel) = &mut self.kernel else { return Ok(Answer::default()) };
        self.next_id += 2;
        let id = self.next_id;
        let body = match &question {
            Question::Variables => json!({ "op": "variables", "id": id }),
            Question::Complete { code, cursor } => {
                json!({ "op": "complete", "id": id, "code": code, "cursor": cursor })
            }
            Question::Reset => json!({ "op": "reset", "id": id }),
        };
        let answered = answer(kernel, &body, id).await;
        if matches!(answered, Err(Error::InterpreterGone(_))) {
            self.end().await;
        }
        answered
    }
}

async fn answer(kernel: &mut Kernel, body: &serde_json::Value, id: u64) -> Result<Answer, Error> {
    let silent = || Error::InterpreterGone("it did not answer".to_owned());
    let (sending, thought) = (kernel.time(ANSWER_TIMEOUT), kernel.time(ANSWER_TIMEOUT));
    let afterthought = kernel.time(ANSWER_TIMEOUT + INTERRUPTED_ANSWER_TIMEOUT);
    tokio::select! {
        sent = kernel.send(body) => sent?,
        () = sending => return Err(silent()),
    }
    let answered = tokio::select! {
        answered = handle(kernel, id) => answered,
        () = thought => {
            kernel.interrupt(id, true).await;
            tokio::select! {
                answered = handle(kernel, id) => answered,
                () = afterthought => Err(silent()),
            }
        }
    };
    match kernel.settle(id + 1).await {
        true => answered,
        false => Err(silent()),
    }
}

async fn handle(kernel: &mut Kernel, id: u64) -> Result<Answer, Error> {
    loop {
        let frame = match kernel.next_event().await {
            KernelEvent::Frame(frame, _) if frame.id() == Some(id) => frame,
            KernelEvent::Died(why) => return Err(Error::InterpreterGone(why)),
            _ => continue,
        };
        return match frame {
            DriverFrame::Variables { variables: Some(variables), .. } => {
                Ok(Answer { variables: Some(variables), ..Answer::default() })
            }
            DriverFrame::Completions { completions: Some(completions), .. } => {
                Ok(Answer { completions: Some(completions), ..Answer::default() })
            }
            DriverFrame::Reset { .. } => Ok(Answer::default()),
            DriverFrame::Refused { message, .. } => Err(Error::InterpreterRefused(message)),
            DriverFrame::Variables { error, .. } | DriverFrame::Completions { error, .. } => {
                let error = error.unwrap_or_default().to_string();
                Err(Error::InterpreterRefused(error))
            }
            _ => continue,
        };
    }
}

/// Reads the output of an idle interpreter, and notices its end.
async fn idle(kernel: &mut Option<Kernel>) {
    let Some(living) = kernel else { return std::future::pending().await };
    if let KernelEvent::Died(_) = living.next_event().await {
        *kernel = None;
    }
}
