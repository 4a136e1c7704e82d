//! Making, listing and revoking keys.

use std::time::Duration;

use ringfence_access::Secret;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Server, send, with_json, within};

async fn create(server: &Server, by: &str, body: &Value) -> crate::support::Answer {
    send(with_json(server.bare("POST", "/v1/keys").bearer_auth(by), body)).await
}

async fn works(server: &Server, secret: &str) -> u16 {
    send(server.bare("GET", "/v1/tools").bearer_auth(secret)).await.status
}

#[tokio::test]
async fn a_key_is_made_used_listed_and_revoked_at_once() {
    let server = Server::start().await;
    let body = json!({"label": "reader", "scopes": ["read", "read"], "tenant": "acme", "person": "Ann@Ours"});
    let made = create(&server, &server.admin, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let key = made.json();
    let secret = key["secret"].as_str().unwrap();
    assert_eq!((key["scopes"].clone(), key["tenant"].clone()), (json!(["read"]), json!("acme")));
    assert_eq!(key["person"], "ann@ours", "one spelling of a person");
    assert!(secret.starts_with(key["prefix"].as_str().unwrap()));
    assert_eq!(secret.len(), 46);
    assert_eq!(works(&server, secret).await, 200);
    let list = server.get("/v1/keys?tenant=acme").await;
    assert_eq!(list.json()["count"], 1);
    assert!(!String::from_utf8(list.bytes).unwrap().contains(secret));
    let path = format!("/v1/keys/{}", key["key_id"].as_str().unwrap());
    assert_eq!(server.delete(&path).await.status, 204);
    let refused = send(server.bare("GET", "/v1/tools").bearer_auth(secret)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (401, "key_revoked"));
    assert_eq!(server.delete(&path).await.status, 204);
    assert_eq!(server.get("/v1/keys?tenant=acme").await.json()["keys"][0]["revoked"], true);
    server.stop().await;
}

#[tokio::test]
async fn a_key_ends_by_itself() {
    let server = Server::start().await;
    let end = server.engine.clock().now().after(Duration::from_millis(300));
    let body = json!({"label": "short", "scopes": ["read"], "expires_at": end});
    let made = create(&server, &server.admin, &body).await.json();
    let secret = made["secret"].as_str().unwrap();
    within("the key to end", async {
        loop {
            let answer = send(server.bare("GET", "/v1/tools").bearer_auth(secret)).await;
            if answer.status == 401 {
                assert_eq!(answer.problem(), "key_expired");
                let listed = server.get("/v1/keys").await.json();
                let keys = listed["keys"].as_array().unwrap().iter();
                let expired: Vec<_> =
                    keys.map(|key| (key["label"] == "short", key["expired"].clone())).collect();
                assert_eq!(expired, [(false, json!(false)), (true, json!(true))]);
                assert!(server.engine.clock().now() >= end);
                break;
            }
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn every_fault_of_a_key_is_named() {
    let server = Server::start().await;
    let body = json!({
        "label": "", "scopes": [], "tenant": "a b", "persona_id": "", "x": 1,
        "expires_at": "2001-01-01T00:00:00Z",
    });
    let answer = create(&server, &server.admin, &body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "body_invalid"));
    let expected = ["/label", "/scopes", "/tenant", "/persona_id", "/expires_at", "/x"];
    assert_eq!(answer.pointers(), expected);
    server.stop().await;
}

#[tokio::test]
async fn an_admin_of_a_tenant_stays_within_it() {
    let server = Server::start().await;
    let admin = server.key("acme", &[Scope::Admin]).await;
    let body = json!({"label": "x", "scopes": ["read"]});
    let made = create(&server, &admin, &body).await;
    assert_eq!((made.status, &made.json()["tenant"]), (201, &json!("acme")));
    let body = json!({"label": "x", "scopes": ["read"], "tenant": "default"});
    let refused = create(&server, &admin, &body).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
    let refused = send(server.bare("GET", "/v1/keys?tenant=default").bearer_auth(&admin)).await;
    assert_eq!(refused.problem(), "operator_required");
    server.stop().await;
}

#[tokio::test]
async fn a_key_for_one_persona_makes_no_key_for_another() {
    let server = Server::start().await;
    let body = json!({"label": "x", "scopes": ["admin"], "persona_id": "p"});
    let made = create(&server, &server.admin, &body).await.json();
    let bound = made["secret"].as_str().unwrap();
    for body in [
        json!({"label": "x", "scopes": ["call"]}),
        json!({"label": "x", "scopes": ["call"], "persona_id": "q"}),
    ] {
        assert_eq!(create(&server, bound, &body).await.problem(), "persona_foreign");
    }
    let body = json!({"label": "x", "scopes": ["call"], "persona_id": "p"});
    assert_eq!(create(&server, bound, &body).await.status, 201);
    let call = json!({"tool": "echo", "args": {"text": ""}, "persona_id": "q"});
    let answer = send(with_json(server.bare("POST", "/v1/calls").bearer_auth(bound), &call)).await;
    assert_eq!(answer.problem(), "persona_foreign");
    server.stop().await;
}

#[tokio::test]
async fn the_last_key_that_makes_keys_cannot_be_revoked() {
    let server = Server::start().await;
    let own = server.get("/v1/keys").await.json()["keys"][0]["key_id"].as_str().unwrap().to_owned();
    let refused = server.delete(&format!("/v1/keys/{own}")).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "last_admin_key"));
    let other = server.key("default", &[Scope::Admin]).await;
    assert_eq!(server.delete(&format!("/v1/keys/{own}")).await.status, 204);
    assert_eq!(works(&server, &server.admin).await, 401);
    assert_eq!(works(&server, &other).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn the_first_admin_key_is_made_once() {
    let server = Server::start().await;
    let (store, clock) = (server.store.clone(), server.engine.clock());
    let unwanted = |_: &Secret| panic!("there is nothing to keep");
    let again = server.engine.access().ensure_admin_key(unwanted).await.unwrap();
    assert!(again.is_none(), "there is one already");
    let keys = store.keys(None).await.unwrap();
    let entry = ringfence_ledger::Entry::approval(
        ringfence_types::About::server(clock.now()),
        &"revoked behind the door",
    );
    let entry = server.ledger.signing_guard().await.seal(entry).unwrap();
    let (key, at) = (keys[0].id, clock.now());
    let revocation = ringfence_store::Revocation { key, tenant: None, at, keeps_admin_of: None };
    store.revoke_key(revocation, entry).await.unwrap();
    // A key whose answer could not be sent is not made: its secret would be lost.
    let count = store.keys(None).await.unwrap().len();
    let full = |_: &Secret| Err(std::io::Error::other("the disk is full"));
    let failed = server.engine.access().ensure_admin_key(full).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(store.keys(None).await.unwrap().len(), count);
    let mut kept = String::new();
    let keep = |secret: &Secret| {
        secret.reveal().clone_into(&mut kept);
        Ok(())
    };
    let made = server.engine.access().ensure_admin_key(keep).await.unwrap();
    assert_eq!(works(&server, made.unwrap().secret.reveal()).await, 200);
    assert_eq!(works(&server, &kept).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn the_last_use_of_a_key_is_noted_when_the_server_stops() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/tools").await.status, 200);
    let store = server.store.clone();
    assert!(
        store.keys(None).await.unwrap()[0].last_used_at.is_none(),
        "not on the way of a request"
    );
    server.stop().await;
    assert!(store.keys(None).await.unwrap()[0].last_used_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_admins_that_revoke_each_other_one_stays() {
    let server = Server::start().await;
    let revoke = async |by: &str, which: &str| {
        let listed = send(server.bare("GET", "/v1/keys").bearer_auth(by)).await.json();
        let keys = listed["keys"].as_array().cloned().unwrap_or_default();
        let key = keys.iter().find(|key| which.starts_with(key["prefix"].as_str().unwrap()));
        let Some(id) = key.and_then(|key| key["key_id"].as_str()) else { return 401 };
        send(server.bare("DELETE", &format!("/v1/keys/{id}")).bearer_auth(by)).await.status
    };
    let mut last = server.admin.clone();
    for _ in 0..20 {
        let one = server.key("default", &[Scope::Admin]).await;
        let two = server.key("default", &[Scope::Admin]).await;
        assert_eq!(revoke(&one, &last).await, 204);
        let ended = tokio::join!(revoke(&one, &two), revoke(&two, &one));
        assert_ne!(ended, (204, 204), "no admin key would be left");
        last = if works(&server, &one).await == 200 { one } else { two };
        assert_eq!(works(&server, &last).await, 200, "{ended:?}");
    }
    server.stop().await;
}
