//! Reflections: the meaning of a failure by rules, and a repair where a rule knows one.
//!
//! Only limits of the plan itself are raised, and only as often as its `repair` says: a rule never gives a step
//! another program, other arguments or more rights. Other findings are for the person who edits the step.

use ringfence_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    document::{Kind, Step},
    state::{Plan, PlanStatus, Status, StepError},
};

/// A reflection on a failed step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reflection {
    pub(crate) at: Timestamp,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    /// `RETRY` with a change, or `REPLAN` by a person.
    pub(crate) action: String,
    pub(crate) rule: String,
    /// Cause of the failure, for a person.
    pub(crate) critique: String,
    /// Fields of the step that change, with their new values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<Value>,
    /// Whether the change was made.
    pub(crate) applied: bool,
}

/// Finding of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    pub(crate) rule: &'static str,
    pub(crate) critique: String,
    pub(crate) change: Option<Value>,
}

/// Most reflections that a plan keeps.
const MAX_REFLECTIONS: usize = 100;
/// Wall time in seconds and bytes of memory up to which limits of programs are raised.
const MAX_PROGRAM_SECS: u64 = 60;
const MAX_PROGRAM_BYTES: u64 = 512 << 20;
const MAX_TOOL_SECS: u64 = 3_600;

/// Signs of a failure in the error and the end of standard error, with the rule and the advice.
const SIGNS: [(&str, &str, &str); 9] = [
    (
        "No module named",
        "missing_package",
        "a package is missing: add it to the tool, or do without",
    ),
    (
        "Cannot find module",
        "missing_package",
        "a package is missing: add it to the tool, or do without",
    ),
    ("command not found", "missing_program", "a program is missing in the sandbox"),
    (
        "No such file or directory",
        "wrong_path",
        "a file is missing: bind it in `files`, or name the step that writes it",
    ),
    (
        "ENOENT",
        "wrong_path",
        "a file is missing: bind it in `files`, or name the step that writes it",
    ),
    ("SyntaxError", "syntax_error", "the code has a syntax error"),
    ("syntax error", "syntax_error", "the code has a syntax error"),
    ("Connection refused", "network_refused", "the network was refused: name the host in `hosts`"),
    (
        "Name or service not known",
        "network_refused",
        "the network was refused: name the host in `hosts`",
    ),
];

/// Finding about a failure, if a rule knows it.
pub(crate) fn by_rules(step: &Step, error: &StepError) -> Option<Finding> {
    let is_program = matches!(step.kind, Kind::Command | Kind::Code | Kind::FileRead);
    if matches!(error.code.as_str(), "timeout" | "wall_limit") {
        let most = if is_program { MAX_PROGRAM_SECS } else { MAX_TOOL_SECS };
        let raised = step.timeout_secs.map(|secs| (secs, (secs * 2).min(most)));
        let change = raised.filter(|(before, after)| after > before);
        return Some(Finding {
            rule: "timeout",
            critique: "the step took longer than its timeout".to_owned(),
            change: change.map(|(_, after)| json!({"timeout": after})),
        });
    }
    if error.code == "memory_limit" {
        let before = step.limits.get("memory_bytes").and_then(Value::as_u64);
        let raised = before.map(|bytes| (bytes, bytes.saturating_mul(2).min(MAX_PROGRAM_BYTES)));
        let change = raised.filter(|(before, after)| is_program && after > before);
        return Some(Finding {
            rule: "limit",
            critique: "the step needs more memory than its limit".to_owned(),
            change: change.map(|(_, after)| {
                let mut limits = step.limits.clone();
                limits.insert("memory_bytes".to_owned(), after.into());
                json!({"limits": limits})
            }),
        });
    }
    let text = format!("{}\n{}", error.message, error.details.as_deref().unwrap_or_default());
    let (sign, rule, advice) = SIGNS.iter().find(|(sign, ..)| text.contains(sign))?;
    let line = text.lines().rev().find(|line| line.contains(sign)).unwrap_or_default();
    let line: String = line.trim().chars().take(300).collect();
    Some(Finding { rule, critique: format!("{advice} ({line})"), change: None })
}

impl Plan {
    /// Reflects on an item that failed for good, and has it tried again if a rule repairs it.
    pub(crate) fn reflect(&mut self, step: &Step, index: usize, error: &StepError, now: Timestamp) {
        let Some(finding) = by_rules(step, error) else { return };
        let all = &self.state.reflections;
        let used = all.iter().filter(|found| found.step == step.id && found.applied).count();
        let is_open = matches!(self.status, PlanStatus::InProgress | PlanStatus::Paused);
        let applied = match &finding.change {
            Some(change) if is_open && used < self.document.repair => self.apply(&step.id, change),
            _ => false,
        };
        let Some(item) = self.step_state(&step.id).items.get_mut(index) else { return };
        let attempt = item.attempt;
        if applied {
            item.status = Status::Pending;
            item.attempt += 1;
        }
        let action = if finding.change.is_some() { "RETRY" } else { "REPLAN" };
        let payload = json!({
            "step": step.id, "attempt": attempt, "critique": finding.critique,
            "rule": finding.rule,
            "result": {"action": action, "change": finding.change, "applied": applied},
        });
        self.state.reflections.push(Reflection {
            at: now,
            step: step.id.clone(),
            attempt,
            action: action.to_owned(),
            rule: finding.rule.to_owned(),
            critique: finding.critique,
            change: finding.change,
            applied,
        });
        let excess = self.state.reflections.len().saturating_sub(MAX_REFLECTIONS);
        self.state.reflections.drain(..excess);
        self.event(now, "planning:replan:request", payload);
    }

    /// Puts fields into a step of the document; whether that fits.
    fn apply(&mut self, id: &str, change: &Value) -> bool {
        let mut tree = self.row.document.to_value();
        let place = self.document.steps.iter().position(|step| step.id == id);
        let step = place.and_then(|place| tree["steps"].get_mut(place));
        if let (Some(step), Some(fields)) = (step, change.as_object()) {
            for (name, value) in fields {
                step[name] = value.clone();
            }
        }
        self.put_document(&tree).is_ok()
    }
}
