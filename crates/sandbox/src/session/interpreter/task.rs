//! The task that serves one interpreter: a queue of executions and questions, one at a time.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    super::{Error, shared::Shared},
    Completions, Status, Variable,
    kernel::{Kernel, Turn},
    recipe::Recipe,
    run::{Cell, Left, Run},
    said::Said,
};
use crate::output::Output;

/// What handles ask for, in order.
#[derive(Debug)]
pub(super) enum Command {
    Execute(Cell),
    Ask(Question, oneshot::Sender<Result<Answer, Error>>),
    Close(oneshot::Sender<()>),
}

/// What handles ask for at once.
pub(super) type Restart = oneshot::Sender<Result<(), Error>>;

/// A question to the driver.
#[derive(Debug)]
pub(super) enum Question {
    Variables,
    Complete { code: String, cursor: u64 },
    Reset,
}

/// Its answer; a field is there if it was asked for.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) variables: Option<Vec<Variable>>,
    pub(super) completions: Option<Completions>,
}

/// How long a question may run code of the user's, such as a representation, before it is
/// interrupted, and how long that may take.
const THOUGHT: Duration = Duration::from_secs(10);
const AFTERTHOUGHT: Duration = Duration::from_secs(2);

pub(super) struct Task {
    shared: Arc<Shared>,
    recipe: Recipe,
    /// `None` after it died, until somebody needs one.
    kernel: Option<Kernel>,
    queue: mpsc::Receiver<Command>,
    restarts: mpsc::Receiver<Restart>,
    /// Every second number; those between are for settling.
    next_id: u64,
    /// The interpreter has executed nothing yet.
    fresh: bool,
    _permit: OwnedSemaphorePermit,
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        recipe: Recipe,
        kernel: Kernel,
        queue: mpsc::Receiver<Command>,
        restarts: mpsc::Receiver<Restart>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let kernel = Some(kernel);
        Self { shared, recipe, kernel, queue, restarts, next_id: 1, fresh: true, _permit: permit }
    }

    /// Serves until the last handle is dropped or the session ends.
    pub(super) async fn serve(mut self) {
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                command = self.queue.recv() => match command {
                    Some(Command::Execute(cell)) => self.execute(cell).await,
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

    async fn execute(&mut self, cell: Cell) {
        if cell.log.is_interrupted() {
            return cell.give_up(Status::Interrupted, "Interrupted", "interrupted before it began");
        }
        let mut restart = None;
        for may_retry in [true, false] {
            if let Err(error) = self.revive().await {
                cell.give_up(Status::Died, "InterpreterDied", &error.to_string());
                break;
            }
            if self.attempt(&cell, may_retry, &mut restart).await != Left::Unbegun {
                break;
            }
        }
        drop(cell);
        if let Some(restart) = restart {
            self.restart(restart).await;
        }
    }

    /// Runs the code in the present kernel; notes who wanted a new one meanwhile.
    async fn attempt(
        &mut self,
        cell: &Cell,
        may_retry: bool,
        restart: &mut Option<Restart>,
    ) -> Left {
        let Some(kernel) = &mut self.kernel else { return Left::Dead };
        self.next_id += 2;
        let fresh = std::mem::take(&mut self.fresh);
        let kill = async {
            match self.restarts.recv().await {
                Some(asked) => *restart = Some(asked),
                None => std::future::pending().await,
            }
        };
        let state = self.shared.watch_state();
        let mut run = Run::new(cell, kernel, self.next_id);
        (run.fresh, run.may_retry) = (fresh, may_retry);
        let left = run.run(state, kill).await;
        match left {
            Left::Alive => kernel.redirect(Output::new(0), Output::new(0)),
            Left::Dead | Left::Unbegun => self.kernel = None,
        }
        left
    }

    /// A living kernel, started anew if the last one died.
    async fn revive(&mut self) -> Result<(), Error> {
        if self.kernel.is_none() {
            self.kernel = Some(self.recipe.start(&self.shared).await?);
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
        while !matches!(kernel.turn().await, Turn::Died(_)) {}
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
    let (sending, thought) = (kernel.time(THOUGHT), kernel.time(THOUGHT));
    let afterthought = kernel.time(THOUGHT + AFTERTHOUGHT);
    tokio::select! {
        sent = kernel.send(body) => sent?,
        () = sending => return Err(silent()),
    }
    let answered = tokio::select! {
        answered = hear(kernel, id) => answered,
        () = thought => {
            kernel.interrupt(id, true).await;
            tokio::select! {
                answered = hear(kernel, id) => answered,
                () = afterthought => Err(silent()),
            }
        }
    };
    match kernel.settle(id + 1).await {
        true => answered,
        false => Err(silent()),
    }
}

async fn hear(kernel: &mut Kernel, id: u64) -> Result<Answer, Error> {
    loop {
        let said = match kernel.turn().await {
            Turn::Said(said, _) if said.id() == Some(id) => said,
            Turn::Died(why) => return Err(Error::InterpreterGone(why)),
            _ => continue,
        };
        return match said {
            Said::Variables { variables: Some(variables), .. } => {
                Ok(Answer { variables: Some(variables), ..Answer::default() })
            }
            Said::Completions { completions: Some(completions), .. } => {
                Ok(Answer { completions: Some(completions), ..Answer::default() })
            }
            Said::Reset { .. } => Ok(Answer::default()),
            Said::Refused { message, .. } => Err(Error::InterpreterRefused(message)),
            Said::Variables { error, .. } | Said::Completions { error, .. } => {
                let error = error.unwrap_or_default().to_string();
                Err(Error::InterpreterRefused(error))
            }
            _ => continue,
        };
    }
}

/// Moves what an idle interpreter writes out of its way, and notices its death.
async fn idle(kernel: &mut Option<Kernel>) {
    let Some(living) = kernel else { return std::future::pending().await };
    if let Turn::Died(_) = living.turn().await {
        *kernel = None;
    }
}
