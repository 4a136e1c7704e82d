//! The documentation as a page: written here from the OpenAPI document, without scripts and
//! without anything from elsewhere.

use std::{fmt::Write as _, sync::OnceLock};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use ringfence_types::Digest;
use serde_json::Value;

use crate::{base64, kinds, openapi, reply};

/// The OpenAPI document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health",
    responses((status = 200, description = "This document", body = Object, content_type = "application/json"))
)]
pub(crate) async fn document() -> Response {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| openapi::text().into()).clone();
    reply::of(StatusCode::OK, HeaderValue::from_static("application/json"), text)
}

/// The documentation as a page.
#[utoipa::path(
    get, path = "/docs", tag = "health",
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(crate) async fn page() -> Response {
    static PAGE: OnceLock<(Bytes, HeaderValue)> = OnceLock::new();
    let (page, policy) = PAGE.get_or_init(|| (write(openapi::document()).into(), policy())).clone();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = reply::of(StatusCode::OK, kind, page);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

const STYLE: &str = include_str!("docs.css");

/// Nothing but our own style, told by its digest.
fn policy() -> HeaderValue {
    let digest = base64::encode(Digest::of(STYLE.as_bytes()).as_bytes());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 is printable ASCII")
}

fn write(document: &Value) -> String {
    let mut page = String::new();
    let title = escape(text(&document["info"]["title"]));
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title} API</title><style>{STYLE}</style></head>\
         <body><h1>{title} API</h1><p>{}</p><p>Version {}. The same as \
         <a href=\"/openapi.json\">OpenAPI 3.1</a>. Send <code>Authorization: Bearer rf_…</code> \
         with every request that is not marked open.</p>",
        escape(text(&document["info"]["description"])),
        escape(text(&document["info"]["version"])),
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        write_tag(&mut page, document, tag);
    }
    write_problems(&mut page);
    page.push_str("</body></html>\n");
    page
}

fn write_tag(page: &mut String, document: &Value, tag: &Value) {
    let name = text(&tag["name"]);
    let _ = write!(
        page,
        "<h2 id=\"tag-{name}\">{name}</h2><p>{}</p>",
        escape(text(&tag["description"]))
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if operation["tags"][0] == name {
                write_operation(page, path, method, operation);
            }
        }
    }
}

fn write_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
    let _ = write!(
        page,
        "<section><h3><code>{} {}</code>{}</h3><p>{}</p>",
        method.to_uppercase(),
        escape(path),
        if is_open { " <small>open</small>" } else { "" },
        escape(text(&operation["summary"])),
    );
    if let Some(description) = operation["description"].as_str() {
        let _ = write!(page, "<p>{}</p>", escape(description));
    }
    write_parameters(page, operation);
    write_body(page, operation);
    page.push_str("<table>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let description = escape(text(&response["description"]));
        let _ = write!(page, "<tr><td>{status}</td><td>{description}</td></tr>");
    }
    page.push_str("</table></section>");
}

fn write_parameters(page: &mut String, operation: &Value) {
    let parameters = operation["parameters"].as_array().filter(|all| !all.is_empty());
    let Some(parameters) = parameters else { return };
    page.push_str("<table>");
    for parameter in parameters {
        let _ = write!(
            page,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escape(text(&parameter["name"])),
            escape(text(&parameter["in"])),
            escape(text(&parameter["description"])),
        );
    }
    page.push_str("</table>");
}

fn write_body(page: &mut String, operation: &Value) {
    let content = operation["requestBody"]["content"].as_object();
    for (kind, body) in content.into_iter().flatten() {
        let schema = text(&body["schema"]["$ref"]).rsplit('/').next().unwrap_or("");
        let _ = write!(page, "<p>Body: <code>{}</code> {}</p>", escape(kind), escape(schema));
    }
}

fn write_problems(page: &mut String) {
    page.push_str("<h2>Problems</h2><p>Every refusal is <code>application/problem+json</code> ");
    page.push_str("with one of these codes.</p><table>");
    for kind in kinds::ALL {
        let (code, status, title) = (kind.code, kind.status.as_u16(), kind.title);
        let _ = write!(
            page,
            "<tr id=\"{code}\"><td>{status}</td><td><code>{code}</code></td><td>{title}</td></tr>"
        );
    }
    page.push_str("</table>");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
