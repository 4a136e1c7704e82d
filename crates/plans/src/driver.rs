//! The driver of one plan: calls of its steps side by side, and its row after each change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use ringfence_access::Key;
use ringfence_engine::data::{PlanRow, StoreError};
use ringfence_types::{PlanId, Principal, Scope, TenantId, error_chain};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    Inner,
    document::Kind,
    item::Item,
    outputs::{Outputs, Values},
    state::{AllOutputs, End, Place, Plan, PlanStatus, Status, StepError},
    step_call,
};

/// Time after which a plan is read again for changes by other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after the store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Drives a plan until it needs no driver, another process drives it, or the server stops.
pub(crate) async fn drive(inner: Arc<Inner>, tenant: TenantId, id: PlanId) {
    let mut driver = Driver {
        changed: inner.changed.subscribe(),
        inner,
        tenant,
        id,
        flights: BTreeMap::new(),
        outputs: AllOutputs::new(),
    };
    loop {
        match driver.run().await {
            Ok(()) => return,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, plan = %driver.id, "a plan waits for the store");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                    () = driver.inner.stopping.cancelled() => return,
                }
            }
        }
    }
}

struct Driver {
    inner: Arc<Inner>,
    tenant: TenantId,
    id: PlanId,
    changed: broadcast::Receiver<(TenantId, PlanId)>,
    /// Calls that are waited for.
    flights: BTreeMap<Place, CancellationToken>,
    outputs: AllOutputs,
}

type Ended = (Place, End);

impl Driver {
    async fn run(&mut self) -> Result<(), StoreError> {
        let mut waiting = FuturesUnordered::new();
        self.flights.clear();
        let mut ends: Vec<Ended> = Vec::new();
        let mut read: Option<PlanRow> = None;
        loop {
            let row = match read.take() {
                Some(row) => row,
                None => match self.inner.engine().plan(&self.tenant, self.id).await? {
                    Some(row) if row.is_own => row,
                    _ => return Ok(()),
                },
            };
            let mut plan = match Plan::read(row) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::error!(error = error_chain(&error), "a plan is left alone");
                    self.inner.stopping.cancelled().await;
                    return Ok(());
                }
            };
            let Some(who) = self.principal(&plan).await? else {
                if !self.stop_without_key(plan).await? {
                    continue;
                }
                return Ok(());
            };
            let now = self.inner.engine().clock().now();
            for (place, end) in &ends {
                plan.end(place, end, now);
            }
            self.load_outputs(&who, &plan).await?;
            plan.advance(&self.outputs, now);
            let Some(plan) = self.write(plan).await? else {
                // It changed meanwhile: the same ends are taken in once more.
                continue;
            };
            for (place, _) in ends.drain(..) {
                self.flights.remove(&place);
            }
            if !plan.row.is_open {
                return Ok(());
            }
            self.cancel_what_must_end(&plan);
            for item in self.new_items(&who, &plan) {
                waiting.push(async move {
                    let end = match item {
                        Ok(item) => (item.place.clone(), item.run().await),
                        Err((place, error)) => (place, End::Failed(None, error)),
                    };
                    Box::new(end)
                });
            }
            let due = plan.next_due().map(|due| due.since(now));
            tokio::select! {
                Some(end) = waiting.next() => {
                    ends.push(*end);
                    // Those that ended at the same time share the commit.
                    while let Some(Some(end)) = waiting.next().now_or_never() {
                        ends.push(*end);
                    }
                    read = Some(plan.row);
                }
                () = changed(&mut self.changed, &self.tenant, self.id) => {}
                () = tokio::time::sleep(due.unwrap_or(POLL_INTERVAL)), if due.is_some() => {
                    read = Some(plan.row);
                }
                () = tokio::time::sleep(POLL_INTERVAL), if self.inner.engine().is_shared() => {}
                () = self.inner.stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// Pauses a plan whose key has ended; whether that is written.
    async fn stop_without_key(&mut self, mut plan: Plan) -> Result<bool, StoreError> {
        let now = self.inner.engine().clock().now();
        for (place, _, call) in plan.in_flight() {
            if let Some(call) = call {
                plan.end(&place, &End::Cancelled(Some(call)), now);
            } else {
                plan.end(&place, &End::Cancelled(None), now);
            }
        }
        if plan.status == PlanStatus::InProgress {
            plan.pause(now, "the key that the plan was made with has ended".to_owned());
        }
        Ok(self.write(plan).await?.is_some())
    }

    /// Writes the plan if it changed; none if another change came first.
    async fn write(&self, mut plan: Plan) -> Result<Option<Plan>, StoreError> {
        let now = self.inner.engine().clock().now();
        let events = std::mem::take(&mut plan.events);
        let row = plan.to_row(now);
        let is_same = row.state == plan.row.state
            && row.status == plan.row.status
            && row.is_open == plan.row.is_open;
        if is_same && events.is_empty() {
            return Ok(Some(plan));
        }
        let kinds: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
        if !self.inner.engine().update_plan(row.clone(), events).await? {
            return Ok(None);
        }
        self.inner.parts.metrics.events(&kinds);
        plan.row = PlanRow { version: row.version + 1, ..row };
        self.inner.announce(&self.tenant, self.id);
        Ok(Some(plan))
    }

    /// The rights of the key of the plan, if it stands and may make calls.
    async fn principal(&self, plan: &Plan) -> Result<Option<Principal>, StoreError> {
        let engine = self.inner.engine();
        let key = engine.access().key(plan.row.key).await?;
        let now = engine.clock().now();
        let stands = |key: &Key| {
            let is_over = key.revoked_at.is_some() || key.expires_at.is_some_and(|end| end <= now);
            !is_over && key.tenant == self.tenant && key.scopes.allow(Scope::Call)
        };
        Ok(key.filter(stands).map(|key| Principal {
            key: key.id,
            tenant: key.tenant,
            persona: plan.row.persona.clone().or(key.persona),
            scopes: key.scopes,
            label: key.label,
            person: key.person,
        }))
    }

    /// Reads the outputs that steps are bound to and that are not known yet.
    async fn load_outputs(&mut self, who: &Principal, plan: &Plan) -> Result<(), StoreError> {
        let needed = plan.needed_outputs();
        let kept: BTreeSet<_> = needed.iter().cloned().collect();
        self.outputs.retain(|id, _| kept.contains(id));
        for id in needed {
            if !self.outputs.contains_key(&id) {
                let outputs = self.outputs_of(who, plan, &id).await?;
                self.outputs.insert(id, outputs);
            }
        }
        Ok(())
    }

    async fn outputs_of(
        &self,
        who: &Principal,
        plan: &Plan,
        id: &str,
    ) -> Result<Result<Outputs, String>, StoreError> {
        let (Some(step), Some(state)) = (plan.document.step(id), plan.state.steps.get(id)) else {
            return Ok(Err("it does not exist".to_owned()));
        };
        if let Some(result) = &state.result {
            let values = result.clone();
            return Ok(Ok(Outputs { values, files: BTreeMap::new() }));
        }
        if step.kind == Kind::Wait {
            return Ok(Ok(Outputs {
                values: serde_json::json!({"ok": true}),
                ..Outputs::default()
            }));
        }
        let mut all = Vec::new();
        for item in &state.items {
            let call = match item.call {
                Some(call) => self.inner.engine().get(who, call).await?,
                None => None,
            };
            let Some(call) = call else {
                return Ok(Err("the records of its call were erased".to_owned()));
            };
            match Outputs::of_call(step, &step.payload, &call) {
                Ok(outputs) => all.push(outputs),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(match (step.for_each.is_some(), all.pop()) {
            (false, Some(outputs)) => outputs,
            (false, None) => Outputs::default(),
            (true, last) => {
                all.extend(last);
                let items: Vec<_> = all.into_iter().map(|outputs| outputs.values).collect();
                Outputs {
                    values: serde_json::json!({"ok": true, "items": items}),
                    files: BTreeMap::new(),
                }
            }
        }))
    }

    /// Calls of a cancelled plan end, and held ones of a failed plan.
    fn cancel_what_must_end(&self, plan: &Plan) {
        for (place, status, _) in plan.in_flight() {
            let must_end = match plan.status {
                PlanStatus::Cancelled => true,
                PlanStatus::Failed => status == Status::Held,
                _ => false,
            };
            if must_end && let Some(token) = self.flights.get(&place) {
                token.cancel();
            }
        }
    }

    /// Items of the plan that are under way and not waited for yet.
    fn new_items(&mut self, who: &Principal, plan: &Plan) -> Vec<Result<Item, (Place, StepError)>> {
        let mut new = Vec::new();
        for (place, status, call) in plan.in_flight() {
            if self.flights.contains_key(&place) {
                continue;
            }
            let token = CancellationToken::new();
            let must_end = plan.status == PlanStatus::Cancelled
                || plan.status == PlanStatus::Failed && status == Status::Held;
            if must_end {
                token.cancel();
            }
            self.flights.insert(place.clone(), token.clone());
            let held = call.filter(|_| status == Status::Held);
            new.push(self.item(who, plan, place, held, token));
        }
        new
    }

    fn item(
        &self,
        who: &Principal,
        plan: &Plan,
        place: Place,
        held: Option<ringfence_types::CallId>,
        cancelled: CancellationToken,
    ) -> Result<Item, (Place, StepError)> {
        let failed = |place: Place, message: String| {
            let code = "binding_failed".to_owned();
            (place, StepError { code, message, details: None })
        };
        let Some(step) = plan.document.step(&place.step) else {
            return Err(failed(place, "the step does not exist any more".to_owned()));
        };
        let mut values = Values { document: &plan.document, outputs: &self.outputs, item: None };
        let resolved = values.items(step).and_then(|items| {
            if let Some(items) = items {
                let item = items.get(place.index).cloned().ok_or("the item does not exist")?;
                values.item = Some((place.index, item));
            }
            values.step(step)
        });
        let call = match resolved {
            Ok(resolved) => step_call::of(step, &resolved),
            // What it waits for is decided elsewhere; its arguments are on record.
            Err(_) if held.is_some() => None,
            Err(message) => return Err(failed(place, message)),
        };
        let nothing = || step_call::StepCall {
            tool: String::new(),
            version: None,
            args: serde_json::Value::Null,
        };
        let name = match step.for_each {
            Some(_) => format!("{}[{}]", place.step, place.index),
            None => place.step.clone(),
        };
        Ok(Item {
            engine: self.inner.engine().clone(),
            who: who.clone(),
            plan: plan.row.id.to_string(),
            name,
            call: call.unwrap_or_else(nothing),
            timeout: step.timeout_secs.map(Duration::from_secs),
            cancelled,
            held,
            place,
        })
    }
}

/// Waits until the plan was changed in this process.
pub(crate) async fn changed(
    receiver: &mut broadcast::Receiver<(TenantId, PlanId)>,
    tenant: &TenantId,
    id: PlanId,
) {
    loop {
        match receiver.recv().await {
            Ok((of, plan)) if plan == id && of == *tenant => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
