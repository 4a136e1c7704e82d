//! Manifests whose capabilities are requests to an API.

use serde_json::Value;

use super::{Capability, fields::Fields};
use crate::{
    definition::Recipe,
    http_tool::{
        BodyKind, CredentialPlace, HttpBody, HttpCredential, HttpOperation, HttpParameter,
        HttpTool, ParameterPlace, ParameterStyle,
    },
};

/// The API of a manifest.
#[derive(Debug)]
pub(super) struct Api {
    base_url: String,
    /// Host and port.
    authority: String,
    auth: Option<CredentialPlace>,
}

impl Api {
    pub(super) fn host(&self) -> String {
        self.authority.clone()
    }

    /// Name of the secret, if the API wants one.
    pub(super) fn secret(&self, tool: &str) -> Option<String> {
        self.auth.is_some().then(|| tool.to_owned())
    }
}

/// Reads `api_requirements`.
pub(super) fn requirements(fields: &mut Fields) -> Option<Api> {
    let map = fields.object("api_requirements")?;
    let mut inner = fields.within("api_requirements", map);
    let base_url = inner.required_text("base_url");
    let kind = inner.text("auth_type");
    let header = inner.text("auth_header");
    let auth = match kind.as_deref() {
        None | Some("none") => None,
        Some("api_key") => {
            Some(CredentialPlace::Header(header.unwrap_or_else(|| "X-API-Key".to_owned())))
        }
        Some("bearer") => Some(CredentialPlace::Bearer),
        Some("basic") => Some(CredentialPlace::Basic),
        Some(_) => {
            inner.problem("auth_type", "must be none, api_key, bearer or basic");
            None
        }
    };
    let base_url = base_url.map(|url| url.trim_end_matches('/').to_owned());
    let authority = base_url.as_deref().and_then(crate::openapi::authority);
    if base_url.is_some() && authority.is_none() {
        inner.problem("base_url", "must be an http or https URL with a host");
    }
    fields.merge(inner);
    Some(Api { base_url: base_url?, authority: authority?, auth })
}

/// One operation per capability, chosen by the argument whose values are their names.
pub(super) fn recipe(
    fields: &mut Fields,
    api: &Api,
    capabilities: &[Capability],
    input: &Value,
    tool: &str,
) -> Option<Recipe> {
    let callable: Vec<_> =
        capabilities.iter().filter(|capability| capability.endpoint.is_some()).collect();
    if callable.is_empty() {
        fields.problem("capabilities", "none has an `endpoint`: nothing could be called");
        return None;
    }
    let selector = match callable.len() {
        1 => None,
        _ => {
            let names: Vec<_> = callable.iter().map(|one| one.name.as_str()).collect();
            let found = selector(input, &names);
            if found.is_none() {
                let words = "no argument has the names of the capabilities as its values";
                fields.problem("parameters_schema", words);
            }
            Some(found?)
        }
    };
    let operations =
        callable.iter().map(|one| operation(api, one, selector.as_deref(), input, tool));
    Some(Recipe::Http(HttpTool { selector: selector.clone(), operations: operations.collect() }))
}

/// The argument whose enumeration has exactly the names.
fn selector(input: &Value, names: &[&str]) -> Option<String> {
    let properties = input.get("properties")?.as_object()?;
    let is_it = |schema: &Value| {
        let values = schema.get("enum").and_then(Value::as_array);
        values
            .is_some_and(|values| names.iter().all(|name| values.iter().any(|value| value == name)))
    };
    properties.iter().find(|(_, schema)| is_it(schema)).map(|(name, _)| name.clone())
}

fn operation(
    api: &Api,
    capability: &Capability,
    selector: Option<&str>,
    input: &Value,
    tool: &str,
) -> HttpOperation {
    let method = capability.method.clone().unwrap_or_else(|| "GET".to_owned());
    let endpoint = capability.endpoint.clone().unwrap_or_default();
    let path = if endpoint.starts_with('/') { endpoint } else { format!("/{endpoint}") };
    let schema = capability.parameters.as_ref().unwrap_or(input);
    let names: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .filter(|name| Some(name.as_str()) != selector)
        .collect();
    let reads = matches!(method.as_str(), "GET" | "HEAD" | "DELETE" | "OPTIONS");
    let place = |name: &String| match path.contains(&format!("{{{name}}}")) {
        true => Some(ParameterPlace::Path),
        false if reads => Some(ParameterPlace::Query),
        false => None,
    };
    let parameters = names.iter().filter_map(|name| {
        let place = place(name)?;
        let style = match place {
            ParameterPlace::Path => ParameterStyle::Simple,
            _ => ParameterStyle::Form,
        };
        Some(HttpParameter {
            name: name.clone(),
            argument: name.clone(),
            place,
            style,
            explode: place == ParameterPlace::Query,
            allow_reserved: false,
        })
    });
    let parameters: Vec<_> = parameters.collect();
    let body = (!reads).then(|| HttpBody {
        // All arguments that are not in the path.
        argument: String::new(),
        kind: BodyKind::Json,
        media_type: "application/json".to_owned(),
    });
    let credentials = api
        .auth
        .iter()
        .map(|place| HttpCredential { secret: tool.to_owned(), place: place.clone() });
    HttpOperation {
        name: capability.name.clone(),
        method,
        server: api.base_url.clone(),
        path,
        parameters,
        body,
        credentials: credentials.collect(),
    }
}
