//! Values of parameters, as the styles of OpenAPI write them (RFC 6570 where it has them).

use serde_json::Value;

use super::{HttpParameter, ParameterStyle as Style};

/// Text of a value that is no array and no object; none of those.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn deep() -> String {
    "a value within a value cannot be written in this style".to_owned()
}

/// Items of an array as texts.
fn items(values: &[Value]) -> Result<Vec<String>, String> {
    values.iter().map(|value| plain(value).ok_or_else(deep)).collect()
}

/// Members of an object as texts.
fn members(value: &Value) -> Result<Vec<(String, String)>, String> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| Ok((name.clone(), plain(value).ok_or_else(deep)?))).collect()
}

/// Percent-encodes all but unreserved characters, and `kept`.
pub(super) fn escaped(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_plain || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Reserved characters that a query may hold as they are; not those that would end or split it.
const RESERVED: &str = ":/?@!$'()*,;";

/// A path parameter. A value that would be no segment, or `.` or `..`, is refused: it would name another
/// operation.
pub(super) fn path(parameter: &HttpParameter, value: &Value) -> Result<String, String> {
    let text = match parameter.style {
        Style::Json => escaped(&value.to_string(), ""),
        Style::Label => format!(".{}", joined(value, ".", ".", parameter.explode)?),
        Style::Matrix => matrix(parameter, value)?,
        _ => joined(value, ",", ",", parameter.explode)?,
    };
    match text.as_str() {
        "" => Err("must not be empty".to_owned()),
        "." | ".." => Err("must not be a dot or two".to_owned()),
        _ => Ok(text),
    }
}

/// Items or members with separators between them: of objects `a,1,b,2`, or exploded `a=1,b=2`.
fn joined(value: &Value, between: &str, exploded: &str, explode: bool) -> Result<String, String> {
    Ok(match value {
        Value::Array(values) => {
            let texts: Vec<_> = items(values)?.iter().map(|text| escaped(text, "")).collect();
            texts.join(if explode { exploded } else { "," })
        }
        Value::Object(_) => {
            let pair = |(name, text): &(String, String)| {
                let (name, text) = (escaped(name, ""), escaped(text, ""));
                if explode { format!("{name}={text}") } else { format!("{name},{text}") }
            };
            let pairs: Vec<_> = members(value)?.iter().map(pair).collect();
            pairs.join(if explode { between } else { "," })
        }
        value => escaped(&plain(value).ok_or_else(deep)?, ""),
    })
}

fn matrix(parameter: &HttpParameter, value: &Value) -> Result<String, String> {
    let name = escaped(&parameter.name, "");
    Ok(match value {
        Value::Array(values) if parameter.explode => {
            let texts = items(values)?;
            texts.iter().map(|text| format!(";{name}={}", escaped(text, ""))).collect()
        }
        Value::Object(_) if parameter.explode => {
            let pair = |(name, text): &(String, String)| {
                format!(";{}={}", escaped(name, ""), escaped(text, ""))
            };
            members(value)?.iter().map(pair).collect()
        }
        value => format!(";{name}={}", joined(value, ",", ",", false)?),
    })
}

/// A query parameter: `name=value` pairs.
pub(super) fn query(parameter: &HttpParameter, value: &Value) -> Result<Vec<String>, String> {
    let kept = if parameter.allow_reserved { RESERVED } else { "" };
    pairs(parameter, value, kept)
}

fn pairs(parameter: &HttpParameter, value: &Value, kept: &str) -> Result<Vec<String>, String> {
    let pair = |name: &str, text: &str| format!("{}={}", escaped(name, "[]"), escaped(text, kept));
    let name = parameter.name.as_str();
    Ok(match (parameter.style, value) {
        (Style::Json, value) => vec![pair(name, &value.to_string())],
        (Style::DeepObject, Value::Object(_)) => {
            let mut found = Vec::new();
            deep_object(name, value, 0, &mut found)?;
            found.iter().map(|(name, text)| pair(name, text)).collect()
        }
        (Style::SpaceDelimited, Value::Array(values)) if !parameter.explode => {
            let texts: Vec<_> = items(values)?.iter().map(|text| escaped(text, kept)).collect();
            vec![format!("{}={}", escaped(name, "[]"), texts.join("%20"))]
        }
        (Style::PipeDelimited, Value::Array(values)) if !parameter.explode => {
            let texts: Vec<_> = items(values)?.iter().map(|text| escaped(text, kept)).collect();
            vec![format!("{}={}", escaped(name, "[]"), texts.join("%7C"))]
        }
        (_, Value::Array(values)) if parameter.explode => {
            items(values)?.iter().map(|text| pair(name, text)).collect()
        }
        (_, Value::Object(_)) if parameter.explode => {
            members(value)?.iter().map(|(name, text)| pair(name, text)).collect()
        }
        (_, Value::Array(values)) => {
            let texts: Vec<_> = items(values)?.iter().map(|text| escaped(text, kept)).collect();
            vec![format!("{}={}", escaped(name, "[]"), texts.join(","))]
        }
        (_, Value::Object(_)) => {
            let flat = members(value)?.into_iter().flat_map(|(name, text)| [name, text]);
            let texts: Vec<_> = flat.map(|text| escaped(&text, kept)).collect();
            vec![format!("{}={}", escaped(name, "[]"), texts.join(","))]
        }
        (_, value) => vec![pair(name, &plain(value).ok_or_else(deep)?)],
    })
}

/// Nesting of a value in the style `deepObject`.
const MAX_DEPTH: usize = 8;

fn deep_object(
    name: &str,
    value: &Value,
    depth: usize,
    into: &mut Vec<(String, String)>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(deep());
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                deep_object(&format!("{name}[{member}]"), value, depth + 1, into)?;
            }
        }
        Value::Array(values) => {
            for text in items(values)? {
                into.push((name.to_owned(), text));
            }
        }
        value => into.push((name.to_owned(), plain(value).ok_or_else(deep)?)),
    }
    Ok(())
}

/// A header field. Header fields are not percent-encoded; what could end one is refused.
pub(super) fn header(parameter: &HttpParameter, value: &Value) -> Result<String, String> {
    let text = match (parameter.style, value) {
        (Style::Json, value) => value.to_string(),
        (_, Value::Array(values)) => items(values)?.join(","),
        (_, Value::Object(_)) => {
            let pair = |(name, text): (String, String)| {
                if parameter.explode { format!("{name}={text}") } else { format!("{name},{text}") }
            };
            members(value)?.into_iter().map(pair).collect::<Vec<_>>().join(",")
        }
        (_, value) => plain(value).ok_or_else(deep)?,
    };
    let is_field = |c: char| c == '\t' || (!c.is_control() && c.is_ascii());
    match text.chars().all(is_field) {
        true => Ok(text.trim().to_owned()),
        false => Err("has characters that a header field cannot hold".to_owned()),
    }
}

/// A cookie: `name=value` pairs.
pub(super) fn cookie(parameter: &HttpParameter, value: &Value) -> Result<Vec<String>, String> {
    pairs(parameter, value, "")
}

/// Whether a text is the name of a header field.
pub(super) fn is_header_name(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= 200 && text.bytes().all(is_token)
}
