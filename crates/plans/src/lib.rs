//! Plans: graphs of calls that are driven to their end, whatever crashes in between.
//!
//! A plan is a document of steps; each step is a call with a key derived from plan, step and attempt. Its row
//! keeps what calls do not say: the document, what people asked for, and which items were begun.
//!
//! Invariants:
//! - **A step begins once.** It is on record as running before its call is made, and its key is derived, so a
//!   driver that takes the plan over finds the call that was made.
//! - **An unknown outcome stops the plan.** A call that may have had its effect is never repeated but by a
//!   person.
//! - **One driver.** The store gives an open plan to one living process, and a driver that lost it cannot
//!   write.

mod advance;
mod binding;
mod check;
mod document;
mod driver;
mod follow;
mod intent;
mod item;
mod kind;
mod metrics;
mod outputs;
mod reflect;
mod state;
mod step_call;
mod view;
mod worker;

use std::{collections::BTreeSet, sync::Arc};

use ringfence_engine::{
    Engine,
    data::{PlanEvent, PlanQuery, PlanRow, PlanSummary, StoreError},
};
use ringfence_types::{Json, PlanId, Principal, TenantId};
use serde_json::Value;
use tokio::sync::{Notify, broadcast};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::state::{Plan, PlanState};
pub use self::{
    check::{Preview, StepPreview},
    document::{Problem, parse_text},
    follow::Follow,
    intent::{Intent, NotChanged, StepIntent},
    metrics::Metrics,
    state::{PlanStatus, UnreadablePlan},
    view::{PlanView, StepView},
};

/// Settings of plans.
#[derive(Debug, Clone)]
pub struct Config {
    /// Plans that one process drives at the same time.
    pub running: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { running: 1_000 }
    }
}

/// Parts of the worker.
#[derive(Debug)]
pub struct Parts {
    /// Engine that makes the calls and keeps the rows.
    pub engine: Engine,
    /// Counts.
    pub metrics: Metrics,
    /// Settings.
    pub config: Config,
}

/// Plans of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Plans {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parts: Parts,
    /// Plans that were changed in this process.
    pub(crate) changed: broadcast::Sender<(TenantId, PlanId)>,
    /// Told when a plan may need a driver.
    pub(crate) opened: Notify,
    pub(crate) stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Inner {
    pub(crate) fn engine(&self) -> &Engine {
        &self.parts.engine
    }

    pub(crate) fn announce(&self, tenant: &TenantId, id: PlanId) {
        // Without a receiver there is none to tell.
        let _ = self.changed.send((tenant.clone(), id));
    }
}

/// A request for a plan.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// Document.
    pub document: Value,
    /// Whether it is started at once.
    pub run: bool,
}

/// Reason why a plan was not made, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The document has problems.
    #[error("the plan has {} problem{}", .0.len(), if .0.len() == 1 { "" } else { "s" })]
    Invalid(Vec<Problem>),
    /// The change does not fit the state of the plan.
    #[error("{0}")]
    Conflict(String),
    /// There is no such step.
    #[error("the plan has no step `{0}`")]
    UnknownStep(String),
    /// The plan does not exist.
    #[error("plan not found")]
    NotFound,
    /// Its row cannot be read.
    #[error(transparent)]
    Unreadable(#[from] UnreadablePlan),
    /// The store failed.
    #[error("plans cannot be read or written")]
    Store(#[from] StoreError),
}

impl From<NotChanged> for PlanError {
    fn from(error: NotChanged) -> Self {
        match error {
            NotChanged::Conflict(message) => Self::Conflict(message),
            NotChanged::UnknownStep(step) => Self::UnknownStep(step),
            NotChanged::Invalid(problems) => Self::Invalid(problems),
        }
    }
}

/// Announcements that a slow reader may miss; it reads the rows anyway.
const MAX_ANNOUNCEMENTS: usize = 1_024;
/// Tries of a change that others came before.
const MAX_TRIES: usize = 50;

impl Plans {
    /// Starts the worker. Plans that earlier processes left go on.
    pub fn start(parts: Parts) -> Self {
        let inner = Arc::new(Inner {
            parts,
            changed: broadcast::Sender::new(MAX_ANNOUNCEMENTS),
            opened: Notify::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(worker::run(inner.clone()));
        inner.tasks.close();
        Self { inner }
    }

    /// Plans of a process that drives none: they are kept and changed here, and driven by others.
    pub fn without_worker(engine: Engine) -> Self {
        let parts = Parts { engine, metrics: Metrics::default(), config: Config::default() };
        let inner = Arc::new(Inner {
            parts,
            changed: broadcast::Sender::new(MAX_ANNOUNCEMENTS),
            opened: Notify::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        inner.tasks.close();
        Self { inner }
    }

    /// Leaves all plans, which another process or the next start goes on with.
    pub async fn close(&self) {
        self.inner.stopping.cancel();
        self.inner.tasks.wait().await;
    }

    /// Checks a document and says what it would do, without running anything.
    pub async fn preview(&self, who: &Principal, document: &Value) -> Preview {
        let engine = self.inner.engine();
        match document::parse(document) {
            Ok(document) => {
                let problems = check::problems(engine, &document);
                check::preview(engine, who, &document, problems).await
            }
            Err(problems) => Preview {
                ok: false,
                problems,
                steps: Vec::new(),
                hosts: Vec::new(),
                approvals: Vec::new(),
                denied: Vec::new(),
            },
        }
    }

    /// Preview of a stored plan.
    pub async fn preview_of(&self, who: &Principal, id: PlanId) -> Result<Preview, PlanError> {
        let row = self.row(who, id).await?;
        Ok(self.preview(who, &row.document.to_value()).await)
    }

    /// Keeps a plan, and starts it if asked.
    pub async fn create(
        &self,
        who: &Principal,
        request: CreateRequest,
    ) -> Result<PlanView, PlanError> {
        let engine = self.inner.engine();
        let document = document::parse(&request.document).map_err(PlanError::Invalid)?;
        let problems = check::problems(engine, &document);
        if !problems.is_empty() {
            return Err(PlanError::Invalid(problems));
        }
        let now = engine.clock().now();
        let state = PlanState { intervention: document.intervention, ..PlanState::default() };
        let nested = || {
            let message = "is nested too deeply".to_owned();
            PlanError::Invalid(vec![Problem { pointer: String::new(), message }])
        };
        let row = PlanRow {
            id: PlanId(uuid::Uuid::now_v7()),
            tenant: who.tenant.clone(),
            key: who.key,
            persona: who.persona.clone(),
            status: PlanStatus::Pending.name().to_owned(),
            is_open: false,
            goal: document.goal.clone(),
            document: Json::from_value(&request.document).ok_or_else(nested)?,
            state: Json::of(&state).unwrap_or_else(|_| Json::empty_object()),
            created_at: now,
            changed_at: now,
            version: 1,
            is_own: false,
        };
        let mut plan =
            Plan { row, document, state, status: PlanStatus::Pending, events: Vec::new() };
        let payload = plan.brief();
        plan.event(now, "planning:plan:created", payload);
        if request.run {
            plan.change(&Intent::Run, who.key, now)?;
        }
        let events = std::mem::take(&mut plan.events);
        self.count(&events);
        plan.row = plan.to_row(now);
        engine.add_plan(plan.row.clone(), events).await?;
        self.tell(&plan);
        Ok(plan.view())
    }

    fn count(&self, events: &[PlanEvent]) {
        let kinds: BTreeSet<_> = events.iter().map(|event| event.kind.clone()).collect();
        self.inner.parts.metrics.events(&kinds.into_iter().collect::<Vec<_>>());
    }

    fn tell(&self, plan: &Plan) {
        self.inner.announce(&plan.row.tenant, plan.row.id);
        if plan.row.is_open {
            self.inner.opened.notify_one();
        }
    }

    async fn row(&self, who: &Principal, id: PlanId) -> Result<PlanRow, PlanError> {
        self.inner.engine().plan(&who.tenant, id).await?.ok_or(PlanError::NotFound)
    }

    /// One plan.
    pub async fn get(&self, who: &Principal, id: PlanId) -> Result<PlanView, PlanError> {
        Ok(view::of_row(self.row(who, id).await?)?)
    }

    /// The document of a plan.
    pub async fn document(&self, who: &Principal, id: PlanId) -> Result<Json, PlanError> {
        Ok(self.row(who, id).await?.document)
    }

    /// Plans, newest first.
    pub async fn list(
        &self,
        who: &Principal,
        status: Option<PlanStatus>,
        before: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanSummary>, PlanError> {
        let status = status.map(|status| status.name().to_owned());
        let query = PlanQuery { tenant: who.tenant.clone(), status, before, limit };
        Ok(self.inner.engine().plans(query).await?)
    }

    /// Makes a change that a person asks for.
    pub async fn change(
        &self,
        who: &Principal,
        id: PlanId,
        intent: &Intent,
    ) -> Result<PlanView, PlanError> {
        let engine = self.inner.engine();
        for _ in 0..MAX_TRIES {
            let mut plan = Plan::read(self.row(who, id).await?)?;
            let now = engine.clock().now();
            plan.change(intent, who.key, now)?;
            if matches!(intent, Intent::Step(_, StepIntent::Edit(_))) {
                let problems = check::problems(engine, &plan.document);
                if !problems.is_empty() {
                    return Err(PlanError::Invalid(problems));
                }
            }
            let events = std::mem::take(&mut plan.events);
            plan.row = plan.to_row(now);
            if engine.update_plan(plan.row.clone(), events.clone()).await? {
                self.count(&events);
                self.tell(&plan);
                return Ok(plan.view());
            }
        }
        let message = "the plan changes too fast; try again".to_owned();
        Err(PlanError::Conflict(message))
    }

    /// Removes a plan that is not under way.
    pub async fn remove(&self, who: &Principal, id: PlanId) -> Result<(), PlanError> {
        let row = self.row(who, id).await?;
        if self.inner.engine().remove_plan(&who.tenant, id).await? {
            return Ok(());
        }
        let message = format!("a plan that is {} cannot be removed; cancel it first", row.status);
        Err(PlanError::Conflict(message))
    }

    /// Events of a plan after a number.
    pub async fn events(
        &self,
        who: &Principal,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, PlanError> {
        self.row(who, id).await?;
        Ok(self.inner.engine().plan_events(&who.tenant, id, after, limit).await?)
    }
}
