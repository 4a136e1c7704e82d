//! An OpenFGA server: `check`, by relations instead of rules.
//!
//! One question: does this user have this relation to this object? Who the user is a member of is
//! told with the question (contextual tuples), so the server need not know our tenants. The model is
//! pinned, and the server is asked for what is true now, not for what was true a moment ago: a right
//! that was taken away is gone.

use async_trait::async_trait;
use reqwest::{StatusCode, Url};
use ringfence_types::{Digest, Reason, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Line, Remote, SetupError, Template, below, line};
use crate::{Answer, Engine, Input, Status, Unavailable, said};

/// Which relation of which store is asked about.
#[derive(Debug, Clone)]
pub struct OpenFgaConfig {
    /// The server.
    pub remote: Remote,
    /// The store, by its id.
    pub store: String,
    /// The authorization model, by its id.
    pub model: String,
    /// What is asked.
    pub question: Relation,
    /// What is told with it. One that needs what a call lacks is left out.
    pub told: Vec<Relation>,
}

/// `user` has `relation` to `object`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Such as `key:{key}`.
    pub user: Template,
    /// Such as `can_call`.
    pub relation: String,
    /// Such as `tool:{tool}`.
    pub object: Template,
}

/// An OpenFGA server.
#[derive(Debug)]
pub struct OpenFga {
    line: Line,
    url: Url,
    model: String,
    question: Relation,
    told: Vec<Relation>,
    revision: Digest,
}

/// A field that we do not know may be a condition: no unknown fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    allowed: bool,
    #[serde(default, rename = "resolution")]
    _resolution: String,
}

impl OpenFgaConfig {
    /// `can_call` of keys to tools; their tenant and persona are told.
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
    /// Needs a runtime.
    pub fn open(config: OpenFgaConfig) -> Result<Self, SetupError> {
        let revision = revision(&config);
        let OpenFgaConfig { remote, store, model, question, told } = config;
        let url = below(&remote.url, &format!("/stores/{store}/check"));
        let line = Line::open(remote, "/healthz")?;
        Ok(Self { line, url, model, question, told, revision })
    }

    fn read(&self, asked: &Value, status: StatusCode, body: &[u8]) -> Result<Answer, Unavailable> {
        line::expect_ok(status, body)?;
        let Said { allowed, .. } = line::parse(body)?;
        let field = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        let (user, relation, object) = (field("user"), field("relation"), field("object"));
        let verb = if allowed { "has" } else { "does not have" };
        let message = format!("`{user}` {verb} `{relation}` to `{object}`");
        let verdict = if allowed { Verdict::Allow } else { Verdict::Deny };
        Ok(self.answer(verdict, relation, message))
    }

    fn answer(&self, verdict: Verdict, rule: String, message: String) -> Answer {
        // A name can be as long as a message may be; the rest of it decides nothing.
        let message = message.chars().take(crate::document::MESSAGE_BYTES / 4).collect();
        said::plain(verdict, Reason { rule, message }, self.revision)
    }
}

#[async_trait]
impl Engine for OpenFga {
    fn name(&self) -> &str {
        &self.line.remote.name
    }

    /// Of the model and the question. Relations change without one.
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
