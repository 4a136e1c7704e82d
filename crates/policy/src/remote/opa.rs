//! OPA server: `POST /v1/data/<path>`.
//!
//! An undefined result is a deny, as usual with OPA. The revision is that of the bundles named in
//! OPA's answer; rules that were uploaded by hand have no known revision.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use ringfence_egress::{StatusCode, Target};
use ringfence_types::{Digest, Reason, Verdict};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use super::{Line, Remote, SetupError, line, target};
use crate::{Answer, Engine, Input, Status, Trouble, Unavailable, answer};

/// Configuration of an OPA server.
#[derive(Debug, Clone)]
pub struct OpaConfig {
    /// The server.
    pub remote: Remote,
    /// Path of the rule: `/v1/data/ringfence/decision`.
    pub path: String,
    /// Shape of the input document.
    pub shape: Shape,
    /// Meaning of an undefined rule.
    pub undefined: Undefined,
}

/// Shape of the input document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The whole document.
    Document,
    /// The few fields sent by SomaAgent 01, for rules that were written for it.
    Original,
}

/// Meaning of an undefined rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undefined {
    /// Deny.
    Deny,
    /// Abstention: another engine must decide.
    Abstain,
}

/// OPA server.
#[derive(Debug)]
pub struct Opa {
    line: Line,
    url: Target,
    path: String,
    shape: Shape,
    undefined: Undefined,
    /// Digest of the path and the bundles in the last answer.
    revision: Mutex<Digest>,
}

/// Response body. Unknown fields are refused, because they may be conditions; fields with an underscore
/// only explain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpaResponse {
    /// Absent if the rule is undefined, which differs from null.
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    provenance: Provenance,
    #[serde(default, rename = "decision_id")]
    _decision_id: IgnoredAny,
    #[serde(default, rename = "explanation")]
    _explanation: IgnoredAny,
    #[serde(default, rename = "metrics")]
    _metrics: IgnoredAny,
    #[serde(default, rename = "warning")]
    _warning: IgnoredAny,
}

#[derive(Debug, Default, Deserialize)]
struct Provenance {
    #[serde(default)]
    bundles: BTreeMap<String, BundleRevision>,
}

#[derive(Debug, Deserialize)]
struct BundleRevision {
    #[serde(default)]
    revision: String,
}

impl Opa {
    /// Opens the connection. Needs a runtime.
    pub fn open(config: OpaConfig) -> Result<Self, SetupError> {
        let OpaConfig { remote, path, shape, undefined } = config;
        let url = target(&remote.url, &path, Some("provenance=true"))?;
        let revision = Mutex::new(revision(&path, &Provenance::default()));
        let line = Line::open(remote, "/health")?;
        Ok(Self { line, url, path, shape, undefined, revision })
    }

    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Answer, Unavailable> {
        line::expect_ok(status, body)?;
        let response: OpaResponse = line::parse(body)?;
        let policy = self.seen(revision(&self.path, &response.provenance));
        match response.result {
            Some(value) => answer::read(bare(value), policy),
            None => self.undefined(policy),
        }
    }

    fn undefined(&self, policy: Digest) -> Result<Answer, Unavailable> {
        if self.undefined == Undefined::Abstain {
            return Err(Unavailable::new(Trouble::Abstained));
        }
        let message = format!("`{}` is undefined for this call", self.path);
        let reason = Reason { rule: "undefined".to_owned(), message };
        Ok(answer::plain(Verdict::Deny, reason, policy))
    }

    /// Records a revision, and notifies the subscribers if it is new.
    fn seen(&self, revision: Digest) -> Digest {
        let mut known = self.revision.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != revision {
            *known = revision;
            self.line.rules_changed();
        }
        revision
    }
}

#[async_trait]
impl Engine for Opa {
    fn name(&self) -> &str {
        &self.line.remote.name
    }

    fn revision(&self) -> Digest {
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let body = match self.shape {
            Shape::Document => format!(r#"{{"input":{}}}"#, input.text()),
            Shape::Original => original(input)?,
        };
        self.line.ask(self.url.clone(), body, |status, body| self.read(status, body)).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.line.changed()
    }

    fn status(&self) -> Vec<Status> {
        vec![self.line.status(self.revision())]
    }
}

/// Unwraps `{"allow": true}`, which some rules answer instead of `true`.
fn bare(value: Value) -> Value {
    match value.as_object() {
        Some(object) if object.len() == 1 && object.get("allow").is_some_and(Value::is_boolean) => {
            object["allow"].clone()
        }
        _ => value,
    }
}

fn revision(path: &str, provenance: &Provenance) -> Digest {
    let bundles: Vec<_> = provenance
        .bundles
        .iter()
        .map(|(name, bundle)| (name.as_str(), bundle.revision.as_str()))
        .collect();
    let text = serde_json::to_vec(&("opa", path, bundles)).expect("text can be written");
    Digest::of(&text)
}

#[derive(Debug, Serialize)]
struct Original<'a> {
    tenant: &'a str,
    persona_id: Option<String>,
    action: &'a str,
    resource: &'a str,
    context: Context,
}

#[derive(Debug, Serialize)]
struct Context {
    args: Box<RawValue>,
    metadata: Box<RawValue>,
}

/// Input document with the fields that SomaAgent 01 sends.
fn original(input: &Input) -> Result<String, Unavailable> {
    let unwritable = |error| Unavailable::because(Trouble::Failed, error);
    let raw = |json| RawValue::from_string(ringfence_types::json::canonical::jcs(json).to_owned());
    let original = Original {
        tenant: input.tenant.as_str(),
        persona_id: input.persona_id.as_ref().map(ToString::to_string),
        action: input.action.name(),
        resource: input.tool.name.as_str(),
        context: Context {
            args: raw(&input.args).map_err(unwritable)?,
            metadata: raw(&input.metadata).map_err(unwritable)?,
        },
    };
    let text = serde_json::to_string(&original).map_err(unwritable)?;
    Ok(format!(r#"{{"input":{text}}}"#))
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::document;

    #[test]
    fn the_original_shape_is_that_of_the_original() {
        let mut input = document(&["none"], r#"{"b":1,"a":[true]}"#);
        input.persona_id = Some("p".parse().expect("a persona"));
        assert_eq!(
            original(&input).expect("text"),
            r#"{"input":{"tenant":"acme","persona_id":"p","action":"tool.execute","resource":"echo","context":{"args":{"a":[true],"b":1},"metadata":{}}}}"#
        );
    }

    #[test]
    fn null_is_not_undefined() {
        let result =
            |body: &str| serde_json::from_str::<OpaResponse>(body).expect("an answer").result;
        assert_eq!(result(r#"{"decision_id":"x"}"#), None);
        assert_eq!(result(r#"{"result":null}"#), Some(Value::Null));
    }

    #[test]
    fn another_bundle_or_path_is_another_revision() {
        let of = |path: &str, body: &str| {
            revision(
                path,
                &serde_json::from_str::<OpaResponse>(body).expect("an answer").provenance,
            )
        };
        let one = of("/a", r#"{"provenance":{"bundles":{"b":{"revision":"1"}}}}"#);
        assert_eq!(
            one,
            of("/a", r#"{"provenance":{"bundles":{"b":{"revision":"1"}},"version":"2"}}"#)
        );
        for (path, body) in [
            ("/b", r#"{"provenance":{"bundles":{"b":{"revision":"1"}}}}"#),
            ("/a", r#"{"provenance":{"bundles":{"b":{"revision":"2"}}}}"#),
            ("/a", r#"{"provenance":{"bundles":{"c":{"revision":"1"}}}}"#),
            ("/a", "{}"),
        ] {
            assert_ne!(one, of(path, body), "{path} {body}");
        }
    }
}
