//! The OpenAPI document and the page made of it.

use expect_test::expect_file;
use ringfence_api::Api;
use ringfence_types::{Scope, Scopes};
use serde_json::{Value, json};

use crate::support::{Server, send, with_json, within};

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

/// A path with names in it.
fn place(path: &str) -> String {
    path.replace("{id}", "019a8b7c-1234-7abc-8def-0123456789ab")
        .replace("{stream}", "stdout")
        .replace("{exec}", "1")
        .replace("{interpreter}", "1")
        .replace("{name}", "echo")
        .replace("{tenant}", "default")
        .replace("{session_id}", "s")
}

/// The scopes of which an operation needs one, as documented; none for an open one.
fn documented_scopes(operation: &Value) -> Vec<Scope> {
    let ways = operation["security"].as_array().expect("every operation says what it needs");
    ways.iter().map(|way| way["key"][0].as_str().unwrap().parse().unwrap()).collect()
}

/// The scope that the server says is missing, if that is its answer.
async fn missing_scope(request: reqwest::RequestBuilder) -> Option<String> {
    let response = within("an answer", request.send()).await.unwrap();
    if response.status().as_u16() != 403 {
        return None; // Not read further: it may be a stream.
    }
    let problem: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    problem["scope"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn each_operation_needs_the_scope_that_is_documented() {
    let server = Server::start().await;
    let mut count = 0;
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needed = documented_scopes(operation);
            if needed.is_empty() {
                continue;
            }
            let ask = |key: String| {
                let request = server.bare(&method.to_uppercase(), &place(path)).bearer_auth(key);
                missing_scope(with_json(request, &json!({})))
            };
            let is_enough = |scope: &Scope| {
                let one = Scopes::from(vec![*scope]);
                needed.iter().any(|needed| one.allow(*needed))
            };
            let others: Vec<_> = Scope::ALL.into_iter().filter(|scope| !is_enough(scope)).collect();
            let missing = ask(server.key("default", &others).await).await;
            let missing = missing.unwrap_or_else(|| panic!("{method} {path} is done without"));
            assert!(needed.iter().any(|scope| scope.name() == missing), "{method} {path}");
            for scope in needed {
                let missing = ask(server.key("default", &[scope]).await).await;
                assert_eq!(missing, None, "{method} {path} with {scope}");
                let sentence = operation["description"].as_str().unwrap();
                assert!(sentence.contains(&format!("`{scope}`")), "{method} {path}: {sentence}");
            }
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
    server.stop().await;
}

#[tokio::test]
async fn every_documented_path_exists_and_no_answer_is_undocumented() {
    let server = Server::start().await;
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        let place = place(path);
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

/// Every link within the page leads somewhere, and no two places have one name.
fn check_anchors(text: &str) {
    let mut ids: Vec<_> = text.split(" id=\"").skip(1).map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for link in text.split("href=\"#").skip(1).map(|rest| rest.split('"').next()) {
        assert!(ids.binary_search(&link).is_ok(), "{link:?} leads nowhere");
    }
}

#[tokio::test]
async fn the_example_of_each_body_is_one_that_the_server_reads() {
    let server = Server::start().await;
    let mut count = 0;
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(body) = operation.pointer("/requestBody/content/application~1json") else {
                continue;
            };
            let request = server.request(&method.to_uppercase(), &place(path));
            let answer = send(with_json(request, &body["example"])).await;
            // What is not there is missed, but the body was not refused for what it is.
            let code = if answer.status < 400 { String::new() } else { answer.problem() };
            assert!(
                !["body_invalid", "body_malformed"].contains(&code.as_str()),
                "{method} {path} {}: {}",
                body["example"],
                answer.json()
            );
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
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
    check_anchors(&text);
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let (_, section) = text.split_once(&format!("<section id=\"{id}\">")).unwrap();
            let section = section.split_once("</section>").unwrap().0;
            assert!(section.contains("curl"), "{method} {path}");
            assert!(text.contains(&format!("href=\"#{id}\"")), "{id} is in the contents");
        }
    }
    // A field with its type, its bound and its meaning.
    let row = "<td><code>wait</code></td><td></td><td>number or null\
               <br><small>double</small><br><small>at least 0</small><br><small>at most 300</small>";
    assert!(text.contains(row), "{text}");
    // Each problem's `type` leads to a place on the page.
    let problem = send(server.bare("GET", "/v1/calls")).await.json();
    let anchor = problem["type"].as_str().unwrap().strip_prefix("/docs#").unwrap().to_owned();
    assert!(text.contains(&format!("id=\"{anchor}\"")));
    server.stop().await;
}
