//! Plans as doors show them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::state::{Plan, PlanStatus, Status, UnreadablePlan};

/// A plan with its steps.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// Id of the plan.
    pub id: String,
    /// Goal of the plan.
    pub goal: String,
    /// Status of the plan.
    pub status: PlanStatus,
    /// Why it is paused, or has failed.
    pub reason: Option<String>,
    /// Changes of the document so far.
    pub revision: u32,
    /// Whether each step waits for a person.
    pub intervention: bool,
    /// Steps in the order of the document.
    pub steps: Vec<StepView>,
    /// Changes that people asked for.
    pub changes: Value,
    /// Reflections on failures.
    pub reflections: Value,
    /// Time when it was made.
    pub created_at: String,
    /// Time of the last change.
    pub changed_at: String,
}

/// A step with its state.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// Id of the step.
    pub id: String,
    /// Type of the step.
    #[serde(rename = "type")]
    pub kind: String,
    /// Description of the step.
    pub description: String,
    /// Payload of the step, with its bindings.
    pub payload: Value,
    /// Steps that it comes after.
    pub depends_on: Vec<String>,
    /// Status of the step.
    pub status: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Its call, or those of its items.
    pub calls: Vec<Value>,
    /// Error of the step.
    pub error: Option<Value>,
    /// Result that a person gave it.
    pub result: Option<Value>,
    /// Time when it began.
    pub started_at: Option<String>,
    /// Time when it ended.
    pub ended_at: Option<String>,
    /// End of a wait.
    pub due_at: Option<String>,
}

impl Plan {
    /// The plan for doors.
    pub(crate) fn view(&self) -> PlanView {
        let steps = self.document.steps.iter().map(|step| {
            let state = self.state.steps.get(&step.id).cloned().unwrap_or_default();
            let time = |at: Option<ringfence_types::Timestamp>| at.map(|at| at.to_string());
            let calls = state.items.iter().enumerate().map(|(index, item)| {
                json!({
                    "index": index, "call": item.call, "status": item.status,
                    "attempt": item.attempt, "error": item.error,
                })
            });
            StepView {
                id: step.id.clone(),
                kind: step.kind.name().to_owned(),
                description: step.description.clone(),
                payload: step.payload.clone(),
                depends_on: step.needs.iter().cloned().collect(),
                status: state.status.name().to_owned(),
                attempt: state.items.iter().map(|item| item.attempt).max().unwrap_or(0),
                calls: calls.collect(),
                error: state.error.as_ref().map(|error| json!(error)),
                result: state.result.clone(),
                started_at: time(state.started_at),
                ended_at: time(state.ended_at),
                due_at: time(state.due_at.filter(|_| state.status == Status::Waiting)),
            }
        });
        PlanView {
            id: self.row.id.to_string(),
            goal: self.document.goal.clone(),
            status: self.status,
            reason: self.state.reason.clone(),
            revision: self.state.revision,
            intervention: self.state.intervention,
            steps: steps.collect(),
            changes: json!(self.state.changes),
            reflections: json!(self.state.reflections),
            created_at: self.row.created_at.to_string(),
            changed_at: self.row.changed_at.to_string(),
        }
    }
}

/// Reads a row for doors.
pub(crate) fn of_row(row: ringfence_engine::data::PlanRow) -> Result<PlanView, UnreadablePlan> {
    Ok(Plan::read(row)?.view())
}
