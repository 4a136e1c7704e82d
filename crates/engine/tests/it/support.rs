//! A whole engine in a temporary directory.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_engine::{CallRequest, Engine, Settings};
use ringfence_policy::{Bundle, Rego};
use ringfence_testkit::{Plane, PlaneConfig, TestClock, rules};
use ringfence_types::{Call, Clock, Hold, Json, KeyId, Principal, Scope, State, Timestamp};
use serde_json::{Value, json};

/// Time of the machine.
pub(crate) fn now() -> Timestamp {
    TestClock::system().now()
}

/// An engine in a folder that outlives it.
pub(crate) async fn engine(dir: &Path) -> Plane {
    engine_with(dir, &Bundle::built_in()).await
}

/// Rules that allow everything, so that the way of effectful tools can be walked.
pub(crate) fn allow_all() -> Bundle {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";
    Bundle::from_files([("allow.rego", rules)]).expect("works here")
}

pub(crate) async fn engine_with(dir: &Path, bundle: &Bundle) -> Plane {
    engine_of(dir, rules(bundle), |_| {}).await
}

pub(crate) async fn engine_of(
    dir: &Path,
    policy: Arc<dyn ringfence_policy::Engine>,
    tune: impl FnOnce(&mut Settings) + Send + 'static,
) -> Plane {
    let (folder, policy, tune) = (Some(dir.to_owned()), Some(policy), Box::new(tune));
    let config = PlaneConfig { folder, policy, tune, ..PlaneConfig::default() };
    Plane::start(config).await.expect("works here")
}

pub(crate) fn principal(tenant: &str) -> Principal {
    Principal {
        key: KeyId(uuid::Uuid::from_u128(7)),
        tenant: tenant.parse().expect("works here"),
        persona: None,
        scopes: vec![Scope::Call, Scope::Read].into(),
        label: "agent".to_owned(),
        person: None,
    }
}

pub(crate) fn request(tool: &str, args: &Value) -> CallRequest {
    CallRequest::new(tool.parse().expect("works here"), Json::of(args).expect("works here"))
}

pub(crate) fn echo(text: &str) -> CallRequest {
    request("echo", &json!({"text": text}))
}

/// Makes a call and waits for where it comes to stand.
pub(crate) async fn stand(engine: &Engine, who: &Principal, request: CallRequest) -> Arc<Call> {
    let mut ticket = engine.call(who, request).await.expect("works here");
    ticket.wait(Duration::from_secs(30)).await.expect("it is on record")
}

/// A hold that ends after this.
pub(crate) fn held(lasts: Duration) -> State {
    let now = now();
    State::Held(Box::new(Hold::new(Vec::new(), now, now.after(lasts), 1)))
}

/// A principal of the tenant that may approve.
pub(crate) fn approver(tenant: &str, number: u128) -> Principal {
    let key = KeyId(uuid::Uuid::from_u128(1_000 + number));
    let (label, scopes) = (format!("boss {number}"), vec![Scope::Approve, Scope::Read].into());
    Principal { key, label, scopes, ..principal(tenant) }
}

/// Rules that can be replaced while they are in force.
#[derive(Debug)]
pub(crate) struct Replaced(std::sync::RwLock<Arc<Rego>>);

impl Replaced {
    pub(crate) fn new(rules: &str) -> Arc<Self> {
        Arc::new(Self(std::sync::RwLock::new(load(rules))))
    }

    pub(crate) fn with(&self, rules: &str) {
        *self.0.write().expect("works here") = load(rules);
    }

    fn now(&self) -> Arc<Rego> {
        self.0.read().expect("works here").clone()
    }
}

fn load(rules: &str) -> Arc<Rego> {
    let bundle = Bundle::from_files([("rules.rego", rules)]).expect("works here");
    Arc::new(Rego::load(&bundle).expect("works here"))
}

#[async_trait::async_trait]
impl ringfence_policy::Engine for Replaced {
    fn name(&self) -> &str {
        "replaced"
    }

    fn revision(&self) -> ringfence_types::Digest {
        self.now().revision()
    }

    async fn evaluate(
        &self,
        input: &ringfence_policy::Input,
    ) -> Result<ringfence_policy::Answer, ringfence_policy::Unavailable> {
        self.now().evaluate(input).await
    }
}
