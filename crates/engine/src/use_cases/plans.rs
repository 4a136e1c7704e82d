//! Rows of plans, for those who drive them, and the answer of policy about a step that is not called yet.

use ringfence_policy::{Input, ToolFacts};
use ringfence_store::{Error, PlanEvent, PlanQuery, PlanRow, PlanSummary};
use ringfence_types::{Json, PlanId, Principal, Reason, TenantId, Verdict};

use crate::{Engine, data::ToolEntry, given, runners};

/// Probable answer of policy about a call. Nothing is recorded and nothing is permitted by it.
#[derive(Debug, Clone)]
pub struct ForeseenCall {
    /// The verdict, if policy answers.
    pub verdict: Option<Verdict>,
    /// Its reasons.
    pub reasons: Vec<Reason>,
}

impl Engine {
    /// Adds a plan, if the tenant has room for it.
    pub async fn add_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error> {
        let store = &self.inner.parts.store;
        store.room().admit(&plan.tenant)?;
        store.add_plan(plan, events).await
    }

    /// One plan of a tenant.
    pub async fn plan(&self, tenant: &TenantId, id: PlanId) -> Result<Option<PlanRow>, Error> {
        self.inner.parts.store.plan(tenant, id).await
    }

    /// Plans of a tenant, newest first.
    pub async fn plans(&self, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
        self.inner.parts.store.plans(query).await
    }

    /// Writes a plan over the version that was read; `false` if it changed meanwhile.
    pub async fn update_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error> {
        self.inner.parts.store.update_plan(plan, events).await
    }

    /// Events of a plan after a number.
    pub async fn plan_events(
        &self,
        tenant: &TenantId,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, Error> {
        self.inner.parts.store.plan_events(tenant, id, after, limit).await
    }

    /// Makes this process the driver of open plans that no living process drives.
    pub async fn claim_plans(&self, limit: usize) -> Result<Vec<PlanRow>, Error> {
        self.inner.parts.store.claim_plans(limit).await
    }

    /// Removes a plan that is not open, with its events.
    pub async fn remove_plan(&self, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
        self.inner.parts.store.remove_plan(tenant, id).await
    }

    /// Probable answer of policy about a call with these arguments.
    pub async fn foresee_call(
        &self,
        who: &Principal,
        entry: &ToolEntry,
        args: &Json,
    ) -> ForeseenCall {
        let inner = &self.inner;
        let (about, now) = (ToolFacts::from(&entry.tool), inner.parts.clock.now());
        let action = runners::of(entry).action(entry);
        let input = Input::about(action, who, about, now, inner.ids.call(now));
        let input = Input { args: args.clone(), ..input };
        match inner.parts.policy.evaluate(&input).await {
            Ok(answer) => ForeseenCall { verdict: Some(answer.verdict), reasons: answer.reasons },
            Err(_) => ForeseenCall { verdict: None, reasons: Vec::new() },
        }
    }

    /// Checks the arguments of a call, those of the tool and what is given, as at acceptance.
    pub fn check_args(
        &self,
        entry: &ToolEntry,
        args: &Json,
    ) -> Result<(), Vec<crate::data::Violation>> {
        given::check(entry, args).map(drop)
    }

    /// Whether calls of a tool may be given files, and an environment as well.
    pub fn takes(&self, entry: &ToolEntry) -> (bool, bool) {
        let takes = runners::of(entry).takes(entry);
        (takes != given::Takes::Nothing, takes == given::Takes::All)
    }
}
