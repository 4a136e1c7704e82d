//! Answers, written straight to bytes.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// An answer in JSON.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let mut bytes = Vec::with_capacity(2_048);
    match serde_json::to_writer(&mut bytes, value) {
        Ok(()) => of(status, JSON, bytes.into()),
        Err(error) => {
            // Only a value of ours that JSON cannot hold gets here.
            tracing::error!(error = &error as &dyn std::error::Error, "an answer is not JSON");
            of(StatusCode::INTERNAL_SERVER_ERROR, JSON, Bytes::from_static(b"{}"))
        }
    }
}

/// `200` and JSON.
pub fn ok<T: Serialize>(value: &T) -> Response {
    json(StatusCode::OK, value)
}

/// Any answer. Nothing of ours may be kept by caches: it belongs to one key.
pub fn of(status: StatusCode, content_type: HeaderValue, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

/// No content.
pub fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
