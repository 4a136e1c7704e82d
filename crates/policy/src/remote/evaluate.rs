//! A policy engine in the style of SomaAgentHub: `POST /v1/evaluate`.
//!
//! It looks for words in a prompt, so the prompt is the call as text. The body is a superset: an
//! engine that knows more than words, as Ringfence itself does, finds the structured fields beside
//! it, and may answer with a decision document beside the fields of the original.

use async_trait::async_trait;
use reqwest::{StatusCode, Url};
use ringfence_types::{Digest, Reason, Verdict, json::canonical};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::sync::watch;

use super::{Line, Remote, SetupError, below, line};
use crate::{Answer, Engine, Input, Status, Trouble, Unavailable, said};

/// Parts of our own decision that bind nobody.
const EXPLAIN: &[&str] = &["engine", "id", "policy"];

/// An engine that speaks `/v1/evaluate`.
#[derive(Debug)]
pub struct Evaluate {
    line: Line,
    url: Url,
    revision: Digest,
}

/// Score and severity grade what `allowed` says; they bind nobody.
#[derive(Debug, Deserialize)]
struct Said {
    allowed: bool,
    #[serde(default)]
    reasons: Reasons,
    #[serde(default)]
    decision: Option<Value>,
    #[serde(default)]
    obligations: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Reasons {
    #[serde(default)]
    constitution_hash: String,
    #[serde(default)]
    policy: Vec<Violation>,
}

#[derive(Debug, Deserialize)]
struct Violation {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    severity: Option<String>,
}

impl Evaluate {
    /// Needs a runtime.
    pub fn open(remote: Remote) -> Result<Self, SetupError> {
        let url = below(&remote.url, "/v1/evaluate");
        let revision = Digest::of(format!("evaluate {url}").as_bytes());
        let line = Line::open(remote, "/health")?;
        Ok(Self { line, url, revision })
    }

    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Answer, Unavailable> {
        line::expect_ok(status, body)?;
        let said: Said = line::parse(body)?;
        let policy = revision(&said.reasons.constitution_hash).unwrap_or(self.revision);
        let is_allowed = said.allowed;
        let answer = said::read(document(said), policy)?;
        if is_allowed == (answer.verdict == Verdict::Allow) {
            return Ok(answer);
        }
        let words = "a decision that contradicts `allowed`";
        Err(Unavailable::because(Trouble::Malformed, words))
    }
}

#[async_trait]
impl Engine for Evaluate {
    fn name(&self) -> &str {
        &self.line.remote.name
    }

    /// Of the address; an answer carries the hash of the constitution.
    fn revision(&self) -> Digest {
        self.revision
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let body = question(input).map_err(|e| Unavailable::because(Trouble::Failed, e))?;
        self.line.ask(self.url.clone(), body, |status, body| self.read(status, body)).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.line.changed()
    }

    fn status(&self) -> Vec<Status> {
        vec![self.line.status(self.revision)]
    }
}

fn question(input: &Input) -> serde_json::Result<String> {
    let args = canonical::jcs(&input.args);
    let session = match &input.session_id {
        Some(session) => session.to_string(),
        // The original wants one; a call without is its own.
        None => input.call_id.to_string(),
    };
    let head = json!({
        "session_id": session,
        "tenant": input.tenant,
        "user": input.principal.key,
        "role": "agent",
        "prompt": format!("{} {args}", input.tool.name),
        "persona_id": input.persona_id,
        "action": input.action,
        "resource": input.tool.name,
    });
    let metadata = RawValue::from_string(canonical::jcs(&input.metadata))?;
    let document = input.text();
    let head = head.to_string();
    let open = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!(r#"{open},"metadata":{},"context":{document}}}"#, metadata.get()))
}

/// A digest as it is, hexadecimal digits of one, or the digest of whatever else it is.
fn revision(hash: &str) -> Option<Digest> {
    let digest = || hash.parse().or_else(|_| format!("sha256:{hash}").parse());
    (!hash.is_empty()).then(|| digest().unwrap_or_else(|_| Digest::of(hash.as_bytes())))
}

/// Our decision as Ringfence puts it beside the original fields, else one made of those.
fn document(said: Said) -> Value {
    let verdict = if said.allowed { Verdict::Allow } else { Verdict::Deny };
    let reasons: Vec<_> = said.reasons.policy.into_iter().map(reason).collect();
    let mut document = match said.decision {
        Some(Value::Object(mut own)) => {
            EXPLAIN.iter().for_each(|name| drop(own.remove(*name)));
            own
        }
        Some(word) => Map::from_iter([("decision".to_owned(), word)]),
        None => Map::new(),
    };
    document.entry("decision").or_insert_with(|| json!(verdict));
    document.entry("reasons").or_insert_with(|| json!(reasons));
    document.extend(said.obligations.map(|value| ("obligations".to_owned(), value)));
    Value::Object(document)
}

fn reason(violation: Violation) -> Reason {
    let Violation { name, description, severity } = violation;
    let severity = severity.unwrap_or_else(|| "no".to_owned());
    let message = description.filter(|text| !text.is_empty());
    let message = message.unwrap_or_else(|| format!("a violation of {severity} severity"));
    Reason { rule: name, message }
}
