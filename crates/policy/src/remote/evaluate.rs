//! Policy engine in the style of SomaAgentHub: `POST /v1/evaluate`.
//!
//! Such an engine searches a prompt for words, so the prompt is the call as text. The body is a
//! superset: an engine that understands more, as Ringfence itself does, finds the structured fields
//! beside the prompt, and may answer with a decision document beside SomaAgentHub's fields.

use ringfence_types::{Digest, Reason, Verdict, json::canonical};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json, value::RawValue};

use super::{Plain, Protocol, line};
use crate::{Answer, Input, Trouble, Unavailable, answer};

/// Fields of a Ringfence decision that carry no condition.
const EXPLANATION_FIELDS: &[&str] = &["engine", "id", "policy"];

/// Protocol of `/v1/evaluate`.
#[derive(Debug)]
pub enum EvaluateProtocol {}

/// Engine that speaks `/v1/evaluate`.
pub type Evaluate = Plain<EvaluateProtocol>;

/// Response body. Score and severity grade `allowed` and carry no condition. Unknown fields are
/// refused, because they may be conditions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluateResponse {
    allowed: bool,
    #[serde(default, rename = "score")]
    _score: IgnoredAny,
    #[serde(default, rename = "severity")]
    _severity: IgnoredAny,
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

impl Protocol for EvaluateProtocol {
    const NAME: &'static str = "evaluate";
    const PATH: &'static str = "/v1/evaluate";
    const HEALTH: &'static str = "/health";

    fn question(input: &Input) -> serde_json::Result<String> {
        question(input)
    }

    /// Reads an answer, whose revision is the hash of the constitution.
    fn read(body: &[u8], revision: Digest) -> Result<Answer, Unavailable> {
        let response: EvaluateResponse = line::parse(body)?;
        let policy = constitution(&response.reasons.constitution_hash).unwrap_or(revision);
        let is_allowed = response.allowed;
        let answer = answer::read(document(response), policy)?;
        if is_allowed == (answer.verdict == Verdict::Allow) {
            return Ok(answer);
        }
        let words = "a decision that contradicts `allowed`";
        Err(Unavailable::because(Trouble::Malformed, words))
    }
}

fn question(input: &Input) -> serde_json::Result<String> {
    let args = canonical::jcs(&input.args);
    let session = match &input.session_id {
        Some(session) => session.to_string(),
        // SomaAgentHub requires a session; a call without one stands for itself.
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
    let metadata = RawValue::from_string(canonical::jcs(&input.metadata).to_owned())?;
    let document = input.text();
    let head = head.to_string();
    let open = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!(r#"{open},"metadata":{},"context":{document}}}"#, metadata.get()))
}

/// Digest of the constitution: the hash itself if it is one, else the digest of the text.
fn constitution(hash: &str) -> Option<Digest> {
    let digest = || hash.parse().or_else(|_| format!("sha256:{hash}").parse());
    (!hash.is_empty()).then(|| digest().unwrap_or_else(|_| Digest::of(hash.as_bytes())))
}

/// Decision document beside the fields of SomaAgentHub, else one made of those fields.
fn document(response: EvaluateResponse) -> Value {
    let verdict = if response.allowed { Verdict::Allow } else { Verdict::Deny };
    let reasons: Vec<_> = response.reasons.policy.into_iter().map(reason).collect();
    let mut document = match response.decision {
        Some(Value::Object(mut own)) => {
            EXPLANATION_FIELDS.iter().for_each(|name| drop(own.remove(*name)));
            own
        }
        Some(word) => Map::from_iter([("decision".to_owned(), word)]),
        None => Map::new(),
    };
    document.entry("decision").or_insert_with(|| json!(verdict));
    document.entry("reasons").or_insert_with(|| json!(reasons));
    document.extend(response.obligations.map(|value| ("obligations".to_owned(), value)));
    Value::Object(document)
}

fn reason(violation: Violation) -> Reason {
    let Violation { name, description, severity } = violation;
    let severity = severity.unwrap_or_else(|| "no".to_owned());
    let message = description.filter(|text| !text.is_empty());
    let message = message.unwrap_or_else(|| format!("a violation of {severity} severity"));
    Reason { rule: name, message }
}
