//! Documentation page, generated from the OpenAPI document, without scripts and external resources.

mod fields;

use std::{fmt::Write as _, sync::OnceLock};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{problem_codes, reply};
use ringfence_types::Digest;
use serde_json::Value;

use crate::{base64, openapi};

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

/// Content security policy: only our own style, by its digest.
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
         with every request that is not marked open; the commands below take the address of the \
         server from <code>URL</code> and a key from <code>KEY</code>.</p>",
        escape(text(&document["info"]["description"])),
        escape(text(&document["info"]["version"])),
    );
    write_contents(&mut page, document);
    for tag in document["tags"].as_array().into_iter().flatten() {
        write_tag(&mut page, document, tag);
    }
    write_schemas(&mut page, document);
    write_problems(&mut page);
    page.push_str("</body></html>\n");
    page
}

/// Path, method and content of the operations under a tag.
fn operations<'a>(
    document: &'a Value,
    tag: &'a Value,
) -> impl Iterator<Item = (&'a str, &'a str, &'a Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    all.filter(|(_, _, operation)| operation["tags"][0] == tag["name"])
}

fn write_contents(page: &mut String, document: &Value) {
    page.push_str("<nav>");
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = text(&tag["name"]);
        let _ = write!(page, "<p><a href=\"#tag-{name}\">{name}</a></p><ul>");
        for (path, method, operation) in operations(document, tag) {
            let (id, method) = (text(&operation["operationId"]), method.to_uppercase());
            let (path, summary) = (escape(path), escape(text(&operation["summary"])));
            let link = format!("<a href=\"#{id}\"><code>{method} {path}</code></a>");
            let _ = write!(page, "<li>{link} {summary}</li>");
        }
        page.push_str("</ul>");
    }
    page.push_str(
        "<p><a href=\"#schemas\">Schemas</a></p><p><a href=\"#problems\">Problems</a></p>",
    );
    page.push_str("</nav>");
}

fn write_tag(page: &mut String, document: &Value, tag: &Value) {
    let name = text(&tag["name"]);
    let _ = write!(
        page,
        "<h2 id=\"tag-{name}\">{name}</h2><p>{}</p>",
        escape(text(&tag["description"]))
    );
    for (path, method, operation) in operations(document, tag) {
        write_operation(page, document, (path, method, operation));
    }
}

fn write_schemas(page: &mut String, document: &Value) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let (name, about) = (escape(name), escape(text(&schema["description"])));
        let _ = write!(page, "<section id=\"schema-{name}\"><h3>{name}</h3><p>{about}</p>");
        fields::write(page, schema);
        page.push_str("</section>");
    }
}

fn write_operation(
    page: &mut String,
    document: &Value,
    (path, method, operation): (&str, &str, &Value),
) {
    let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
    let _ = write!(
        page,
        "<section id=\"{}\"><h3><code>{} {}</code>{}</h3><p>{}</p>",
        text(&operation["operationId"]),
        method.to_uppercase(),
        escape(path),
        if is_open { " <small>open</small>" } else { "" },
        escape(text(&operation["summary"])),
    );
    if let Some(description) = operation["description"].as_str() {
        description.split("\n\n").for_each(|part| {
            let _ = write!(page, "<p>{}</p>", escape(part));
        });
    }
    write_parameters(page, operation);
    write_body(page, document, operation);
    write_command(page, path, method, operation);
    page.push_str("<table>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let description = escape(text(&response["description"]));
        let content = response["content"].as_object().into_iter().flatten();
        let kinds = content.filter(|(kind, _)| *kind != "application/problem+json");
        let kinds = kinds.map(|(kind, body)| {
            format!("<code>{}</code> {}", escape(kind), fields::kind(&body["schema"]))
        });
        let kinds = kinds.collect::<Vec<_>>().join("<br>");
        let _ = write!(page, "<tr><td>{status}</td><td>{description}</td><td>{kinds}</td></tr>");
    }
    page.push_str("</table></section>");
}

fn write_parameters(page: &mut String, operation: &Value) {
    let parameters = operation["parameters"].as_array().filter(|all| !all.is_empty());
    let Some(parameters) = parameters else { return };
    page.push_str("<table>");
    for parameter in parameters {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let required = if parameter["required"] == true { "required" } else { "" };
        let place = format!("{place} {required}");
        fields::row(page, name, &place, &parameter["schema"], &parameter["description"]);
    }
    page.push_str("</table>");
}

fn write_body(page: &mut String, document: &Value, operation: &Value) {
    let content = operation["requestBody"]["content"].as_object();
    for (kind, body) in content.into_iter().flatten() {
        let schema = &body["schema"];
        let _ = write!(page, "<p>Body: <code>{}</code> {}</p>", escape(kind), fields::kind(schema));
        let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        if let Some(fields) = target.and_then(|target| document.pointer(target)) {
            fields::write(page, fields);
        }
    }
}

/// The operation as a curl command with the example body.
fn write_command(page: &mut String, path: &str, method: &str, operation: &Value) {
    let mut words = String::from("curl");
    if method != "get" {
        let _ = write!(words, " -X {}", method.to_uppercase());
    }
    // Path parameters become shell variables.
    let place = path.replace('{', "$").replace(['}', '*'], "");
    let place: Vec<_> = place.split('/').map(shell_variable).collect();
    let required = operation["parameters"].as_array().into_iter().flatten();
    let required =
        required.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
    let query: Vec<_> = required
        .map(|parameter| {
            let name = text(&parameter["name"]);
            format!("{name}=${}", name.to_uppercase())
        })
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let _ = write!(words, " \"$URL{}{mark}{}\"", place.join("/"), query.join("&"));
    if operation["security"].as_array().is_none_or(|ways| !ways.is_empty()) {
        words += " \\\n  -H \"Authorization: Bearer $KEY\"";
    }
    let content = operation["requestBody"]["content"].as_object();
    match content.and_then(|content| content.iter().next()) {
        Some((kind, body)) if kind == "application/json" => {
            // A single quote would end the shell word; JSON can escape it.
            let body = body["example"].to_string().replace('\'', "\\u0027");
            let _ = write!(words, " \\\n  -H 'Content-Type: {kind}' -d '{body}'");
        }
        Some((kind, _)) => {
            let _ = write!(words, " \\\n  -H 'Content-Type: {kind}' --data-binary @FILE");
        }
        None => {}
    }
    let _ = write!(page, "<pre><code>{}</code></pre>", escape(&words));
}

/// `$session_id` as `$SESSION_ID`; other parts of a path unchanged.
fn shell_variable(part: &str) -> String {
    if part.starts_with('$') { part.to_uppercase() } else { part.to_owned() }
}

fn write_problems(page: &mut String) {
    page.push_str("<h2 id=\"problems\">Problems</h2><p>Every refusal is <code>application/problem+json</code> ");
    page.push_str("with one of these codes.</p><table>");
    for kind in problem_codes::ALL {
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
