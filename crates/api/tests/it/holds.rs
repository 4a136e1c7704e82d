//! Holds over HTTP: seen, decided, and by whom.

use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json, within};

/// Every call of `echo` waits for a person; those that begin with `two` for two.
const ASK: &str = r#"
package ringfence

decision := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "two", "message": "two people"}], "approvals": 2} if {
    startswith(input.args.text, "two")
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]}
"#;

async fn server() -> Server {
    let bundle = ringfence_policy::Bundle::from_files([("ask.rego", ASK)]).unwrap();
    Server::of(Plan::default().bundle(&bundle)).await
}

/// A key of the operator's tenant with these scopes.
async fn key(server: &Server, scopes: &[&str]) -> String {
    let body = json!({"label": "person", "scopes": scopes});
    let made = send(with_json(server.bare("POST", "/v1/keys").bearer_auth(&server.admin), &body));
    made.await.json()["secret"].as_str().unwrap().to_owned()
}

async fn post(server: &Server, by: &str, path: &str, body: &Value) -> Answer {
    send(with_json(server.bare("POST", path).bearer_auth(by), body)).await
}

async fn get(server: &Server, by: &str, path: &str) -> Answer {
    send(server.bare("GET", path).bearer_auth(by)).await
}

/// A call that is held, made by this key.
async fn held(server: &Server, by: &str, text: &str) -> String {
    let body = json!({"tool": "echo", "args": {"text": text}, "session_id": "s-1"});
    let answer = post(server, by, "/v1/calls", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["state"], "held");
    answer.json()["id"].as_str().unwrap().to_owned()
}

async fn ended(server: &Server, id: &str) -> Value {
    within("the call to end", async {
        loop {
            let call = server.get(&format!("/v1/calls/{id}")).await.json();
            if !["held", "dispatched", "running"].contains(&call["state"].as_str().unwrap()) {
                return call;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_hold_shows_what_would_happen_and_an_approval_of_it_runs_it() {
    let server = server().await;
    let (agent, boss) = (key(&server, &["call"]).await, key(&server, &["approve"]).await);
    let id = held(&server, &agent, "hello").await;
    let listed = get(&server, &boss, "/v1/holds").await.json();
    let hold = &listed["holds"][0];
    assert_eq!((&hold["id"], &hold["tool"]), (&json!(id), &json!("echo")));
    assert_eq!(hold["args"], json!({"text": "hello"}));
    assert_eq!(hold["reasons"], json!([{"rule": "ask", "message": "ask a person"}]));
    assert_eq!((&hold["approvals_needed"], &hold["votes"]), (&json!(1), &json!([])));
    assert_eq!(*hold, get(&server, &boss, &format!("/v1/holds/{id}")).await.json());

    let path = format!("/v1/holds/{id}/resolve");
    let body = json!({"action": "approve", "reason": "fine", "shown": hold["shown"]});
    let answer = post(&server, &boss, &path, &body).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (202, Some(&*format!("/v1/calls/{id}")))
    );
    let call = ended(&server, &id).await;
    assert_eq!(call["result"], json!({"message": "hello"}));
    let approval = call["decision"]["approval"].as_str().unwrap();
    let approval = get(&server, &boss, &format!("/v1/approvals/{approval}")).await.json();
    assert_eq!((&approval["used"], &approval["terms"]["scope"]), (&json!(1), &json!("once")));
    assert_eq!(approval["votes"][0]["reason"], "fine");
    let again = post(&server, &boss, &path, &body).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "not_held"));
    server.stop().await;
}

#[tokio::test]
async fn keys_that_may_not_decide_are_refused_with_the_reason() {
    let server = server().await;
    let agent = key(&server, &["call", "approve"]).await;
    let id = held(&server, &agent, "hello").await;
    let path = format!("/v1/holds/{id}/resolve");
    let approve = json!({"action": "approve"});
    let own = post(&server, &agent, &path, &approve).await;
    assert_eq!((own.status, own.problem().as_str()), (403, "own_call"));
    let reader = key(&server, &["read", "call"]).await;
    for path in [path.clone(), format!("/v1/requeue/{id}/resolve")] {
        let refused = post(&server, &reader, &path, &approve).await;
        assert_eq!((refused.status, refused.problem().as_str()), (403, "scope_missing"));
    }
    let body = json!({"label": "other", "scopes": ["approve"], "tenant": "other"});
    let made = post(&server, &server.admin, "/v1/keys", &body).await.json();
    let foreign = made["secret"].as_str().unwrap();
    assert_eq!(post(&server, foreign, &path, &approve).await.status, 404);
    assert_eq!(get(&server, foreign, "/v1/holds").await.json()["holds"], json!([]));
    assert_eq!(get(&server, foreign, "/v1/requeue").await.json(), json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_resolution_that_does_not_fit_says_everything_that_is_wrong() {
    let server = server().await;
    let (agent, boss) = (key(&server, &["call"]).await, key(&server, &["approve"]).await);
    let path = format!("/v1/holds/{}/resolve", held(&server, &agent, "hello").await);
    let cases = [
        (json!({}), "body_invalid", "/action"),
        (json!({"action": "bless"}), "body_invalid", "/action"),
        (json!({"action": "approve", "allow": true}), "body_invalid", "/allow"),
        (json!({"action": "deny", "edited_args": {"text": "x"}}), "body_invalid", "/action"),
        (json!({"action": "approve", "scope": "world"}), "body_invalid", "/scope"),
        (json!({"action": "approve", "scope": "rule"}), "body_invalid", "/scope"),
        (json!({"action": "approve", "uses": 2}), "body_invalid", "/scope"),
        (json!({"action": "approve", "expires_in": "soon"}), "body_invalid", "/expires_in"),
        (json!({"action": "approve", "where": [{"path": "x"}]}), "body_invalid", "/where"),
        (
            json!({"action": "approve", "scope": "session", "where": [{"path": "/text", "equals": "x"}]}),
            "body_invalid",
            "/where",
        ),
        (json!({"action": "approve", "edited_args": {"txt": 1}}), "args_invalid", "/edited_args"),
        (
            json!({"action": "approve", "requeue_override": true}),
            "body_invalid",
            "/requeue_override",
        ),
    ];
    for (body, code, pointer) in cases {
        let answer = post(&server, &boss, &path, &body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, code), "{body}");
        let faults = answer.json()["errors"].clone();
        let named = faults.as_array().unwrap().iter().filter_map(|fault| fault["pointer"].as_str());
        assert!(named.clone().any(|named| named.starts_with(pointer)), "{body}: {faults}");
    }
    let changed = json!({"action": "approve", "shown": format!("sha256:{}", "0".repeat(64))});
    let answer = post(&server, &boss, &path, &changed).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "hold_changed"));
    server.stop().await;
}

#[tokio::test]
async fn the_requeue_of_the_originals_does_what_it_says() {
    let server = server().await;
    let (agent, boss) = (key(&server, &["call"]).await, key(&server, &["approve"]).await);
    let first = held(&server, &agent, "first").await;
    let second = held(&server, &agent, "second").await;
    let third = held(&server, &agent, "third").await;
    let entries = get(&server, &boss, "/v1/requeue").await.json();
    let ids: Vec<_> = entries.as_array().unwrap().iter().map(|e| e["requeue_id"].clone()).collect();
    assert_eq!(ids, [json!(third), json!(second), json!(first)], "newest first");
    assert_eq!(entries[0]["tool_name"], "echo");
    assert!(entries[0]["timestamp"].as_f64().unwrap() > 1e9);

    let resolve = |id: &str| format!("/v1/requeue/{id}/resolve");
    let answer = post(&server, &boss, &resolve(&first), &json!({"allow": true})).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"status": "requeued"})));
    assert_eq!(ended(&server, &first).await["result"], json!({"message": "first"}));
    let answer = post(&server, &boss, &resolve(&second), &json!({"allow": false})).await;
    assert_eq!(answer.json(), json!({"status": "discarded"}));
    let gone =
        send(server.bare("DELETE", &format!("/v1/requeue/{third}")).bearer_auth(&boss)).await;
    assert_eq!(gone.json(), json!({"status": "deleted"}));
    assert_eq!(get(&server, &boss, "/v1/requeue").await.json(), json!([]));
    let missing = "/v1/requeue/019a8b7c-1234-7abc-8def-0123456789ab";
    let gone = send(server.bare("DELETE", missing).bearer_auth(&boss)).await;
    assert_eq!(gone.status, 404);

    let documents = format!("/v1/policy/requeue/{}/resolve", held(&server, &agent, "four").await);
    let denied = post(&server, &boss, &documents, &json!({"action": "deny", "reason": "no"})).await;
    assert_eq!((denied.status, denied.json()["state"].clone()), (200, json!("denied")));
    server.stop().await;
}

#[tokio::test]
async fn a_session_s_approval_can_be_seen_and_taken_back() {
    let server = server().await;
    let (agent, boss) = (key(&server, &["call"]).await, key(&server, &["approve"]).await);
    let id = held(&server, &agent, "hello").await;
    let body = json!({
        "action": "approve", "scope": "session", "uses": 5, "expires_in": "1h",
        "where": [{"path": "/text", "prefix": "hel"}],
    });
    post(&server, &boss, &format!("/v1/holds/{id}/resolve"), &body).await;
    ended(&server, &id).await;
    let call = json!({"tool": "echo", "args": {"text": "help"}, "session_id": "s-1"});
    assert_eq!(post(&server, &agent, "/v1/calls", &call).await.json()["state"], "finished");
    let listed = get(&server, &boss, "/v1/approvals?live=true&tool=echo").await.json();
    let approval = &listed["approvals"][0];
    assert_eq!((&approval["used"], &approval["terms"]["uses"]), (&json!(2), &json!(5)));
    assert_eq!(approval["state"], "standing");
    let summary = approval["terms"]["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("5 calls of session s-1, with /text begins with \"hel\""),
        "{summary}"
    );
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    let revoked = send(server.bare("DELETE", &path).bearer_auth(&boss)).await;
    assert_eq!(revoked.status, 204);
    assert_eq!(get(&server, &boss, &path).await.json()["state"], "revoked");
    assert_eq!(post(&server, &agent, "/v1/calls", &call).await.json()["state"], "held");
    assert_eq!(get(&server, &boss, "/v1/approvals?live=true").await.json()["approvals"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn what_a_key_asked_for_ends_with_the_key() {
    let server = server().await;
    let make = async |label: &str, scopes: &[&str]| {
        let body = json!({"label": label, "scopes": scopes, "person": label});
        let made = post(&server, &server.admin, "/v1/keys", &body).await.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("key_id"), text("secret"))
    };
    let (id, agent) = make("agent", &["call"]).await;
    let (_, other) = make("other", &["call"]).await;
    let (waits, control) = (held(&server, &agent, "x").await, held(&server, &other, "x").await);
    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.status, 204);
    let call = ended(&server, &waits).await;
    assert_eq!(
        (&call["state"], &call["reasons"][0]["rule"]),
        (&json!("denied"), &json!("key_revoked"))
    );
    let (_, boss) = make("boss", &["approve"]).await;
    let path = format!("/v1/holds/{control}/resolve");
    let (_, second) = make("other", &["approve"]).await;
    let own = post(&server, &second, &path, &json!({"action": "approve"})).await;
    assert_eq!((own.status, own.problem().as_str()), (403, "own_call"), "of the same person");
    post(&server, &boss, &path, &json!({"action": "approve"})).await;
    assert_eq!(ended(&server, &control).await["state"], "finished");
    server.stop().await;
}
