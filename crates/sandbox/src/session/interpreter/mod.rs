//! Interpreters that keep their state from one execution to the next.
//!
//! Contract:
//! - An interpreter is a process of the session that runs our driver beside the user's code, as the
//!   same user. Its messages are trusted only as far as that code's own output.
//! - One execution at a time; others wait in a bounded queue, in order.
//! - The output of an execution is exactly what was written between its start and its end, by
//!   offset, and no [`Event`] comes before output that was written before it. Output of background
//!   threads between executions is read and dropped.
//! - An interrupt reaches the execution it is for, running or waiting, and never a later one.
//! - An interpreter that died ends its execution with [`Status::Died`]; the next execution starts a
//!   new one, and its [`Event::Started`] says that it is fresh.
//! - It ends when its last handle is dropped, by [`Interpreter::close`], or with the session.

mod driver_frame;
mod events;
mod execution;
mod kernel;
mod log;
mod run;
mod start_spec;
mod task;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ringfence_policy::Permit;
use ringfence_types::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

pub use self::{
    events::{Event, Raised, Rich, Status, Stream},
    execution::{Collected, Execution, ExecutionHandle},
    log::Summary,
};
use self::{
    log::EventLog,
    run::PendingExecution,
    start_spec::StartSpec,
    task::{Answer, Command, Question, Restart, Task},
};
use super::{
    Error, State,
    exec::{DIRECTORY, is_directory},
    request::{ENVIRONMENT, is_environment, time_problem},
    shared::{MAX_INTERPRETERS, Shared},
};
use crate::Language;

/// Start options of an interpreter.
#[derive(Debug, Clone)]
pub struct Options {
    /// Working directory, from which modules are imported; absolute.
    pub cwd: String,
    /// Variables added to the session's environment.
    pub env: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { cwd: "/workspace".to_owned(), env: BTreeMap::new() }
    }
}

/// Request to execute code.
#[derive(Debug, Clone)]
pub struct ExecuteRequest {
    /// Statements; the value of the last one is the result.
    pub code: String,
    /// Time limit after which it is interrupted and, if that does not help, killed with its
    /// interpreter.
    pub timeout: Option<Duration>,
    /// Bytes kept of each output stream; the session's `limits.output` if `None`.
    pub output: Option<Bytes>,
    /// Id of the call that the code runs for: the value of `RINGFENCE_CALL_ID` while it runs.
    pub call: Option<String>,
}

impl ExecuteRequest {
    /// Request for this code, with everything else at its default.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), timeout: None, output: None, call: None }
    }
}

/// A variable, as the interpreter describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short representation.
    pub repr: String,
}

/// Completions at a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// Replacements for the text between the two positions.
    pub matches: Vec<String>,
    /// Begin of that text, in characters of the interpreter's language.
    pub cursor_start: u64,
    /// End of that text.
    pub cursor_end: u64,
}

/// Largest number of waiting executions and questions.
const QUEUE_CAPACITY: usize = 16;
/// Largest size of code in bytes; the driver takes no larger frame.
const MAX_CODE: usize = 16 << 20;

/// A stateful interpreter. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Interpreter {
    inner: Arc<InterpreterInner>,
}

#[derive(Debug)]
struct InterpreterInner {
    shared: Arc<Shared>,
    language: Language,
    commands: mpsc::Sender<Command>,
    restarts: mpsc::Sender<Restart>,
    /// Waiting and running executions, in order; finished ones are removed from time to time.
    executions: Mutex<VecDeque<Weak<EventLog>>>,
}

impl Interpreter {
    pub(super) async fn start(
        shared: &Arc<Shared>,
        language: Language,
        options: Options,
    ) -> Result<Self, Error> {
        check(language, &options)?;
        let permit = shared
            .interpreters
            .clone()
            .try_acquire_owned()
            .map_err(|_| Error::TooMany { what: "interpreters", limit: MAX_INTERPRETERS })?;
        let start_spec = StartSpec::new(shared, language, options);
        let kernel = start_spec.start(shared).await?;
        let (commands, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (restarts, restarted) = mpsc::channel(QUEUE_CAPACITY);
        let task = Task::new(shared.clone(), start_spec, kernel, queue, restarted, permit);
        tokio::spawn(task.serve());
        let executions = Mutex::new(VecDeque::new());
        let inner =
            InterpreterInner { shared: shared.clone(), language, commands, restarts, executions };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Language of the interpreter.
    pub fn language(&self) -> Language {
        self.inner.language
    }

    /// Queues code and returns at once; its results arrive as events. Dropping the [`Execution`]
    /// does not stop it.
    pub fn execute(&self, _permit: Permit, request: ExecuteRequest) -> Result<Execution, Error> {
        if request.code.len() > MAX_CODE {
            return Err(Error::Invalid(format!("code is over {MAX_CODE} bytes")));
        }
        if let Some(problem) = request.timeout.and_then(|time| time_problem("timeout", time)) {
            return Err(Error::Invalid(problem));
        }
        self.demand_running()?;
        let shared = &self.inner.shared;
        let cap = request.output.unwrap_or(shared.request.limits.output).0;
        let log = Arc::new(EventLog::new(cap));
        let pending = PendingExecution { request, log: log.clone(), _busy: shared.busy() };
        self.queue(Command::Execute(pending))?;
        self.unfinished(|executions| executions.push_back(Arc::downgrade(&log)));
        Ok(Execution::new(log))
    }

    /// Interrupts the running execution, or else the first that waits, as Ctrl-C would. Code can
    /// resist. `false` if there is none.
    pub fn interrupt(&self) -> Result<bool, Error> {
        self.demand_running()?;
        let first = self.unfinished(|executions| executions.front().and_then(Weak::upgrade));
        if let Some(log) = &first {
            log.interrupt();
        }
        Ok(first.is_some())
    }

    /// Variables; empty if it died.
    pub async fn variables(&self) -> Result<Vec<Variable>, Error> {
        self.ask(Question::Variables).await.map(|answer| answer.variables.unwrap_or_default())
    }

    /// Completions of `code` at `cursor`, counted in characters of its language.
    pub async fn complete(&self, code: &str, cursor: u64) -> Result<Completions, Error> {
        let question = Question::Complete { code: code.to_owned(), cursor };
        let answer = self.ask(question).await?;
        answer.completions.ok_or_else(|| Error::InterpreterRefused("no answer".to_owned()))
    }

    /// Forgets all variables; the process, its modules and its files stay.
    pub async fn reset(&self, _permit: Permit) -> Result<(), Error> {
        self.ask(Question::Reset).await.map(drop)
    }

    /// Kills the process and starts a new one.
    pub async fn restart(&self, _permit: Permit) -> Result<(), Error> {
        self.demand_running()?;
        let _busy = self.inner.shared.busy();
        let (done, wait) = oneshot::channel();
        self.inner.restarts.send(done).await.map_err(|_| self.gone())?;
        wait.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Ends it when the queue is done. Other handles find it ended.
    pub async fn close(&self) {
        let (done, wait) = oneshot::channel();
        if self.inner.commands.send(Command::Close(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    async fn ask(&self, question: Question) -> Result<Answer, Error> {
        self.demand_running()?;
        let _busy = self.inner.shared.busy();
        let (done, wait) = oneshot::channel();
        self.queue(Command::Ask(question, done))?;
        wait.await.unwrap_or_else(|_| Err(self.gone()))
    }

    fn unfinished<R>(&self, work: impl FnOnce(&mut VecDeque<Weak<EventLog>>) -> R) -> R {
        let mut executions = self.inner.executions.lock().unwrap_or_else(PoisonError::into_inner);
        executions.retain(|log| log.upgrade().is_some_and(|log| !log.is_finished()));
        work(&mut executions)
    }

    fn queue(&self, command: Command) -> Result<(), Error> {
        self.inner.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Error::TooMany { what: "waiting executions", limit: QUEUE_CAPACITY }
            }
            mpsc::error::TrySendError::Closed(_) => self.gone(),
        })
    }

    fn gone(&self) -> Error {
        match self.inner.shared.state() {
            State::Ended(why) => Error::Ended(why),
            _ => Error::InterpreterGone("it was closed".to_owned()),
        }
    }

    fn demand_running(&self) -> Result<(), Error> {
        match self.inner.shared.state() {
            State::Running => Ok(()),
            State::Paused => Err(Error::Paused),
            State::Ended(why) => Err(Error::Ended(why)),
        }
    }
}

fn check(language: Language, options: &Options) -> Result<(), Error> {
    let rules = [
        (language != Language::Bash, "only python and javascript have interpreters"),
        (is_environment(&options.env), ENVIRONMENT),
        (is_directory(&options.cwd), DIRECTORY),
    ];
    let problems: Vec<_> =
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule).collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems.join("; "))) }
}
