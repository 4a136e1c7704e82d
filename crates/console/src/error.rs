//! Problems as pages.

use askama::Template;
use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use ringfence_edge::{Problem, problem_codes, reply};

use crate::{
    assets::{POLICY, REFERENCES, References},
    shell,
};

/// A problem as a page of its own.
#[derive(Debug, Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    assets: &'static References,
    status: u16,
    title: &'a str,
    detail: &'a str,
    faults: Vec<String>,
}

/// Answers of every path of the console: problems become pages, a missing session leads to the login
/// page, and every answer carries the content security policy.
pub(crate) async fn pages(request: Request, next: Next) -> Response {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let wanted = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = match problem.code() == &problem_codes::KEY_MISSING {
            true => to_login(&method, &headers, &wanted),
            false => page(&problem),
        };
    }
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // A page made by a program brings a stricter policy of its own.
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    response
}

/// Path of the console that there is none of.
pub(crate) async fn not_found() -> Problem {
    Problem::not_found()
}

fn page(problem: &Problem) -> Response {
    let code = problem.code();
    let faults = problem.all_faults().iter();
    let page = ErrorPage {
        assets: &REFERENCES,
        status: code.status.as_u16(),
        title: code.title,
        detail: problem.detail(),
        faults: faults.map(|fault| format!("{} {}", fault.pointer, fault.detail)).collect(),
    };
    shell::render(code.status, &page)
}

/// The login page, which leads back to where the browser wanted to go.
fn to_login(method: &Method, headers: &HeaderMap, wanted: &str) -> Response {
    let back = if *method == Method::GET { wanted } else { "/console" };
    let place = format!("/console/login?next={}", escape(back));
    let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/console/login"));
    let mut response = reply::nothing();
    // A part of a page is not replaced by the login page; the whole page is.
    let (status, name) = match headers.contains_key("hx-request") {
        true => (StatusCode::OK, HeaderName::from_static("hx-redirect")),
        false => (StatusCode::SEE_OTHER, header::LOCATION),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(name, place);
    response
}

/// Text as a value of a query.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
