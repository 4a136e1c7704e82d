//! AuthZEN decision point: `POST /access/v1/evaluation`.
//!
//! The answer is a boolean with a context. A context with a Ringfence decision document is read as
//! one, and the boolean must agree with it. A context with unknown conditions is a malformed answer.

use ringfence_types::{Digest, Reason, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{Plain, Protocol, line};
use crate::{Answer, Input, Trouble, Unavailable, answer};

/// Context fields that explain and carry no condition.
const EXPLANATION_FIELDS: &[&str] =
    &["engine", "id", "policy", "reason", "reason_admin", "reason_user", "revision"];
/// Context fields that form a Ringfence decision document.
const DOCUMENT_FIELDS: &[&str] = &["approvals", "decision", "obligations", "reasons"];

/// Protocol of an AuthZEN decision point.
#[derive(Debug)]
pub enum AuthZenProtocol {}

/// AuthZEN decision point.
pub type AuthZen = Plain<AuthZenProtocol>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthZenResponse {
    decision: bool,
    #[serde(default)]
    context: Map<String, Value>,
}

impl Protocol for AuthZenProtocol {
    const NAME: &'static str = "authzen";
    const PATH: &'static str = "/access/v1/evaluation";
    const HEALTH: &'static str = "/.well-known/authzen-configuration";

    fn question(input: &Input) -> serde_json::Result<String> {
        question(input)
    }

    fn read(body: &[u8], revision: Digest) -> Result<Answer, Unavailable> {
        let AuthZenResponse { decision, context } = line::parse(body)?;
        let policy = context.get("policy").and_then(Value::as_str);
        let policy = policy.and_then(|text| text.parse().ok()).unwrap_or(revision);
        let strange = |name: &&String| {
            !EXPLANATION_FIELDS.contains(&name.as_str())
                && !DOCUMENT_FIELDS.contains(&name.as_str())
        };
        if let Some(name) = context.keys().find(strange) {
            return Err(malformed(format!("a context with `{name}`, which may be a condition")));
        }
        let answer = answer::read(document(decision, &context), policy)?;
        let agrees = decision == (answer.verdict == Verdict::Allow);
        if agrees { Ok(answer) } else { Err(malformed("a context that contradicts the decision")) }
    }
}

/// Request with the whole document as the context, so that no field is kept from the rules there. The
/// arguments are also properties of the resource, where Ringfence itself looks for them.
fn question(input: &Input) -> serde_json::Result<String> {
    let context = RawValue::from_string(input.text())?;
    let mut properties = serde_json::to_value(&input.tool)?;
    properties["args"] = input.args.to_value();
    let head = json!({
        "subject": {
            "type": "key",
            "id": input.principal.key,
            "properties": {
                "tenant": input.tenant,
                "persona_id": input.persona_id,
                "scopes": input.principal.scopes,
            },
        },
        "action": {"name": input.action},
        "resource": {"type": "tool", "id": input.tool.name, "properties": properties},
    });
    let head = head.to_string();
    let open = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!(r#"{open},"context":{}}}"#, context.get()))
}

/// Decision document in the context, else the bare decision with its reasons.
fn document(decision: bool, context: &Map<String, Value>) -> Value {
    let of_ours = |name: &&&str| context.contains_key(**name);
    let mut document: Map<String, Value> = DOCUMENT_FIELDS
        .iter()
        .filter(of_ours)
        .map(|name| ((*name).to_owned(), context[*name].clone()))
        .collect();
    let word = if decision { Verdict::Allow } else { Verdict::Deny };
    document.entry("decision").or_insert_with(|| json!(word));
    document.entry("reasons").or_insert_with(|| json!(reasons(context)));
    Value::Object(document)
}

/// Reasons of other decision points: a text, or texts by language or status.
fn reasons(context: &Map<String, Value>) -> Vec<Reason> {
    let words =
        ["reason", "reason_user", "reason_admin"].iter().filter_map(|key| context.get(*key));
    let texts = words.flat_map(|value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Object(texts) => {
            texts.values().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    });
    let cut = |text: String| text.chars().take(crate::answer::MAX_MESSAGE_BYTES / 4).collect();
    let reason = |text| Reason { rule: "authzen".to_owned(), message: cut(text) };
    texts.take(crate::answer::MAX_REASONS).map(reason).collect()
}

fn malformed(words: impl Into<String>) -> Unavailable {
    Unavailable::because(Trouble::Malformed, words.into())
}
