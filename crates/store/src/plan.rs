//! Rows of plans. The store does not read documents and states: they are JSON of those who drive plans.

use ringfence_types::{Json, KeyId, PersonaId, PlanId, TenantId, Timestamp};

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// Id of the plan.
    pub id: PlanId,
    /// Tenant of the plan.
    pub tenant: TenantId,
    /// Key that it was made with, and that its steps are called with.
    pub key: KeyId,
    /// Persona that it was made for.
    pub persona: Option<PersonaId>,
    /// Name of its status.
    pub status: String,
    /// Whether a process has to drive it.
    pub is_open: bool,
    /// Goal, as people read it.
    pub goal: String,
    /// Document.
    pub document: Json,
    /// State of its steps.
    pub state: Json,
    /// Time when it was made.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// Version of the row, from 1; the store raises it.
    pub version: u64,
    /// Whether this process drives it; the store says so.
    pub is_own: bool,
}

/// A plan in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSummary {
    /// Id of the plan.
    pub id: PlanId,
    /// Name of its status.
    pub status: String,
    /// Goal, as people read it.
    pub goal: String,
    /// Time when it was made.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// Selection of plans.
#[derive(Debug, Clone)]
pub struct PlanQuery {
    /// Tenant of the plans.
    pub tenant: TenantId,
    /// Only plans with this status.
    pub status: Option<String>,
    /// Only plans that are older than this one.
    pub before: Option<PlanId>,
    /// Most plans of the answer.
    pub limit: usize,
}

/// An event of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEvent {
    /// Time of the event.
    pub at: Timestamp,
    /// Name, such as `planning:step:start`.
    pub kind: String,
    /// Content.
    pub payload: Json,
}
