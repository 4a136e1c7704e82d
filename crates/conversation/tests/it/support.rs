//! A server with conversations, in one process.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_conversation::{Config, Conversations, Metrics, Parts, SendRequest, Sent};
use ringfence_engine::data::{SessionEvent, SessionQuery};
use ringfence_llm::Profiles;
use ringfence_models::{Analyser, Embedder, EmbedderConfig, Library};
use ringfence_policy::Bundle;
use ringfence_testkit::{Plane, PlaneConfig, rules};
use ringfence_types::{Principal, Scope, SessionId, TenantId};
use serde_json::{Map, Value};

/// Longer than anything takes, even while the machine is busy.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Rules that allow everything but `timestamp`, which waits for a person.
const RULES: &str = r#"package ringfence

default decision := {"decision": "allow", "reasons": []}

decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "a person decides"}]} if {
	input.tool.name == "timestamp"
	input.approval == null
}

decision := {"decision": "deny", "reasons": [{"rule": "words", "message": "not this"}]} if {
	input.action == "conversation.send"
	contains(input.args.message, "forbidden")
}
"#;

/// A plane in a folder, with conversations.
pub(crate) struct Chat {
    pub(crate) plane: Plane,
    pub(crate) conversations: Conversations,
    pub(crate) who: Principal,
}

/// Profiles with this dialogue model, and perhaps one behind it.
pub(crate) fn profiles(base_url: &str, fallback: Option<&str>) -> Profiles {
    let behind = match fallback {
        Some(url) => format!("    - {{role: slm, model: small, base_url: '{url}'}}\n"),
        None => String::new(),
    };
    let fallback = if fallback.is_some() { ", fallback: slm" } else { "" };
    let text = format!(
        "T:\n  profiles:\n    - {{role: dialogue, model: m, base_url: '{base_url}'{fallback}}}\n{behind}"
    );
    Profiles::parse(&text, "T").expect("valid profiles")
}

impl Chat {
    pub(crate) async fn start(folder: &Path, profiles: Profiles) -> Self {
        let bundle = Bundle::from_files([("rules.rego", RULES)]).expect("valid rules");
        let policy = Some(rules(&bundle));
        let folder = Some(folder.to_owned());
        let config = PlaneConfig { folder, policy, profiles, ..PlaneConfig::default() };
        let plane = Plane::start(config).await;
        let plane = plane.expect("a plane");
        let who = principal(&plane).await;
        let library = Library::new(plane.folder().join("models"));
        let embedder = Embedder::new(library, EmbedderConfig::default());
        let conversations = Conversations::start(Parts {
            engine: plane.engine.clone(),
            bus: plane.bus.clone(),
            analyser: Analyser::new(embedder).expect("the head is built in"),
            metrics: Metrics::default(),
            config: Config::default(),
        });
        Self { plane, conversations, who }
    }

    pub(crate) async fn send(&self, session: &str, message: &str) -> Sent {
        let request = message_to(session, message);
        self.conversations.send(&self.who, request).await.expect("accepted")
    }

    /// Events of a session so far.
    pub(crate) async fn events(&self, session: &SessionId) -> Vec<(u64, SessionEvent)> {
        let query = SessionQuery {
            tenant: self.who.tenant.clone(),
            session: session.clone(),
            kind: None,
            after: 0,
            last: false,
            limit: 500,
        };
        self.plane.session_events(query).await.expect("events")
    }

    /// Follows a session until an event of this kind answers the message.
    pub(crate) async fn until(&self, sent: &Sent, kind: &str) -> Vec<Value> {
        let mut follow = self.conversations.follow(&self.who, sent.session.clone(), 0);
        let reading = async {
            let mut seen = Vec::new();
            loop {
                let (_, event) = follow.next().await.expect("an event");
                let payload = event.payload.to_value();
                let is_ours = payload["correlation_id"] == sent.event_id.as_str();
                let is_last = is_ours && event.kind == kind;
                seen.push(serde_json::json!({"kind": event.kind, "payload": payload}));
                if is_last {
                    return seen;
                }
            }
        };
        match tokio::time::timeout(TIMEOUT, reading).await {
            Ok(seen) => seen,
            Err(_) => panic!("no {kind}; there is {:?}", self.events(&sent.session).await),
        }
    }

    /// Ends everything, so that another one can go on in the folder.
    pub(crate) async fn close(self) {
        self.conversations.close().await;
        drop(self.conversations);
        self.plane.close(Duration::from_secs(1)).await.expect("closed");
    }
}

pub(crate) fn message_to(session: &str, message: &str) -> SendRequest {
    SendRequest {
        session: Some(session.parse().expect("a name")),
        persona: None,
        message: message.to_owned(),
        attachments: Vec::new(),
        metadata: Map::new(),
        trace: None,
    }
}

/// The caller's key: that of an earlier plane in the folder, if there was one.
async fn principal(plane: &Plane) -> Principal {
    let tenant: TenantId = "acme".parse().expect("a name");
    let known = async || plane.store.keys(Some(&tenant)).await.expect("keys").pop();
    if known().await.is_none() {
        plane.key("acme", &[Scope::Call, Scope::Read]).await.expect("a key");
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

/// Kinds of events, in order, with runs of equal ones as one.
pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    kinds.dedup();
    kinds
}

pub(crate) fn folder() -> Arc<tempfile::TempDir> {
    Arc::new(tempfile::tempdir().expect("a folder"))
}
