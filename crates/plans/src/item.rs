//! One call of a step, from its derived key to its end.

use std::{sync::Arc, time::Duration};

use ringfence_engine::{By, CallRequest, Engine, OutputStream, Refused};
use ringfence_types::{
    Call, CallId, Json, PlanStep, Principal, Produced, State, Stopper, error_chain,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    state::{End, Place, StepError},
    step_call::StepCall,
};

/// Time of one wait for a call; it is waited for again after that.
const WAIT: Duration = Duration::from_secs(60);
/// Pause before a call is asked for again that could not be accepted or recorded.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that a refusal may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Refusals for want of a sandbox or by an open circuit until the step fails.
const MAX_REFUSALS: u32 = 60;
/// Bytes of standard error that are kept with a failure.
const MAX_STDERR: usize = 4_000;

/// A call to make, or to go on with.
pub(crate) struct Item {
    pub(crate) engine: Engine,
    pub(crate) who: Principal,
    pub(crate) plan: String,
    /// Name in the derived key: the step, with its number in a fan-out.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) call: StepCall,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancelled: CancellationToken,
    /// The call, if it is held.
    pub(crate) held: Option<CallId>,
}

impl Item {
    /// Makes the call, or finds it, and waits until it has ended or is held.
    pub(crate) async fn run(&self) -> End {
        if let Some(id) = self.held {
            return self.after_hold(id).await;
        }
        let ended = async {
            match self.begin().await {
                Ok(id) => self.ended(id).await,
                Err(end) => end,
            }
        };
        let timeout = async {
            match self.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = tokio::select! {
            biased;
            end = ended => return end,
            () = self.cancelled.cancelled() => true,
            () = timeout => false,
        };
        self.stop(cancelled).await
    }

    /// Cancels the call and waits for its end.
    async fn stop(&self, is_cancelled: bool) -> End {
        // Asked for again to learn its id: the key is derived, so it is the same call.
        let id = match self.begin().await {
            Ok(id) => id,
            Err(end) => return end,
        };
        if let Err(error) = self.engine.cancel(&self.who, id).await {
            tracing::warn!(error = error_chain(&error), call_id = %id, "a step is not cancelled");
        }
        match self.ended(id).await {
            End::Failed(_, error) if error.code == "cancelled" && is_cancelled => {
                End::Cancelled(Some(id))
            }
            End::Failed(_, error) if error.code == "cancelled" => {
                let message = "the step took longer than its timeout".to_owned();
                let code = "timeout".to_owned();
                End::Failed(Some(id), StepError { code, message, details: None })
            }
            End::Held(_) if is_cancelled => End::Cancelled(Some(id)),
            end => end,
        }
    }

    fn request(&self) -> Result<CallRequest, StepError> {
        let refused =
            |message: String| StepError { code: "refused".to_owned(), message, details: None };
        let tool = self.call.tool.parse();
        let tool = tool.map_err(|error: ringfence_types::InvalidId| refused(error.to_string()))?;
        let args = Json::from_value(&self.call.args);
        let args = args.ok_or_else(|| refused("the arguments are nested too deeply".to_owned()))?;
        let mut request = CallRequest::new(tool, args);
        request.version.clone_from(&self.call.version);
        request.persona.clone_from(&self.who.persona);
        let metadata = json!({"source": "plan", "plan": self.plan, "step": self.name});
        request.metadata = Json::from_value(&metadata).unwrap_or_else(Json::empty_object);
        request.detached = true;
        Ok(request)
    }

    /// The call of this attempt: a new one, or the one that was made before.
    async fn begin(&self) -> Result<CallId, End> {
        let request = self.request().map_err(|error| End::Failed(None, error))?;
        let step = PlanStep { plan: self.plan.clone(), step: self.name.clone() };
        let by = By::Step { parent: None, step, attempt: self.place.attempt };
        let mut refusals = 0;
        loop {
            let pause = match self.engine.call_by(&self.who, request.clone(), by.clone()).await {
                // Dropping the ticket leaves the call to a task of its own.
                Ok(ticket) => return Ok(ticket.id()),
                Err(Refused::StillRunning(id)) => return Ok(id),
                Err(Refused::Busy { retry_after }) => retry_after.min(MAX_PAUSE),
                Err(Refused::CircuitOpen { retry_after, .. }) if refusals < MAX_REFUSALS => {
                    retry_after.min(MAX_PAUSE)
                }
                Err(Refused::NoSandbox) if refusals < MAX_REFUSALS => PAUSE,
                Err(Refused::Store(error)) if refusals < MAX_REFUSALS => {
                    tracing::warn!(error = error_chain(&error), "a step waits for the store");
                    PAUSE
                }
                // The next process goes on with it.
                Err(Refused::Stopping) => std::future::pending().await,
                Err(refused) => {
                    let (code, message) = ("refused".to_owned(), refused.to_string());
                    return Err(End::Failed(None, StepError { code, message, details: None }));
                }
            };
            refusals += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until the call has ended or is held.
    async fn ended(&self, id: CallId) -> End {
        loop {
            match self.engine.wait_for(&self.who, id, WAIT).await {
                Ok(Some(call)) => {
                    if let Some(end) = self.end_of(&call).await {
                        return end;
                    }
                    if !self.engine.is_shared() {
                        // Not in flight and not over: the engine takes it up after a start.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                Ok(None) => {
                    // A pure call is on record only when it ends; before that it is in flight.
                    tokio::time::sleep(PAUSE).await;
                    match self.begin().await {
                        Ok(_) => {}
                        Err(end) => return end,
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "a step waits for the store");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits until a held call is decided, and then for its end.
    async fn after_hold(&self, id: CallId) -> End {
        let decided = async {
            let mut follow = self.engine.follow(&self.who, Some(id), None);
            loop {
                match self.engine.get(&self.who, id).await {
                    Ok(Some(call)) if call.hold().is_none() => return,
                    Ok(Some(_)) => {}
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(error = error_chain(&error), "a held step is not read");
                    }
                }
                // A fact about it, or a look after a while.
                let _ = tokio::time::timeout(WAIT, follow.next()).await;
            }
        };
        tokio::select! {
            () = decided => {}
            () = self.cancelled.cancelled() => {
                if let Err(error) = self.engine.cancel(&self.who, id).await {
                    let error = error_chain(&error);
                    tracing::warn!(error, call_id = %id, "a held step is not cancelled");
                }
                return End::Cancelled(Some(id));
            }
        }
        match self.ended(id).await {
            // Held again, by other rules.
            End::Held(id) => End::Held(id),
            end => end,
        }
    }

    /// The end of a call, if it has one or is held.
    async fn end_of(&self, call: &Arc<Call>) -> Option<End> {
        let id = call.asked.id;
        let failed = |code: &str, message: String| {
            Some(End::Failed(Some(id), StepError { code: code.to_owned(), message, details: None }))
        };
        match &call.state {
            State::Held(_) => Some(End::Held(id)),
            State::Finished(finished) => Some(match &finished.produced {
                Produced::Result(_) => End::Done(id),
                Produced::Error(error) => {
                    let details = self.details(call, error).await;
                    let (code, message) = (error.code.to_string(), error.message.clone());
                    End::Failed(Some(id), StepError { code, message, details })
                }
            }),
            State::Denied { reasons } => {
                let why: Vec<_> = reasons.iter().map(|reason| reason.message.as_str()).collect();
                failed("denied", why.join("; "))
            }
            State::Expired { .. } => {
                failed("expired", "the call was held and not decided in time".to_owned())
            }
            State::Cancelled { by: Stopper::Shutdown } if self.engine.is_stopping() => {
                std::future::pending().await
            }
            State::Cancelled { by: Stopper::Shutdown } if call.asked.pure => Some(End::Interrupted),
            State::Cancelled { by: Stopper::Shutdown } | State::OutcomeUnknown => {
                Some(End::Unknown(id))
            }
            State::Cancelled { .. } => failed("cancelled", "the call was cancelled".to_owned()),
            _ => None,
        }
    }

    /// Details of an error and the end of standard error.
    async fn details(&self, call: &Call, error: &ringfence_types::CallError) -> Option<String> {
        let mut details = error.details.as_ref().map(|details| details.as_str().to_owned());
        if let State::Finished(finished) = &call.state
            && finished.stderr.length > 0
        {
            let from = finished.stderr.length.saturating_sub(MAX_STDERR as u64);
            let read = self.engine.output(&self.who, call.asked.id, OutputStream::Stderr, from);
            if let Ok(Some(chunk)) = read.await {
                details = Some(String::from_utf8_lossy(&chunk.bytes).into_owned());
            }
        }
        details.map(|text| {
            let skipped = text.chars().count().saturating_sub(MAX_STDERR);
            text.chars().skip(skipped).collect()
        })
    }
}
