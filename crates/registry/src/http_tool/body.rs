//! Bodies of requests: JSON, forms, multipart forms, text and bytes.

use ringfence_types::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HttpBody, encode::escaped};

/// Form of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// Text as it is.
    Text,
}

/// `Content-Type` and bytes of a body.
pub(super) fn write(body: &HttpBody, value: &Value) -> Result<(String, Vec<u8>), String> {
    let media_type = body.media_type.clone();
    match body.kind {
        BodyKind::Json => Ok((media_type, value.to_string().into_bytes())),
        BodyKind::Text => match value {
            Value::String(text) => Ok((media_type, text.clone().into_bytes())),
            _ => Err("must be text".to_owned()),
        },
        BodyKind::Form => Ok((media_type, form(value)?.into_bytes())),
        BodyKind::Multipart => multipart(value),
    }
}

/// Members of a form as names and texts; arrays as repeated names.
fn fields(value: &Value) -> Result<Vec<(String, String)>, String> {
    let Value::Object(members) = value else { return Err("must be an object".to_owned()) };
    let mut fields = Vec::new();
    for (name, value) in members {
        match value {
            Value::Null => {}
            Value::Array(values) => {
                fields.extend(values.iter().map(|value| (name.clone(), text(value))));
            }
            value => fields.push((name.clone(), text(value))),
        }
    }
    Ok(fields)
}

/// Text of a member: strings as they are, other values as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn form(value: &Value) -> Result<String, String> {
    let pair = |(name, text): (String, String)| {
        format!("{}={}", escaped(&name, ""), escaped(&text, "")).replace("%20", "+")
    };
    Ok(fields(value)?.into_iter().map(pair).collect::<Vec<_>>().join("&"))
}

fn multipart(value: &Value) -> Result<(String, Vec<u8>), String> {
    let fields = fields(value)?;
    // A boundary that the content cannot hold: it is made from the content.
    let whole = Digest::of(value.to_string().as_bytes()).hex();
    let boundary = format!("ringfence-{}", &whole[..32]);
    let mut out = Vec::new();
    for (name, text) in fields {
        if name.chars().any(|c| c.is_control() || c == '"') {
            return Err("has a name that a form cannot hold".to_owned());
        }
        out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        let about = format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        out.extend_from_slice(about.as_bytes());
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), out))
}
