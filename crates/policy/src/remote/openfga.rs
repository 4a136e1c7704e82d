//! OpenFGA server: `check`, by relations instead of rules.
//!
//! One question: does this user have this relation to this object? Memberships of the user are sent
//! with the question (contextual tuples), so the server need not know our tenants. The model is
//! pinned, and the question asks for higher consistency, so that a revoked right is gone at once.

use async_trait::async_trait;
use ringfence_egress::{StatusCode, Target};
use ringfence_types::{Digest, Reason, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Line, Remote, SetupError, Template, line, target};
use crate::{Answer, Engine, Input, Status, Unavailable, answer};

/// Configuration of an OpenFGA server.
#[derive(Debug, Clone)]
pub struct OpenFgaConfig {
    /// The server.
    pub remote: Remote,
    /// Id of the store.
    pub store: String,
    /// Id of the authorization model.
    pub model: String,
    /// Relation to check.
    pub question: Relation,
    /// Contextual tuples. A tuple with a field that the call lacks is left out.
    pub told: Vec<Relation>,
}

/// `user` has `relation` to `object`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// User, such as `key:{key}`.
    pub user: Template,
    /// Relation, such as `can_call`.
    pub relation: String,
    /// Object, such as `tool:{tool}`.
    pub object: Template,
}

/// OpenFGA server.
#[derive(Debug)]
pub struct OpenFga {
    line: Line,
    url: Target,
    model: String,
    question: Relation,
    told: Vec<Relation>,
    revision: Digest,
}

/// Response body. Unknown fields are refused, because they may be conditions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckResponse {
    allowed: bool,
    #[serde(default, rename = "resolution")]
    _resolution: String,
}

impl OpenFgaConfig {
    /// Usual configuration: `can_call` of keys to tools, with tenant and persona as contextual tuples.
    pub fn usual(remote: Remote, store: String, model: String) -> Self {
        let relation = |user: &str, relation: &str, object: &str| Relation {
            user: user.parse().expect("a template, as tests check"),
            relation: relation.to_owned(),
            object: object.parse().expect("a template, as tests check"),
        };
        Self {
            remote,
            store,
            model,
            question: relation("key:{key}", "can_call", "tool:{tool}"),
            told: vec![
                relation("key:{key}", "member", "tenant:{tenant}"),
                relation("key:{key}", "actor", "persona:{persona}"),
            ],
        }
    }
}

impl OpenFga {
    /// Opens the connection. Needs a runtime.
    pub fn open(config: OpenFgaConfig) -> Result<Self, SetupError> {
        let revision = revision(&config);
        let OpenFgaConfig { remote, store, model, question, told } = config;
        let url = target(&remote.url, &format!("/stores/{store}/check"), None)?;
        let line = Line::open(remote, "/healthz")?;
        Ok(Self { line, url, model, question, told, revision })
    }

    fn read(&self, asked: &Value, status: StatusCode, body: &[u8]) -> Result<Answer, Unavailable> {
        line::expect_ok(status, body)?;
        let CheckResponse { allowed, .. } = line::parse(body)?;
        let field = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        let (user, relation, object) = (field("user"), field("relation"), field("object"));
        let verb = if allowed { "has" } else { "does not have" };
        let message = format!("`{user}` {verb} `{relation}` to `{object}`");
        let verdict = if allowed { Verdict::Allow } else { Verdict::Deny };
        Ok(self.answer(verdict, relation, message))
    }

    fn answer(&self, verdict: Verdict, rule: String, message: String) -> Answer {
        // A name can be as long as a message; the rest of it decides nothing.
        let message = message.chars().take(crate::answer::MAX_MESSAGE_BYTES / 4).collect();
        answer::plain(verdict, Reason { rule, message }, self.revision)
    }
}

#[async_trait]
impl Engine for OpenFga {
    fn name(&self) -> &str {
        &self.line.remote.name
    }

    /// Digest of the model and the question. Relations change without a revision.
    fn revision(&self) -> Digest {
        self.revision
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let Some(asked) = tuple(&self.question, input) else {
            let Relation { user, relation, object } = &self.question;
            let message = format!("the call lacks what `{user}` or `{object}` is made of");
            return Ok(self.answer(Verdict::Deny, relation.clone(), message));
        };
        let told: Vec<_> = self.told.iter().filter_map(|told| tuple(told, input)).collect();
        let body = json!({
            "tuple_key": &asked,
            "contextual_tuples": {"tuple_keys": told},
            "authorization_model_id": &self.model,
            "consistency": "HIGHER_CONSISTENCY",
        });
        let read = |status, body: &[u8]| self.read(&asked, status, body);
        self.line.ask(self.url.clone(), body.to_string(), read).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.line.changed()
    }

    fn status(&self) -> Vec<Status> {
        vec![self.line.status(self.revision)]
    }
}

fn tuple(relation: &Relation, input: &Input) -> Option<Value> {
    let Relation { user, relation, object } = relation;
    let (user, object) = (user.fill(input)?, object.fill(input)?);
    Some(json!({"user": user, "relation": relation, "object": object}))
}

fn revision(config: &OpenFgaConfig) -> Digest {
    let OpenFgaConfig { store, model, question, told, .. } = config;
    let words = |relation: &Relation| {
        let Relation { user, relation, object } = relation;
        [user.to_string(), relation.clone(), object.to_string()]
    };
    let told: Vec<_> = told.iter().map(words).collect();
    let text = serde_json::to_vec(&("openfga", store, model, words(question), told));
    Digest::of(&text.expect("text can be written"))
}
