//! Progress of a plan: steps begin as the graph allows, and the plan ends or pauses where nothing is left to do.

use ringfence_types::Timestamp;
use serde_json::json;

use crate::{
    document::{Kind, Step},
    outputs::Values,
    state::{AllOutputs, ItemState, Plan, PlanStatus, Status, StepError, StepState},
};

impl Plan {
    /// Goes on as far as it can without waiting: begins steps, and ends the plan.
    pub(crate) fn advance(&mut self, outputs: &AllOutputs, now: Timestamp) {
        if self.status != PlanStatus::InProgress {
            return;
        }
        while self.begin_steps(outputs, now) {}
        self.begin_items(now);
        self.conclude(now);
    }

    /// Begins steps whose time has come; whether there may be more because of that.
    fn begin_steps(&mut self, outputs: &AllOutputs, now: Timestamp) -> bool {
        let mut is_changed = false;
        if self.state.steps.values().any(|step| step.status == Status::Failed) {
            return false;
        }
        for step in self.document.steps.clone() {
            let status = self.status_of(&step.id);
            if status == Status::Waiting {
                let state = self.step_state(&step.id);
                if state.due_at.is_none_or(|due| due <= now) {
                    state.status = Status::Completed;
                    state.ended_at = Some(now);
                    let payload = json!({"step": step.id, "result": {"ok": true}});
                    self.event(now, "planning:step:complete", payload);
                    is_changed = true;
                }
                continue;
            }
            let is_ready = matches!(status, Status::Pending | Status::Awaiting)
                && step.needs.iter().all(|need| self.status_of(need).is_passed());
            if is_ready {
                self.begin_step(&step, outputs, now);
                is_changed |= self.status_of(&step.id).is_passed();
            }
        }
        is_changed
    }

    fn begin_step(&mut self, step: &Step, outputs: &AllOutputs, now: Timestamp) {
        let lacks = |need: &String| self.status_of(need) == Status::Skipped;
        if step.bound.iter().any(lacks) {
            return self.skip(step, now);
        }
        let values = Values { document: &self.document, outputs, item: None };
        let found = values.holds(step).and_then(|holds| Ok((holds, values.items(step)?)));
        let (holds, items) = match found {
            Ok(found) => found,
            Err(message) => return self.fail_early(step, message, now),
        };
        if !holds {
            return self.skip(step, now);
        }
        let total = self.document.steps.len();
        let index = self.document.steps.iter().position(|other| other.id == step.id);
        let is_stopped = self.state.intervention;
        let state = self.step_state(&step.id);
        if is_stopped && !state.is_released {
            if state.status != Status::Awaiting {
                state.status = Status::Awaiting;
                self.event(now, "planning:awaiting_approval", json!({"step": step.id}));
            }
            return;
        }
        let count = items.map_or(1, |items| items.len());
        let attempt = state.used_attempts + 1;
        let new =
            ItemState { status: Status::Pending, attempt, first: attempt, call: None, error: None };
        state.items.resize(count, new);
        state.status = Status::Running;
        state.started_at.get_or_insert(now);
        if step.kind == Kind::Wait {
            let secs = step.payload["seconds"].as_u64().unwrap_or(0);
            state.items.clear();
            state.status = Status::Waiting;
            state.due_at = Some(now.after(std::time::Duration::from_secs(secs)));
        } else if count == 0 {
            state.status = Status::Completed;
            state.ended_at = Some(now);
        }
        let payload = json!({"step": step.id, "index": index, "total": total});
        self.event(now, "planning:step:start", payload);
        if count == 0 {
            let payload = json!({"step": step.id, "result": {"ok": true, "calls": []}});
            self.event(now, "planning:step:complete", payload);
        }
    }

    fn skip(&mut self, step: &Step, now: Timestamp) {
        let state = self.step_state(&step.id);
        state.status = Status::Skipped;
        state.ended_at = Some(now);
        self.event(now, "planning:step:skipped", json!({"step": step.id}));
    }

    fn fail_early(&mut self, step: &Step, message: String, now: Timestamp) {
        let error = StepError { code: "binding_failed".to_owned(), message, details: None };
        let state = self.step_state(&step.id);
        state.status = Status::Failed;
        state.ended_at = Some(now);
        state.error = Some(error.clone());
        self.event(now, "planning:step:failed", json!({"step": step.id, "error": error}));
    }

    /// Begins as many items as may run at the same time.
    fn begin_items(&mut self, now: Timestamp) {
        let running = |step: &StepState| {
            step.items.iter().filter(|item| item.status == Status::Running).count()
        };
        let mut free =
            self.document.max_parallel.saturating_sub(self.state.steps.values().map(running).sum());
        let has_failed = self.state.steps.values().any(|step| step.status == Status::Failed);
        let order: Vec<_> = self.document.steps.iter().map(|step| step.id.clone()).collect();
        for id in order {
            let state = self.step_state(&id);
            let has_bad_item = state
                .items
                .iter()
                .any(|item| matches!(item.status, Status::Failed | Status::Unknown));
            if !state.status.is_in_flight() || has_failed || has_bad_item {
                continue;
            }
            for item in state.items.iter_mut().filter(|item| item.status == Status::Pending) {
                if free == 0 {
                    return;
                }
                item.status = Status::Running;
                item.call = None;
                state.started_at.get_or_insert(now);
                free -= 1;
            }
            if state.items.iter().any(|item| item.status == Status::Running) {
                state.status = Status::Running;
            }
        }
    }

    /// Ends or pauses the plan where nothing else can be done.
    fn conclude(&mut self, now: Timestamp) {
        let has = |status: Status| {
            self.document.steps.iter().find(|step| self.status_of(&step.id) == status)
        };
        let is_running = self.in_flight().iter().any(|(_, status, _)| *status == Status::Running);
        if is_running {
            return;
        }
        if let Some(step) = has(Status::Unknown) {
            let reason = format!(
                "the outcome of step `{}` is unknown: it may have had its effect; retry, skip or replace it",
                step.id
            );
            self.pause(now, reason);
        } else if let Some(step) = has(Status::Failed) {
            let error = self.state.steps.get(&step.id).and_then(|state| state.error.clone());
            let message = error.as_ref().map_or("", |error| error.message.as_str());
            self.state.reason = Some(format!("step `{}` failed: {message}", step.id));
            self.status = PlanStatus::Failed;
            let mut payload = self.brief();
            payload["error"] = json!(error);
            self.event(now, "planning:plan:failed", payload);
        } else if self.document.steps.iter().all(|step| self.status_of(&step.id).is_passed()) {
            self.status = PlanStatus::Completed;
            self.state.reason = None;
            let payload = self.brief();
            self.event(now, "planning:plan:complete", payload);
        }
    }
}
