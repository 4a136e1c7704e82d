//! Secrets: set, listed, replaced and removed, each tenant for itself; a value never comes back.

use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Server, send, with_json};

fn body(value: &str) -> Value {
    json!({
        "value": value, "tools": ["http_fetch"], "hosts": ["api.example"], "header": "Authorization",
    })
}

async fn put(server: &Server, by: &str, name: &str, body: &Value) -> Answer {
    let path = format!("/v1/secrets/{name}");
    send(with_json(server.bare("PUT", &path).bearer_auth(by), body)).await
}

async fn list(server: &Server, by: &str) -> Value {
    send(server.bare("GET", "/v1/secrets").bearer_auth(by)).await.json()
}

async fn remove(server: &Server, by: &str, name: &str) -> u16 {
    let path = format!("/v1/secrets/{name}");
    send(server.bare("DELETE", &path).bearer_auth(by)).await.status
}

#[tokio::test]
async fn a_secret_is_set_listed_and_removed_and_never_read_back() {
    let server = Server::start().await;
    let (ours, theirs) =
        (server.key("acme", &[Scope::Admin]).await, server.key("other", &[Scope::Admin]).await);
    let set = put(&server, &ours, "token", &body("s3cr3t-value")).await;
    assert_eq!(set.status, 200, "{set:?}");
    let view = set.json();
    assert_eq!((&view["header"], &view["format"]), (&json!("authorization"), &json!("Bearer {}")));
    let listed = list(&server, &ours).await;
    assert_eq!(listed["secrets"][0]["name"], "token");
    assert!(!format!("{view} {listed}").contains("s3cr3t"), "{view} {listed}");
    // Tenants are walls: the same name of another tenant is another secret.
    assert_eq!(list(&server, &theirs).await["count"], 0);
    assert_eq!(remove(&server, &theirs, "token").await, 404);
    assert_eq!(put(&server, &theirs, "token", &body("other-value")).await.status, 200);
    assert_eq!(remove(&server, &theirs, "token").await, 204);
    assert_eq!(list(&server, &ours).await["count"], 1);
    assert_eq!(remove(&server, &ours, "token").await, 204);
    assert_eq!(remove(&server, &ours, "token").await, 404);
    let reader = server.key("acme", &[Scope::Call, Scope::Read]).await;
    let refused = put(&server, &reader, "token", &body("s3cr3t-value")).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "scope_missing"));
    let rotate = server.bare("POST", "/v1/admin/secrets/rotate");
    let refused = send(rotate.bearer_auth(&ours)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
    server.stop().await;
}

#[tokio::test]
async fn every_problem_of_a_secret_is_named_and_its_value_is_not() {
    let server = Server::start().await;
    let bad = json!({
        "value": "s3cr3t\nvalue", "tools": [], "hosts": ["http://x"], "header": "host", "format": "x",
    });
    let refused = put(&server, &server.admin, "bad", &bad).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "body_invalid"));
    let text = refused.json().to_string();
    for field in ["/value", "/tools", "/hosts", "/header", "/format"] {
        assert!(text.contains(field), "{field} is not in {text}");
    }
    assert!(!text.contains("s3cr3t"), "{text}");
    for both in [json!({"query": "key"}), json!({"header": null})] {
        let mut body = body("value");
        body.as_object_mut().unwrap().extend(both.as_object().unwrap().clone());
        assert_eq!(put(&server, &server.admin, "bad", &body).await.status, 422, "{body}");
    }
    assert_eq!(put(&server, &server.admin, "bad%20name", &body("x")).await.status, 404);
    server.stop().await;
}
