//! Calls in flight in this process, as other tasks see them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use ringfence_sandbox::{
    Output,
    session::interpreter::{Collected, Execution},
};
use ringfence_types::{Call, CallId, KeyId, State, Stopper, artifact_label as label};
use tokio::sync::watch;

use crate::{
    Refused, cause::LoansOnce, detach_on_drop::DetachOnDrop, queue::Turn, sandboxes::Program,
    sdk::Progress,
};

/// One call in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    seen: watch::Sender<Snapshot>,
    cancel: watch::Sender<Option<Stopper>>,
    outputs: OnceLock<(Output, Output)>,
    /// The program of a session sandbox that the call started.
    program: OnceLock<Program>,
    /// The reader of the execution that the call began, until it is taken.
    execution: Mutex<Option<Execution>>,
    /// The call that made this one; it ends when that one does.
    pub(crate) parent: Option<Arc<InFlight>>,
    /// The place that the call runs in, while it runs.
    place: Mutex<Option<Arc<Turn>>>,
    pub(crate) loans: LoansOnce,
    /// Labels of the results that its children gave it.
    learned: Mutex<Vec<String>>,
    /// Latest progress report of its program.
    progress: watch::Sender<Option<Progress>>,
    /// The call of another process that used the idempotency key first.
    repeats: OnceLock<CallId>,
}

/// State of a call at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) call: Arc<Call>,
    /// The call is on record, so its id may be sent.
    pub(crate) durable: bool,
    /// Nothing more happens in this process: the call has ended, is held, or could not be recorded.
    pub(crate) over: bool,
}

impl InFlight {
    pub(crate) fn new(call: Arc<Call>, parent: Option<Arc<InFlight>>) -> Self {
        let seen = Snapshot { call, durable: false, over: false };
        Self {
            seen: watch::Sender::new(seen),
            cancel: watch::Sender::new(None),
            outputs: OnceLock::new(),
            program: OnceLock::new(),
            execution: Mutex::default(),
            parent,
            place: Mutex::default(),
            loans: LoansOnce::new(),
            learned: Mutex::default(),
            progress: watch::Sender::new(None),
            repeats: OnceLock::new(),
        }
    }

    pub(crate) fn show(&self, call: Arc<Call>, durable: bool, over: bool) {
        self.seen.send_replace(Snapshot { call, durable, over });
    }

    /// Marks the call as over, whatever its last state was.
    pub(crate) fn end(&self) {
        self.seen.send_modify(|seen| seen.over = true);
    }

    pub(crate) fn now(&self) -> Snapshot {
        self.seen.borrow().clone()
    }

    /// Cancels the call; the first canceller is remembered.
    pub(crate) fn cancel(&self, by: Stopper) {
        self.cancel.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(by);
            first
        });
    }

    /// Notes that another call used the idempotency key first, so this one is not recorded.
    pub(crate) fn set_repeats(&self, earlier: CallId) {
        let _ = self.repeats.set(earlier);
    }

    /// Adds labels of something that the call read.
    pub(crate) fn learn(&self, labels: &[String]) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        *learned = label::union(&learned, labels);
    }

    /// Labels of everything that the call read while it ran.
    pub(crate) fn learned(&self) -> Vec<String> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how far the program of the call is.
    pub(crate) fn set_progress(&self, progress: Progress) {
        self.progress.send_replace(Some(progress));
    }

    /// The latest report of the call's program.
    pub(crate) fn progress(&self) -> Option<Progress> {
        self.progress.borrow().clone()
    }

    /// Whether the call was asked to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.borrow().is_some()
    }

    /// The place that the call runs in, to be lent to calls that it makes.
    pub(crate) fn place(&self) -> Option<Arc<Turn>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the place that the call runs in; none when it no longer runs.
    pub(crate) fn set_place(&self, place: Option<Arc<Turn>>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Waits until the call or its parent is cancelled, or until the parent is over.
    pub(crate) async fn cancelled(&self) -> Stopper {
        let Some(parent) = &self.parent else { return self.asked_to_end().await };
        tokio::select! {
            by = self.asked_to_end() => by,
            by = Box::pin(parent.cancelled()) => by,
            seen = parent.until(|seen| seen.over) => Stopper::Parent(seen.call.asked.id),
        }
    }

    async fn asked_to_end(&self) -> Stopper {
        let mut asked = self.cancel.subscribe();
        loop {
            if let Some(by) = *asked.borrow_and_update() {
                return by;
            }
            if asked.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn print_to(&self, stdout: Output, stderr: Output) {
        let _ = self.outputs.set((stdout, stderr));
    }

    pub(crate) fn set_program(&self, program: Program) {
        let _ = self.program.set(program);
    }

    fn take_execution(&self) -> Option<Execution> {
        self.execution.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn set_execution(&self, execution: Execution) {
        *self.execution.lock().unwrap_or_else(PoisonError::into_inner) = Some(execution);
    }

    pub(crate) fn outputs(&self) -> Option<&(Output, Output)> {
        self.outputs.get()
    }

    /// Waits until the state satisfies `is_enough`.
    pub(crate) async fn until(&self, is_enough: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let now = self.now();
        if is_enough(&now) {
            return now;
        }
        let mut seen = self.seen.subscribe();
        match seen.wait_for(is_enough).await {
            Ok(seen) => seen.clone(),
            Err(_) => self.now(),
        }
    }
}

/// All calls in flight, and the idempotency keys they hold.
#[derive(Debug, Default)]
pub(crate) struct InFlightCalls {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    calls: HashMap<CallId, Arc<InFlight>>,
    keys: HashMap<(KeyId, String), CallId>,
}

impl InFlightCalls {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, id: CallId, in_flight: Arc<InFlight>) {
        self.lock().calls.insert(id, in_flight);
    }

    pub(crate) fn get(&self, id: CallId) -> Option<Arc<InFlight>> {
        self.lock().calls.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<InFlight>> {
        self.lock().calls.values().cloned().collect()
    }

    /// Reserves an idempotency key, or returns the call that holds it.
    pub(crate) fn reserve(&self, key: (KeyId, String), id: CallId) -> Option<CallId> {
        let mut tables = self.lock();
        if let Some(holder) = tables.keys.get(&key) {
            return Some(*holder);
        }
        tables.keys.insert(key, id);
        None
    }

    pub(crate) fn release(&self, key: &(KeyId, String)) {
        self.lock().keys.remove(key);
    }

    /// Removes a call that is over, unless it has been started again since.
    pub(crate) fn remove(&self, call: &Call, in_flight: &Arc<InFlight>) {
        let mut tables = self.lock();
        if tables.calls.get(&call.asked.id).is_some_and(|listed| Arc::ptr_eq(listed, in_flight)) {
            tables.calls.remove(&call.asked.id);
        }
        if let Some(idempotency) = &call.asked.idempotency {
            tables.keys.remove(&(call.asked.key, idempotency.key.clone()));
        }
    }
}

fn is_running(call: &Call) -> bool {
    matches!(call.state, State::Running | State::Cancelling { .. })
}

/// An accepted call: its id, and the way to its end. The call is driven while the caller waits, and
/// by a task of its own as soon as the wait is over or the ticket is dropped.
#[derive(Debug)]
#[must_use = "a call goes on when its ticket is waited for or dropped"]
pub struct Ticket {
    pub(crate) id: CallId,
    pub(crate) replayed: bool,
    pub(crate) in_flight: Arc<InFlight>,
    /// None for a call that runs in its own task or is over.
    pub(crate) driver: Option<DetachOnDrop>,
}

impl Ticket {
    /// Id of the call.
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Whether this is an earlier call with the same idempotency key.
    pub const fn is_replayed(&self) -> bool {
        self.replayed
    }

    /// Reason why the call was not recorded, if a call of another process used its idempotency key meanwhile. That
    /// call is found when the request is sent again.
    pub fn refused(&self) -> Option<Refused> {
        self.in_flight.repeats.get().copied().map(Refused::StillRunning)
    }

    /// The program of a session sandbox that the call started, if it did.
    pub fn program(&self) -> Option<&Program> {
        self.in_flight.program.get()
    }

    /// The reader of the execution that the call began. There is one, so it can be taken once.
    pub fn take_execution(&self) -> Option<Execution> {
        self.in_flight.take_execution()
    }

    /// The call once it runs, is held or has ended; on record in each case. `None` if it could not
    /// be recorded. For a call that runs in its own task
    /// ([`CallRequest::detached`](crate::CallRequest::detached)).
    pub async fn started(&mut self) -> Option<Arc<Call>> {
        let seen = self.in_flight.until(|seen| seen.over || is_running(&seen.call)).await;
        seen.durable.then_some(seen.call)
    }

    /// Waits like [`Ticket::wait`], and reads the execution that the call begins meanwhile to its end.
    pub async fn wait_and_collect(
        &mut self,
        timeout: Duration,
    ) -> (Option<Arc<Call>>, Option<Collected>) {
        let in_flight = self.in_flight.clone();
        let collecting = async move {
            in_flight.until(|seen| seen.over || is_running(&seen.call)).await;
            match in_flight.take_execution() {
                Some(execution) => Some(execution.collect().await),
                None => None,
            }
        };
        tokio::join!(self.wait(timeout), collecting)
    }

    /// The call at its end, or its state after `timeout`; on record in both cases. `None` if it
    /// could not be recorded.
    pub async fn wait(&mut self, timeout: Duration) -> Option<Arc<Call>> {
        match self.driver.take() {
            // After the timeout the driver is dropped, and the call goes on in its own task.
            Some(driver) => drop(tokio::time::timeout(timeout, driver).await),
            None => {
                let over = self.in_flight.until(|seen| seen.over);
                drop(tokio::time::timeout(timeout, over).await);
            }
        }
        let seen = self.in_flight.until(|seen| seen.durable || seen.over).await;
        seen.durable.then_some(seen.call)
    }
}
