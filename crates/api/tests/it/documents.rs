//! The OpenAPI document and the page made of it.

use expect_test::expect_file;
use ringfence_api::Api;
use serde_json::Value;

use crate::support::{Server, send};

fn document() -> Value {
    serde_json::from_str(&Api::openapi()).unwrap()
}

#[test]
fn paths_methods_and_statuses_are_as_documented() {
    let document = document();
    let mut text = String::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let statuses: Vec<_> =
                operation["responses"].as_object().unwrap().keys().cloned().collect();
            text +=
                &format!("{:<6} {path}\n       {}\n", method.to_uppercase(), statuses.join(" "));
        }
    }
    expect_file!["paths.txt"].assert_eq(&text);
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50, "{}", references.len());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    assert_eq!(document["openapi"], "3.1.0");
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        _ => {}
    }
}

#[tokio::test]
async fn every_documented_path_exists_and_no_answer_is_undocumented() {
    let server = Server::start().await;
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        let place = path
            .replace("{id}", "019a8b7c-1234-7abc-8def-0123456789ab")
            .replace("{stream}", "stdout")
            .replace("{exec}", "1")
            .replace("{interpreter}", "1")
            .replace("{name}", "echo")
            .replace("{tenant}", "default")
            .replace("{session_id}", "s");
        if path == "/v1/events" {
            continue;
        }
        for (method, operation) in item.as_object().unwrap() {
            let answer = send(server.request(&method.to_uppercase(), &place)).await;
            assert_ne!(answer.status, 405, "{method} {path}");
            let statuses = operation["responses"].as_object().unwrap();
            assert!(
                statuses.contains_key(&answer.status.to_string()),
                "{method} {path}: {answer:?}"
            );
        }
        let known: Vec<_> = item.as_object().unwrap().keys().collect();
        if !known.contains(&&"put".to_owned()) {
            let answer = send(server.request("PUT", &place)).await;
            assert_eq!(answer.status, 405, "{path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn the_page_is_complete_and_runs_nothing() {
    let server = Server::start().await;
    let page = send(server.bare("GET", "/docs")).await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let text = String::from_utf8(page.bytes).unwrap();
    assert!(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"));
    for (path, _) in document()["paths"].as_object().unwrap() {
        assert!(text.contains(path.as_str()), "{path}");
    }
    // Each problem's `type` leads to a place on the page.
    let problem = send(server.bare("GET", "/v1/calls")).await.json();
    let anchor = problem["type"].as_str().unwrap().strip_prefix("/docs#").unwrap().to_owned();
    assert!(text.contains(&format!("id=\"{anchor}\"")));
    server.stop().await;
}
