//! A server with plans, in one process.

use std::{path::Path, time::Duration};

use ringfence_plans::{
    Config, CreateRequest, Metrics, Parts, PlanError, PlanStatus, PlanView, Plans,
};
use ringfence_policy::Bundle;
use ringfence_testkit::{Plane, PlaneConfig, rules};
use ringfence_types::{PlanId, Principal, Scope, TenantId};
use serde_json::Value;

/// Longer than anything takes, even while the machine is busy.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Rules that allow everything but `timestamp`, which is denied, and what asks for approval.
const RULES: &str = r#"package ringfence

default decision := {"decision": "allow", "reasons": []}

decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "a person decides"}]} if {
	input.tool.requires_approval
	input.approval == null
}

decision := {"decision": "deny", "reasons": [{"rule": "no", "message": "not this tool"}]} if {
	input.tool.name == "timestamp"
}
"#;

pub(crate) struct Server {
    pub(crate) plane: Plane,
    pub(crate) plans: Plans,
    pub(crate) who: Principal,
}

impl Server {
    pub(crate) async fn start(folder: &Path) -> Self {
        let bundle = Bundle::from_files([("rules.rego", RULES)]).expect("valid rules");
        let policy = Some(rules(&bundle));
        let folder = Some(folder.to_owned());
        let plane = Plane::start(PlaneConfig { folder, policy, ..PlaneConfig::default() }).await;
        let plane = plane.expect("a plane");
        let who = principal(&plane).await;
        let plans = Plans::start(Parts {
            engine: plane.engine.clone(),
            metrics: Metrics::default(),
            config: Config::default(),
        });
        Self { plane, plans, who }
    }

    pub(crate) async fn create(&self, document: Value) -> Result<PlanView, PlanError> {
        self.plans.create(&self.who, CreateRequest { document, run: true }).await
    }

    pub(crate) async fn run(&self, document: Value) -> PlanId {
        self.create(document).await.expect("a plan").id.parse().expect("an id")
    }

    pub(crate) async fn view(&self, id: PlanId) -> PlanView {
        self.plans.get(&self.who, id).await.expect("the plan")
    }

    /// Waits until the plan is as wanted.
    pub(crate) async fn until(&self, id: PlanId, wanted: impl Fn(&PlanView) -> bool) -> PlanView {
        let mut follow = self.plans.follow(&self.who.tenant, id, 0);
        let reading = async {
            loop {
                let plan = self.view(id).await;
                if wanted(&plan) {
                    return plan;
                }
                follow.next().await.expect("an event");
            }
        };
        match tokio::time::timeout(TIMEOUT, reading).await {
            Ok(plan) => plan,
            Err(_) => panic!("it stays {:#?}", self.view(id).await),
        }
    }

    pub(crate) async fn ended(&self, id: PlanId) -> PlanView {
        self.until(id, |plan| !matches!(plan.status, PlanStatus::Pending | PlanStatus::InProgress))
            .await
    }

    /// Ends everything, so that another one can go on in the folder.
    pub(crate) async fn close(self) {
        self.plans.close().await;
        drop(self.plans);
        self.plane.close(Duration::from_secs(1)).await.expect("closed");
    }
}

/// The caller's key: that of an earlier plane in the folder, if there was one.
async fn principal(plane: &Plane) -> Principal {
    let tenant: TenantId = "acme".parse().expect("a name");
    let known = async || plane.store.keys(Some(&tenant)).await.expect("keys").pop();
    if known().await.is_none() {
        plane.key("acme", &[Scope::Call, Scope::Read, Scope::Approve]).await.expect("a key");
    }
    let key = known().await.expect("it was made");
    Principal {
        key: key.id,
        tenant: key.tenant,
        persona: key.persona,
        scopes: key.scopes,
        label: key.label,
        person: key.person,
    }
}

/// The status of a step.
pub(crate) fn status(plan: &PlanView, id: &str) -> String {
    let step = plan.steps.iter().find(|step| step.id == id);
    step.map(|step| step.status.clone()).unwrap_or_default()
}
