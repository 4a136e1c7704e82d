//! State of a plan: a pure function of its document, of how its calls ended and of what people asked for.
//!
//! A running item is on record before its call is made, so a driver that takes a plan over asks for the
//! same call again and finds it; see `docs/decisions/0032-plans-are-folds-over-calls.md`.

use std::collections::BTreeMap;

use ringfence_engine::data::{PlanEvent, PlanRow};
use ringfence_types::{CallId, Json, KeyId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    document::{self, Document, Kind, Step},
    outputs::Outputs,
    reflect::Reflection,
};

/// Status of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanStatus {
    /// Made, and not started.
    Pending,
    /// Under way, or waiting for people.
    InProgress,
    /// Begins no further step until it is resumed.
    Paused,
    /// All steps ended well or were skipped.
    Completed,
    /// A step failed.
    Failed,
    /// Cancelled by a person.
    Cancelled,
}

impl PlanStatus {
    /// All statuses with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("pending", Self::Pending),
        ("in-progress", Self::InProgress),
        ("paused", Self::Paused),
        ("completed", Self::Completed),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
    ];

    /// Name on every wire.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, status)| *status == self).map_or("", |(name, _)| name)
    }

    /// The status with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, status)| *status)
    }
}

/// Status of a step, and of an item of a fan-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    #[default]
    Pending,
    /// A person must let it begin.
    Awaiting,
    /// A wait that is not over.
    Waiting,
    Running,
    /// Its call is held.
    Held,
    Completed,
    Skipped,
    Failed,
    /// Its call may have had its effect, or not.
    Unknown,
    Cancelled,
}

impl Status {
    /// Whether later steps may begin.
    pub(crate) const fn is_passed(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }

    /// Whether its call is under way.
    pub(crate) const fn is_in_flight(self) -> bool {
        matches!(self, Self::Running | Self::Held)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Awaiting => "awaiting",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Held => "held",
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Error of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepError {
    pub(crate) code: String,
    pub(crate) message: String,
    /// Details, such as the end of standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<String>,
}

/// One call of a step: the only one, or that of an item of a fan-out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ItemState {
    pub(crate) status: Status,
    /// Number of the attempt, from 1: part of the derived key.
    pub(crate) attempt: u32,
    /// First attempt since a person had it tried again.
    pub(crate) first: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<StepError>,
}

/// State of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepState {
    pub(crate) status: Status,
    /// One item, or those of a fan-out; none before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<ItemState>,
    /// Attempts of all items before it was reset.
    #[serde(default)]
    pub(crate) used_attempts: u32,
    /// Whether a person let it begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_released: bool,
    /// Result that a person put in the place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<StepError>,
    /// End of a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
}

/// Something that a person asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) at: Timestamp,
    pub(crate) by: KeyId,
    pub(crate) action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
}

/// Everything about a plan that changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanState {
    /// Changes of the document.
    #[serde(default)]
    pub(crate) revision: u32,
    /// Whether each step waits for a person.
    #[serde(default)]
    pub(crate) intervention: bool,
    /// Why it is paused, or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) steps: BTreeMap<String, StepState>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reflections: Vec<Reflection>,
}

/// A plan with the events of a change that is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) row: PlanRow,
    pub(crate) document: Document,
    pub(crate) state: PlanState,
    pub(crate) status: PlanStatus,
    pub(crate) events: Vec<PlanEvent>,
}

/// End of the call of an item, or a stop on the way to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Held(CallId),
    Done(CallId),
    Failed(Option<CallId>, StepError),
    Unknown(CallId),
    /// The server ended it while it stopped, and it had no effect.
    Interrupted,
    Cancelled(Option<CallId>),
}

/// Place of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) step: String,
    pub(crate) index: usize,
    pub(crate) attempt: u32,
}

/// Outputs of steps, or why they cannot be read.
pub(crate) type AllOutputs = BTreeMap<String, Result<Outputs, String>>;

/// Why a row cannot be read as a plan.
#[derive(Debug, thiserror::Error)]
#[error("plan {id} cannot be read: {why}")]
pub struct UnreadablePlan {
    id: ringfence_types::PlanId,
    why: String,
}

const MAX_CHANGES: usize = 200;

impl Plan {
    /// Reads a row.
    pub(crate) fn read(row: PlanRow) -> Result<Self, UnreadablePlan> {
        let failed = |why: String| UnreadablePlan { id: row.id, why };
        let document = document::parse(&row.document.to_value()).map_err(|problems| {
            failed(problems.first().map(ToString::to_string).unwrap_or_default())
        })?;
        let state: PlanState = row.state.read().map_err(|error| failed(error.to_string()))?;
        let status = PlanStatus::named(&row.status);
        let status = status.ok_or_else(|| failed(format!("unknown status `{}`", row.status)))?;
        Ok(Self { row, document, state, status, events: Vec::new() })
    }

    /// The row of the plan as it is now.
    pub(crate) fn to_row(&self, now: Timestamp) -> PlanRow {
        PlanRow {
            status: self.status.name().to_owned(),
            is_open: self.needs_driver(),
            goal: self.document.goal.clone(),
            state: Json::of(&self.state).unwrap_or_else(|_| Json::empty_object()),
            changed_at: now,
            ..self.row.clone()
        }
    }

    fn needs_driver(&self) -> bool {
        let mut items = self.state.steps.values().flat_map(|step| &step.items);
        match self.status {
            PlanStatus::InProgress => true,
            PlanStatus::Pending | PlanStatus::Completed => false,
            PlanStatus::Paused => items.any(|item| item.status == Status::Running),
            PlanStatus::Failed | PlanStatus::Cancelled => {
                items.any(|item| item.status.is_in_flight())
            }
        }
    }

    pub(crate) fn event(&mut self, now: Timestamp, kind: &str, payload: Value) {
        let mut payload = payload;
        payload["planId"] = json!(self.row.id);
        let payload = Json::from_value(&payload).unwrap_or_else(Json::empty_object);
        self.events.push(PlanEvent { at: now, kind: kind.to_owned(), payload });
    }

    /// Summary of the plan in its own events.
    pub(crate) fn brief(&self) -> Value {
        json!({"plan": {
            "id": self.row.id, "goal": self.document.goal, "status": self.status.name(),
            "steps": self.document.steps.len(),
        }})
    }

    pub(crate) fn note(&mut self, now: Timestamp, by: KeyId, action: &str, step: Option<&str>) {
        let (action, step) = (action.to_owned(), step.map(str::to_owned));
        self.state.changes.push(Change { at: now, by, action, step });
        let excess = self.state.changes.len().saturating_sub(MAX_CHANGES);
        self.state.changes.drain(..excess);
    }

    pub(crate) fn step_state(&mut self, id: &str) -> &mut StepState {
        self.state.steps.entry(id.to_owned()).or_default()
    }

    pub(crate) fn status_of(&self, id: &str) -> Status {
        self.state.steps.get(id).map_or(Status::Pending, |step| step.status)
    }

    /// Calls under way, or about to be made.
    pub(crate) fn in_flight(&self) -> Vec<(Place, Status, Option<CallId>)> {
        let mut found = Vec::new();
        for (id, step) in &self.state.steps {
            for (index, item) in step.items.iter().enumerate() {
                if item.status.is_in_flight() {
                    let place = Place { step: id.clone(), index, attempt: item.attempt };
                    found.push((place, item.status, item.call));
                }
            }
        }
        found
    }

    /// The end of the next wait.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let waiting = self.state.steps.values().filter(|step| step.status == Status::Waiting);
        waiting.filter_map(|step| step.due_at).min()
    }

    /// Steps whose outputs are needed by steps that have not begun or are under way.
    pub(crate) fn needed_outputs(&self) -> Vec<String> {
        let mut needed: Vec<String> = Vec::new();
        for step in &self.document.steps {
            if !matches!(
                self.status_of(&step.id),
                Status::Pending | Status::Running | Status::Awaiting
            ) {
                continue;
            }
            needed.extend(step.bound.iter().cloned());
            if step.kind.sees_written() {
                let written = self.document.before(&step.id).into_iter();
                let written = written.filter(|step| step.kind == Kind::FileWrite);
                needed.extend(written.map(|step| step.id.clone()));
            }
        }
        needed.sort_unstable();
        needed.dedup();
        needed.retain(|id| self.status_of(id) == Status::Completed);
        needed
    }

    /// Takes the end of a call in. An end of another attempt is of the past.
    pub(crate) fn end(&mut self, place: &Place, end: &End, now: Timestamp) {
        let Some(step) = self.document.step(&place.step).cloned() else { return };
        let status = self.status;
        let Some(item) = self.step_state(&step.id).items.get_mut(place.index) else { return };
        if item.attempt != place.attempt || !item.status.is_in_flight() {
            return;
        }
        let is_held = item.status == Status::Held;
        match end {
            End::Held(call) => {
                item.status = Status::Held;
                item.call = Some(*call);
                if !is_held {
                    let payload = json!({"step": step.id, "call": call, "index": place.index});
                    self.event(now, "planning:awaiting_approval", payload);
                }
            }
            End::Done(call) => {
                item.status = Status::Completed;
                item.call = Some(*call);
                item.error = None;
            }
            End::Failed(call, error) => {
                item.call = *call;
                item.error = Some(error.clone());
                let tried = item.attempt - item.first;
                let may_retry = tried < step.retries && is_repeatable(&error.code);
                if may_retry && matches!(status, PlanStatus::InProgress | PlanStatus::Paused) {
                    item.status = Status::Pending;
                    item.attempt += 1;
                    let attempt = item.attempt;
                    let payload = json!({
                        "step": step.id, "error": error, "attempt": attempt, "index": place.index,
                    });
                    self.event(now, "planning:step:retry", payload);
                } else {
                    item.status = Status::Failed;
                }
            }
            End::Unknown(call) => {
                item.status = Status::Unknown;
                item.call = Some(*call);
            }
            End::Interrupted => {
                item.status = Status::Pending;
                item.attempt += 1;
                item.first += 1;
            }
            End::Cancelled(call) => {
                item.status = Status::Cancelled;
                item.call = *call;
            }
        }
        if let End::Failed(_, error) = end
            && self.step_state(&step.id).items[place.index].status == Status::Failed
        {
            self.reflect(&step, place.index, error, now);
        }
        self.summarise(&step, now);
    }

    /// The status of a step from those of its items.
    fn summarise(&mut self, step: &Step, now: Timestamp) {
        let plan_status = self.status;
        let state = self.step_state(&step.id);
        let all = |status: Status| state.items.iter().filter(move |item| item.status == status);
        let failed = all(Status::Failed).next().and_then(|item| item.error.clone());
        let is_busy = state.items.iter().any(|item| item.status == Status::Running);
        let is_over = |has: Status| all(has).next().is_some();
        let before = state.status;
        let after = if is_busy {
            Status::Running
        } else if is_over(Status::Unknown) {
            Status::Unknown
        } else if failed.is_some() {
            Status::Failed
        } else if is_over(Status::Held) {
            Status::Held
        } else if is_over(Status::Cancelled)
            || plan_status == PlanStatus::Cancelled && is_over(Status::Pending)
        {
            Status::Cancelled
        } else if is_over(Status::Pending) {
            Status::Running
        } else {
            Status::Completed
        };
        state.status = after;
        state.error = if after == Status::Failed { failed } else { None };
        if matches!(after, Status::Running | Status::Held) || before == after {
            return;
        }
        state.ended_at = Some(now);
        let calls: Vec<_> = state.items.iter().filter_map(|item| item.call).collect();
        let error = state.error.clone();
        match after {
            Status::Completed => {
                let payload = json!({"step": step.id, "result": {"ok": true, "calls": calls}});
                self.event(now, "planning:step:complete", payload);
            }
            Status::Failed => {
                let payload = json!({"step": step.id, "error": error, "calls": calls});
                self.event(now, "planning:step:failed", payload);
            }
            Status::Cancelled => {
                let payload = json!({"step": step.id, "calls": calls});
                self.event(now, "planning:step:cancelled", payload);
            }
            _ => {}
        }
    }

    /// Pauses the plan.
    pub(crate) fn pause(&mut self, now: Timestamp, reason: String) {
        self.status = PlanStatus::Paused;
        self.state.reason = Some(reason.clone());
        self.event(now, "planning:paused", json!({"reason": reason}));
    }

    /// Forgets what became of a step, so that it begins anew with new attempts.
    pub(crate) fn reset(&mut self, id: &str) {
        let state = self.step_state(id);
        let most = state.items.iter().map(|item| item.attempt).max().unwrap_or(0);
        *state = StepState {
            used_attempts: most.max(state.used_attempts),
            is_released: state.is_released,
            ..StepState::default()
        };
    }

    /// Has the items of a step tried again that did not end well.
    pub(crate) fn retry_items(&mut self, id: &str) {
        let state = self.step_state(id);
        if state.items.is_empty() {
            return self.reset(id);
        }
        for item in &mut state.items {
            if matches!(item.status, Status::Failed | Status::Unknown | Status::Cancelled) {
                item.status = Status::Pending;
                item.attempt += 1;
                item.first = item.attempt;
            }
        }
        (state.status, state.error, state.ended_at) = (Status::Running, None, None);
    }
}

/// Whether a failure may be another one the next time. A denial is final, and so is a request that is invalid.
fn is_repeatable(code: &str) -> bool {
    !matches!(code, "denied" | "expired" | "refused" | "binding_failed" | "cancelled")
}

#[cfg(test)]
mod tests;
