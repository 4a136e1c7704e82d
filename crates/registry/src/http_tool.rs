//! Tool that performs operations of an HTTP API.
//!
//! [`HttpOperation::request`] turns arguments into a request as OpenAPI describes it: styles, `explode`,
//! bodies. It is pure; the engine sends the request through the guarded client, with secrets added there.

mod body;
mod encode;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::body::BodyKind;
use crate::text::shown;

/// Operations of an HTTP API that a tool performs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    /// Argument that names the operation; none of a tool with one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The operations.
    pub operations: Vec<HttpOperation>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOperation {
    /// Value of the selector.
    pub name: String,
    /// Method in upper case.
    pub method: String,
    /// URL of the server, without a slash at its end.
    pub server: String,
    /// Path with names in braces.
    pub path: String,
    /// Parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<HttpParameter>,
    /// Body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<HttpBody>,
    /// Credentials that are added to the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<HttpCredential>,
}

/// Parameter of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpParameter {
    /// Name in the request.
    pub name: String,
    /// Name of the argument.
    pub argument: String,
    /// Place in the request.
    pub place: ParameterPlace,
    /// Style of arrays and objects.
    pub style: ParameterStyle,
    /// Whether each item or member stands for itself.
    #[serde(default)]
    pub explode: bool,
    /// Whether reserved characters of a query stay as they are.
    #[serde(default)]
    pub allow_reserved: bool,
}

/// Place of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterPlace {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// A header field.
    Header,
    /// A cookie.
    Cookie,
}

/// Style of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ParameterStyle {
    /// `;name=value`.
    Matrix,
    /// `.value`.
    Label,
    /// `value`.
    Simple,
    /// `name=value`.
    Form,
    /// Items with spaces between them.
    SpaceDelimited,
    /// Items with bars between them.
    PipeDelimited,
    /// `name[member]=value`.
    DeepObject,
    /// JSON text.
    Json,
}

/// Body of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpBody {
    /// Name of the argument; empty if all arguments that are no parameters are the body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub argument: String,
    /// Form of the body.
    pub kind: BodyKind,
    /// `Content-Type` of the body.
    pub media_type: String,
}

/// Secret that a request carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCredential {
    /// Name of the secret.
    pub secret: String,
    /// Place in the request.
    pub place: CredentialPlace,
}

/// Place of a secret in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPlace {
    /// Header field of this name.
    Header(String),
    /// Query parameter of this name.
    Query(String),
    /// Cookie of this name.
    Cookie(String),
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Basic`; the secret is `user:password`.
    Basic,
}

/// Request of an operation, without its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method in upper case.
    pub method: String,
    /// Whole URL.
    pub url: String,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Option<Vec<u8>>,
}

impl HttpTool {
    /// The operation that the arguments ask for.
    fn operation(&self, args: &Value) -> Result<&HttpOperation, String> {
        let Some(selector) = &self.selector else {
            return self.operations.first().ok_or_else(|| "the tool has no operation".to_owned());
        };
        let name = args.get(selector).and_then(Value::as_str).unwrap_or_default();
        let found = self.operations.iter().find(|operation| operation.name == name);
        found.ok_or_else(|| format!("`{selector}` names no operation of the tool"))
    }

    /// The request for these arguments, with its operation, or all that is wrong with them.
    pub fn request(&self, args: &Value) -> Result<(&HttpOperation, HttpRequest), Vec<String>> {
        let operation = self.operation(args).map_err(|problem| vec![problem])?;
        let mut named = args.as_object().cloned().unwrap_or_default();
        if let Some(selector) = &self.selector {
            named.remove(selector);
        }
        operation.request(&named).map(|request| (operation, request))
    }

    /// All problems that keep it from being used.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.operations.is_empty() {
            problems.push("http: has no operation".to_owned());
        }
        for operation in &self.operations {
            let named = |problem: String| format!("http: {}: {problem}", shown(&operation.name));
            problems.extend(operation.problems().into_iter().map(named));
        }
        problems
    }
}

/// Methods of operations.
pub(crate) const METHODS: [&str; 8] =
    ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"];

/// Header fields that only the client itself sets.
const OWN_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "proxy-authorization",
    "proxy-connection",
    "expect",
];

impl HttpOperation {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !METHODS.contains(&self.method.as_str()) || self.method == "TRACE" {
            problems.push(format!("method `{}` cannot be used", shown(&self.method)));
        }
        let has_scheme =
            ["http://", "https://"].iter().any(|scheme| self.server.starts_with(scheme));
        if !has_scheme {
            problems.push("the server is not an http or https URL".to_owned());
        }
        if !self.path.starts_with('/') {
            problems.push("the path does not begin with a slash".to_owned());
        }
        for name in self.template_names() {
            let is_it = |parameter: &&HttpParameter| {
                parameter.place == ParameterPlace::Path && parameter.name == name
            };
            if !self.parameters.iter().any(|parameter| is_it(&parameter)) {
                problems.push(format!("the path names `{}`, which is no parameter", shown(name)));
            }
        }
        for parameter in &self.parameters {
            let is_own = OWN_HEADERS.contains(&parameter.name.to_ascii_lowercase().as_str());
            if parameter.place == ParameterPlace::Header
                && (is_own || !encode::is_header_name(&parameter.name))
            {
                problems.push(format!("header `{}` cannot be set", shown(&parameter.name)));
            }
        }
        for credential in &self.credentials {
            if let CredentialPlace::Header(name) = &credential.place
                && (OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str())
                    || !encode::is_header_name(name))
            {
                problems.push(format!("header `{}` cannot carry a secret", shown(name)));
            }
        }
        problems
    }

    fn template_names(&self) -> impl Iterator<Item = &str> {
        let parts = self.path.split('{').skip(1);
        parts.filter_map(|part| part.split_once('}').map(|(name, _)| name))
    }

    /// Whether it only reads, by its method.
    pub fn is_read_only(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The value of the body: that of its argument, or all arguments that are no parameters.
    fn body_value(&self, body: &HttpBody, args: &Map<String, Value>) -> Option<Value> {
        if !body.argument.is_empty() {
            return args.get(&body.argument).cloned();
        }
        let is_parameter =
            |name: &String| self.parameters.iter().any(|parameter| parameter.argument == *name);
        let rest = args.iter().filter(|(name, _)| !is_parameter(name));
        Some(Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect()))
    }

    /// The request for these arguments, or all that is wrong with them.
    fn request(&self, args: &Map<String, Value>) -> Result<HttpRequest, Vec<String>> {
        let mut problems = Vec::new();
        let (mut path, mut query) = (self.path.clone(), Vec::new());
        let (mut headers, mut cookies) = (Vec::new(), Vec::new());
        for parameter in &self.parameters {
            let value = args.get(&parameter.argument).filter(|value| !value.is_null());
            let Some(value) = value else {
                if parameter.place == ParameterPlace::Path {
                    problems.push(format!("`{}` is required", parameter.argument));
                }
                continue;
            };
            let written = match parameter.place {
                ParameterPlace::Path => encode::path(parameter, value).map(|text| {
                    path = path.replace(&format!("{{{}}}", parameter.name), &text);
                }),
                ParameterPlace::Query => {
                    encode::query(parameter, value).map(|pairs| query.extend(pairs))
                }
                ParameterPlace::Header => encode::header(parameter, value)
                    .map(|text| headers.push((parameter.name.clone(), text))),
                ParameterPlace::Cookie => {
                    encode::cookie(parameter, value).map(|pairs| cookies.extend(pairs))
                }
            };
            if let Err(problem) = written {
                problems.push(format!("`{}`: {problem}", parameter.argument));
            }
        }
        let mut body = None;
        if let Some(described) = &self.body
            && let Some(value) = self.body_value(described, args)
        {
            match body::write(described, &value) {
                Ok((media_type, bytes)) => {
                    headers.push(("Content-Type".to_owned(), media_type));
                    body = Some(bytes);
                }
                Err(problem) => problems.push(format!("`{}`: {problem}", described.argument)),
            }
        }
        if !cookies.is_empty() {
            headers.push(("Cookie".to_owned(), cookies.join("; ")));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut url = format!("{}{path}", self.server);
        if !query.is_empty() {
            url += if url.contains('?') { "&" } else { "?" };
            url += &query.join("&");
        }
        Ok(HttpRequest { method: self.method.clone(), url, headers, body })
    }
}

#[cfg(test)]
mod tests;
