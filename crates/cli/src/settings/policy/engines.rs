//! One remote engine: `[policy.engines.NAME]`.

use std::{path::Path, time::Duration};

use reqwest::header::HeaderValue;
use ringfence_policy::{
    MAX_REMOTE_TIMEOUT, OpaConfig, OpenFgaConfig, Relation, Remote, Shape, Template, Undefined,
};
use ringfence_types::parse_duration;
use toml::{Table, Value};

use super::{EMBEDDED, Elsewhere, Fields, fields};
use crate::settings::file;

/// Default timeout of an engine.
const DEFAULT_ENGINE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn read(name: &str, fields: &mut Fields<'_>) -> Option<Elsewhere> {
    let kind = fields.required("kind", fields::text);
    if name == EMBEDDED {
        return fields.problem("kind", "`rego` is the name of the rules in this process");
    }
    let remote = remote(name, fields);
    match kind.as_deref()? {
        "opa" => opa(remote, fields),
        "openfga" => openfga(remote, fields),
        "authzen" => remote.map(Elsewhere::AuthZen),
        "evaluate" => remote.map(Elsewhere::Evaluate),
        other => {
            let shown: String = other.chars().take(40).collect();
            let words = format!("`{shown}` is none of opa, openfga, authzen, evaluate");
            fields.problem("kind", &words)
        }
    }
}

fn remote(name: &str, fields: &mut Fields<'_>) -> Option<Remote> {
    let url = fields.required("url", fields::address);
    let timeout = fields.optional("timeout", |value| {
        let timeout = parse_duration(&fields::text(value)?).map_err(|error| error.to_string())?;
        match timeout {
            Duration::ZERO => Err("is no time at all".to_owned()),
            timeout if timeout > MAX_REMOTE_TIMEOUT => {
                Err(format!("is longer than {}s", MAX_REMOTE_TIMEOUT.as_secs()))
            }
            timeout => Ok(timeout),
        }
    });
    let authorization = fields.optional("token_file", |value| token(&fields::text(value)?));
    let timeout = timeout.unwrap_or(DEFAULT_ENGINE_TIMEOUT);
    Some(Remote { name: name.to_owned(), url: url?, timeout, authorization })
}

/// Token from a file. Errors do not repeat it.
fn token(path: &str) -> Result<HeaderValue, String> {
    let text = file::content(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
    let mut value = value.map_err(|_| format!("{path}: not a token in one line"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn opa(remote: Option<Remote>, fields: &mut Fields<'_>) -> Option<Elsewhere> {
    let path = fields.optional("path", |value| match fields::text(value)? {
        path if path.starts_with("/v1/data/") && !path.contains(['?', '#']) => Ok(path),
        _ => Err("does not begin with /v1/data/".to_owned()),
    });
    let shape = fields.optional("input", |value| match value.as_str() {
        Some("document") => Ok(Shape::Document),
        Some("original") => Ok(Shape::Original),
        _ => Err("neither \"document\" nor \"original\"".to_owned()),
    });
    let undefined = fields.optional("undefined", |value| match value.as_str() {
        Some("deny") => Ok(Undefined::Deny),
        Some("abstain") => Ok(Undefined::Abstain),
        _ => Err("neither \"deny\" nor \"abstain\"".to_owned()),
    });
    Some(Elsewhere::Opa(OpaConfig {
        remote: remote?,
        path: path.unwrap_or_else(|| "/v1/data/ringfence/decision".to_owned()),
        shape: shape.unwrap_or(Shape::Document),
        undefined: undefined.unwrap_or(Undefined::Deny),
    }))
}

fn openfga(remote: Option<Remote>, fields: &mut Fields<'_>) -> Option<Elsewhere> {
    let id = |value: &Value| {
        let text = fields::text(value)?;
        let fits = text.len() == 26 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits { Ok(text) } else { Err("is not an id of 26 letters and digits".to_owned()) }
    };
    let (store, model) = (fields.required("store", id), fields.required("model", id));
    let template = |value: &Value| {
        let text = fields::text(value)?;
        text.parse::<Template>().map_err(|invalid| invalid.to_string())
    };
    let (user, object) = (fields.optional("user", template), fields.optional("object", template));
    let relation = fields.optional("relation", fields::text);
    let told = fields.optional("tell", |value| match value {
        Value::Array(items) => items.iter().map(tuple).collect::<Result<Vec<_>, _>>(),
        _ => Err("is not a list of tables".to_owned()),
    });
    let mut config = OpenFgaConfig::usual(remote?, store?, model?);
    config.question.user = user.unwrap_or(config.question.user);
    config.question.object = object.unwrap_or(config.question.object);
    config.question.relation = relation.unwrap_or(config.question.relation);
    config.told = told.unwrap_or(config.told);
    Some(Elsewhere::OpenFga(Box::new(config)))
}

/// `{ user = "key:{key}", relation = "member", object = "tenant:{tenant}" }`
fn tuple(value: &Value) -> Result<Relation, String> {
    const SHAPE: &str = "is not a list of { user = …, relation = …, object = … }";
    let table: &Table = value.as_table().ok_or(SHAPE)?;
    let text = |name: &str| table.get(name).and_then(Value::as_str).ok_or(SHAPE);
    let template =
        |name| text(name).map(str::parse::<Template>)?.map_err(|invalid| invalid.to_string());
    if table.len() != 3 {
        return Err(SHAPE.to_owned());
    }
    let relation = text("relation")?.to_owned();
    Ok(Relation { user: template("user")?, relation, object: template("object")? })
}
