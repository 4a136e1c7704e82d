//! Changes that people ask for: start, pause, resume, cancel, retry, and what is done about single steps.

use ringfence_types::{Json, KeyId, Timestamp};
use serde_json::{Value, json};

use crate::{
    document::{self, Problem},
    state::{Plan, PlanStatus, Status},
};

/// A change that a person asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Starts a plan that is pending.
    Run,
    /// Begins no further step.
    Pause,
    /// Goes on after a pause, or after a failed step was skipped or replaced.
    Resume,
    /// Ends it; calls under way are cancelled.
    Cancel,
    /// Tries failed steps again; with a step, that step and all after it.
    Retry(Option<String>),
    /// Whether each step waits for a person.
    SetIntervention(bool),
    /// Something about one step.
    Step(String, StepIntent),
}

/// A change of one step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepIntent {
    /// Lets a step begin that waits for a person.
    Resume,
    /// Leaves it out; steps that are bound to it are left out too.
    Skip,
    /// Gives it another payload.
    Edit(Value),
    /// Takes this result in the place of its own.
    Replace(Value),
}

/// Reason why a change is not made.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// It does not fit the state of the plan.
    #[error("{0}")]
    Conflict(String),
    /// There is no such step.
    #[error("the plan has no step `{0}`")]
    UnknownStep(String),
    /// The changed document has problems.
    #[error("the changed plan has {} problems", .0.len())]
    Invalid(Vec<Problem>),
}

impl Intent {
    /// Name of the change, as the plan keeps it.
    fn name(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Retry(_) => "retry",
            Self::SetIntervention(true) => "intervention on",
            Self::SetIntervention(false) => "intervention off",
            Self::Step(_, StepIntent::Resume) => "step resume",
            Self::Step(_, StepIntent::Skip) => "step skip",
            Self::Step(_, StepIntent::Edit(_)) => "step edit",
            Self::Step(_, StepIntent::Replace(_)) => "step replace",
        }
    }

    fn step(&self) -> Option<&str> {
        match self {
            Self::Retry(step) => step.as_deref(),
            Self::Step(step, _) => Some(step),
            _ => None,
        }
    }
}

impl Plan {
    /// Makes a change, or says why it does not fit.
    pub(crate) fn change(
        &mut self,
        intent: &Intent,
        by: KeyId,
        now: Timestamp,
    ) -> Result<(), NotChanged> {
        if let Some(step) = intent.step()
            && self.document.step(step).is_none()
        {
            return Err(NotChanged::UnknownStep(step.chars().take(80).collect()));
        }
        match intent {
            Intent::Run => self.begin(now)?,
            Intent::Pause => {
                self.expect(&[PlanStatus::InProgress], "paused")?;
                self.pause(now, "paused by a person".to_owned());
            }
            Intent::Resume => self.resume(now)?,
            Intent::Cancel => self.cancel(now)?,
            Intent::Retry(step) => self.retry(step.as_deref(), now)?,
            Intent::SetIntervention(on) => self.state.intervention = *on,
            Intent::Step(step, change) => self.change_step(step, change, now)?,
        }
        self.note(now, by, intent.name(), intent.step());
        Ok(())
    }

    fn expect(&self, allowed: &[PlanStatus], what: &str) -> Result<(), NotChanged> {
        if allowed.contains(&self.status) {
            return Ok(());
        }
        let message = format!("a plan that is {} cannot be {what}", self.status.name());
        Err(NotChanged::Conflict(message))
    }

    fn begin(&mut self, now: Timestamp) -> Result<(), NotChanged> {
        self.expect(&[PlanStatus::Pending], "started")?;
        self.status = PlanStatus::InProgress;
        let payload = self.brief();
        self.event(now, "planning:plan:start", payload);
        Ok(())
    }

    fn resume(&mut self, now: Timestamp) -> Result<(), NotChanged> {
        self.expect(&[PlanStatus::Paused, PlanStatus::Failed], "resumed")?;
        let stuck = self
            .state
            .steps
            .iter()
            .find(|(_, step)| matches!(step.status, Status::Failed | Status::Unknown));
        if let Some((id, step)) = stuck {
            let message = format!(
                "step `{id}` is {}: retry, skip, edit or replace it first",
                step.status.name()
            );
            return Err(NotChanged::Conflict(message));
        }
        self.go_on(now);
        Ok(())
    }

    fn go_on(&mut self, now: Timestamp) {
        self.status = PlanStatus::InProgress;
        self.state.reason = None;
        self.event(now, "planning:resumed", json!({}));
    }

    fn cancel(&mut self, now: Timestamp) -> Result<(), NotChanged> {
        let open = [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Paused];
        self.expect(&open, "cancelled")?;
        self.status = PlanStatus::Cancelled;
        let ids: Vec<_> = self.document.steps.iter().map(|step| step.id.clone()).collect();
        for id in ids {
            let state = self.step_state(&id);
            if matches!(state.status, Status::Pending | Status::Awaiting | Status::Waiting) {
                state.status = Status::Cancelled;
                state.ended_at = Some(now);
            }
            for item in state.items.iter_mut().filter(|item| item.status == Status::Pending) {
                item.status = Status::Cancelled;
            }
        }
        let payload = self.brief();
        self.event(now, "planning:plan:cancelled", payload);
        Ok(())
    }

    fn retry(&mut self, step: Option<&str>, now: Timestamp) -> Result<(), NotChanged> {
        let allowed =
            [PlanStatus::Failed, PlanStatus::Paused, PlanStatus::Cancelled, PlanStatus::Completed];
        self.expect(&allowed, "retried")?;
        if self.in_flight().iter().any(|(_, status, _)| *status == Status::Running) {
            let message = "steps are still running; retry when they have ended".to_owned();
            return Err(NotChanged::Conflict(message));
        }
        let may_retry =
            |status| matches!(status, Status::Failed | Status::Unknown | Status::Cancelled);
        let all: Vec<_> = self.document.steps.iter().map(|step| step.id.clone()).collect();
        match step {
            Some(step) => {
                if may_retry(self.status_of(step)) {
                    self.retry_items(step);
                } else {
                    self.reset(step);
                }
                let after: Vec<_> =
                    self.document.after(step).into_iter().map(str::to_owned).collect();
                for id in after {
                    self.reset(&id);
                }
                // Steps beside it that were cancelled with the plan go on too.
                for id in all {
                    if self.status_of(&id) == Status::Cancelled {
                        self.retry_items(&id);
                    }
                }
            }
            None => {
                let failed: Vec<_> =
                    all.into_iter().filter(|id| may_retry(self.status_of(id))).collect();
                if failed.is_empty() {
                    let message = "no step failed; name the step to retry from".to_owned();
                    return Err(NotChanged::Conflict(message));
                }
                for id in failed {
                    self.retry_items(&id);
                }
            }
        }
        self.go_on(now);
        Ok(())
    }

    fn change_step(
        &mut self,
        id: &str,
        change: &StepIntent,
        now: Timestamp,
    ) -> Result<(), NotChanged> {
        let status = self.status_of(id);
        let conflict = |what: &str| {
            let message = format!("step `{id}` is {} and cannot be {what}", status.name());
            Err(NotChanged::Conflict(message))
        };
        let is_over = matches!(self.status, PlanStatus::Completed | PlanStatus::Cancelled);
        let is_open = !is_over
            && matches!(
                status,
                Status::Pending | Status::Awaiting | Status::Failed | Status::Unknown
            );
        match change {
            StepIntent::Resume if status == Status::Awaiting => {
                self.step_state(id).is_released = true;
            }
            StepIntent::Resume => return conflict("let begin"),
            StepIntent::Skip | StepIntent::Edit(_) | StepIntent::Replace(_) if !is_open => {
                return conflict("changed");
            }
            StepIntent::Skip => {
                self.reset(id);
                let state = self.step_state(id);
                (state.status, state.ended_at) = (Status::Skipped, Some(now));
                self.event(now, "planning:step:skipped", json!({"step": id}));
            }
            StepIntent::Replace(result) => {
                self.reset(id);
                let state = self.step_state(id);
                (state.status, state.ended_at) = (Status::Completed, Some(now));
                state.result = Some(result.clone());
                let payload = json!({"step": id, "result": {"ok": true, "replaced": true}});
                self.event(now, "planning:step:complete", payload);
            }
            StepIntent::Edit(payload) => {
                self.edit(id, payload)?;
                self.event(now, "planning:step:edited", json!({"step": id}));
            }
        }
        Ok(())
    }

    /// Puts another payload into the document.
    fn edit(&mut self, id: &str, payload: &Value) -> Result<(), NotChanged> {
        let mut tree = self.row.document.to_value();
        let place = self.document.steps.iter().position(|step| step.id == id);
        if let Some(step) = place.and_then(|place| tree["steps"].get_mut(place)) {
            step["payload"] = payload.clone();
        }
        self.put_document(&tree)?;
        // A step that has not failed keeps its state, and its attempt: it was never begun.
        if matches!(self.status_of(id), Status::Failed | Status::Unknown) {
            self.reset(id);
        }
        Ok(())
    }

    /// Replaces the document.
    pub(crate) fn put_document(&mut self, tree: &Value) -> Result<(), NotChanged> {
        self.document = document::parse(tree).map_err(NotChanged::Invalid)?;
        let json = Json::from_value(tree).ok_or_else(|| {
            let message = "the payload is nested too deeply".to_owned();
            NotChanged::Conflict(message)
        })?;
        self.row.document = json;
        self.state.revision += 1;
        Ok(())
    }
}
