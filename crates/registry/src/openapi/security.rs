//! Security of operations: secrets by name.

use serde_json::Value;

use super::Document;
use crate::http_tool::{CredentialPlace, HttpCredential};

/// Credentials of an operation: those of the first alternative that can be used.
pub(super) fn of(
    document: &Document<'_>,
    operation: &Value,
) -> Result<Vec<HttpCredential>, String> {
    let required = operation.get("security").or_else(|| document.root.get("security"));
    let Some(alternatives) = required.and_then(Value::as_array).filter(|list| !list.is_empty())
    else {
        return Ok(Vec::new());
    };
    let mut problem = String::new();
    for alternative in alternatives.iter().filter_map(Value::as_object).take(32) {
        let all: Result<Vec<_>, String> =
            alternative.keys().map(|name| credential(document, name)).collect();
        match all {
            Ok(credentials) => return Ok(credentials),
            Err(why) => problem = why,
        }
    }
    Err(problem)
}

fn credential(document: &Document<'_>, name: &str) -> Result<HttpCredential, String> {
    let schemes = document.root.get("components").and_then(|part| part.get("securitySchemes"));
    let scheme = schemes.and_then(|schemes| schemes.get(name));
    let unknown = || format!("security scheme `{}` is not defined", crate::text::shown(name));
    let scheme = document.resolver.follow(scheme.ok_or_else(unknown)?)?;
    let text = |field: &str| scheme.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("type").to_ascii_lowercase();
    let header = || text("name").to_owned();
    let place = match (kind.as_str(), text("in"), text("scheme").to_ascii_lowercase().as_str()) {
        ("apikey", "header", _) => CredentialPlace::Header(header()),
        ("apikey", "query", _) => CredentialPlace::Query(header()),
        ("apikey", "cookie", _) => CredentialPlace::Cookie(header()),
        ("http", _, "basic") => CredentialPlace::Basic,
        // Tokens of these kinds are sent in the same way; getting one is not done here.
        ("http", _, "bearer") | ("oauth2" | "openidconnect", ..) => CredentialPlace::Bearer,
        _ => {
            return Err(format!("security scheme `{}` is not supported", crate::text::shown(name)));
        }
    };
    let secret = format!("{}.{}", document.prefix, super::names::slug(name));
    // Names of secrets have at most 64 characters; both parts are ASCII.
    let secret = secret.chars().take(64).collect();
    Ok(HttpCredential { secret, place })
}
