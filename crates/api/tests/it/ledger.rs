//! The ledger over HTTP: what commits to everything, what proves something, and what stays private.

use base64::Engine as _;
use ringfence_ledger::{Bundle, Checkpoint, Envelope, Note, PublicKey, merkle};
use ringfence_types::{Digest, Scope};
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json};

async fn get_as(server: &Server, key: &str, path: &str) -> Answer {
    send(server.bare("GET", path).bearer_auth(key)).await
}

async fn called(server: &Server, key: &str, body: Value) -> String {
    let request = server.bare("POST", "/v1/calls").bearer_auth(key);
    let answer = send(with_json(request, &body)).await;
    answer.json()["id"].as_str().expect("a call").to_owned()
}

fn digest(text: &Value) -> Digest {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap());
    Digest::from_bytes(bytes.unwrap().try_into().unwrap())
}

#[tokio::test]
async fn a_call_is_proved_by_what_the_server_serves() {
    let server = Server::start().await;
    let id = called(&server, &server.admin, json!({"tool": "echo", "args": {"text": "hi"}})).await;
    let file = server.get(&format!("/v1/calls/{id}/proof?artifacts=true")).await;
    assert_eq!(file.status, 200, "{file:?}");
    let keys = server.get("/v1/ledger/keys").await.json();
    let public = PublicKey::parse(keys["keys"][0]["pem"].as_str().unwrap()).unwrap();
    assert_eq!(keys["keys"][0]["keyid"], public.id().hex());
    let verified = Bundle::verify(&file.bytes, Some(public.id())).expect("it holds");
    assert_eq!(verified.entries.last().unwrap().about.call.unwrap().to_string(), id);
    assert_eq!(verified.checkpoint.origin, keys["origin"]);
    let mut bad = file.bytes.clone();
    bad[file.bytes.len() / 2] ^= 1;
    Bundle::verify(&bad, None).expect_err("the control: another byte does not hold");
    server.stop().await;
}

/// Every call of `echo` with this text comes to another end.
const ENDS: &str = r#"
package ringfence

decision := {"decision": "deny", "reasons": [{"rule": "no", "message": "no"}]} if {
    input.args.text == "denied"
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask"}]} if {
    input.args.text != "finished"
} else := {"decision": "allow", "reasons": []}
"#;

#[tokio::test]
async fn a_receipt_is_given_as_it_was_signed_also_of_calls_that_never_ran() {
    let bundle = ringfence_policy::Bundle::from_files([("ends.rego", ENDS)]).unwrap();
    let server = Server::of(Plan::default().bundle(&bundle)).await;
    let keys = server.get("/v1/ledger/keys").await.json();
    let public = PublicKey::parse(keys["keys"][0]["pem"].as_str().unwrap()).unwrap();
    for state in ["finished", "denied", "cancelled"] {
        let call = json!({"tool": "echo", "args": {"text": state}});
        let path = format!("/v1/calls/{}", called(&server, &server.admin, call).await);
        if state == "cancelled" {
            let early = server.get(&format!("{path}/receipt?format=dsse")).await;
            assert_eq!((early.status, early.problem().as_str()), (409, "not_finished"));
            assert_eq!(server.delete(&path).await.status, 200);
        }
        let path = format!("{path}/receipt");
        let asked = server.request("GET", &path).header("accept", format!("text/plain, {DSSE}"));
        let envelope = send(asked).await;
        assert_eq!((envelope.status, envelope.header("content-type")), (200, Some(DSSE)));
        let by_query = server.get(&format!("{path}?format=dsse")).await;
        assert_eq!(by_query.bytes, envelope.bytes, "one form, whenever it is signed");
        let receipt = server.get(&path).await;
        assert_eq!(receipt.header("content-type"), Some("application/json"));
        let signed = Envelope::parse(str::from_utf8(&envelope.bytes).unwrap()).expect("DSSE");
        assert!(signed.is_signed_by(&public), "{state}");
        let statement: Value = serde_json::from_str(&signed.payload).unwrap();
        assert_eq!(statement["predicate"], receipt.json());
        assert_eq!(receipt.json()["state"], state);
        // The control: another payload was not signed.
        let payload = signed.payload.replace(state, "running");
        assert!(!Envelope { payload, ..signed }.is_signed_by(&public));
    }
    server.stop().await;
}

const DSSE: &str = "application/vnd.dsse.envelope.v1+json";

#[tokio::test]
async fn a_signed_receipt_is_its_tenants_alone() {
    let server = Server::start().await;
    let own = server.key("acme", &[Scope::Call, Scope::Read]).await;
    let other = server.key("other", &[Scope::Read]).await;
    let id = called(&server, &own, json!({"tool": "echo", "args": {"text": "hi"}})).await;
    let path = format!("/v1/calls/{id}/receipt?format=dsse");
    assert_eq!(get_as(&server, &own, &path).await.status, 200);
    assert_eq!(get_as(&server, &other, &path).await.status, 404);
    let wrong = get_as(&server, &own, &format!("/v1/calls/{id}/receipt?format=xml")).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (400, "query_invalid"));
    server.stop().await;
}

#[tokio::test]
async fn a_checkpoint_its_tiles_and_an_older_one_agree() {
    let server = Server::start().await;
    let newest = async || {
        let text = server.get("/v1/ledger/checkpoint").await;
        let note = Note::parse(str::from_utf8(&text.bytes).unwrap()).expect("a signed note");
        Checkpoint::of(&note).expect("a checkpoint")
    };
    let id = called(&server, &server.admin, json!({"tool": "echo", "args": {"text": "hi"}})).await;
    // Its proof waits for a checkpoint that covers it.
    server.get(&format!("/v1/calls/{id}/proof")).await;
    let old = newest().await;
    let id = called(&server, &server.admin, json!({"tool": "echo", "args": {"text": "ho"}})).await;
    server.get(&format!("/v1/calls/{id}/proof")).await;
    let new = newest().await;
    assert!(new.size > old.size);
    let proof = server.get(&format!("/v1/ledger/consistency?from={}", old.size)).await.json();
    let hashes: Vec<_> = proof["proof"].as_array().unwrap().iter().map(digest).collect();
    let pair = |checkpoint: &Checkpoint| (checkpoint.size, checkpoint.root);
    merkle::verify_consistency(pair(&old), pair(&new), &hashes).expect("it only grew");
    let tile = server.get(&format!("/v1/ledger/tile/0/000.p/{}", new.size)).await;
    let leaves: Vec<_> =
        tile.bytes.as_chunks::<32>().0.iter().copied().map(Digest::from_bytes).collect();
    let mut tree = merkle::Builder::default();
    leaves.into_iter().for_each(|leaf| tree.push(leaf, |_| {}));
    assert_eq!((tree.size(), tree.root()), pair(&new));
    for missing in ["0/000", "0/000.p/256", "1/000.p/1", "0/0", "x/000", "entries/000", "0/x"] {
        let answer = server.get(&format!("/v1/ledger/tile/{missing}")).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"), "{missing}");
    }
    for (query, code) in [
        ("", "query_invalid"),
        ("?from=0", "query_invalid"),
        ("?from=x", "query_invalid"),
        ("?from=999999", "not_found"),
    ] {
        let answer = server.get(&format!("/v1/ledger/consistency{query}")).await;
        assert_eq!(answer.problem(), code, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_audit_finds_what_it_is_asked_for_page_by_page_and_line_by_line() {
    let server = Server::start().await;
    let say = |session: &str| json!({"tool": "echo", "args": {"text": "x"}, "session_id": session, "persona_id": "p"});
    for session in ["one", "one", "two"] {
        called(&server, &server.admin, say(session)).await;
    }
    let found = async |query: &str| {
        let page = server.get(&format!("/v1/audit{query}")).await.json();
        page["entries"].as_array().unwrap_or_else(|| panic!("{page}")).len()
    };
    assert_eq!(found("?kind=call").await, 3);
    assert_eq!(found("?session_id=one").await, 2);
    assert_eq!(found("?persona_id=p&tool=echo").await, 3);
    assert_eq!(found("?kind=checkpoint-key").await, 1);
    assert_eq!(found("?kind=key").await, 1, "the key of this test");
    assert_eq!(found("?since=2999-01-01T00:00:00Z").await, 0);
    assert_eq!(found("?kind=call&until=2999-01-01T00:00:00Z").await, 3);
    let first = server.get("/v1/audit?kind=call&limit=2").await.json();
    let next = first["next_cursor"].as_str().expect("there is more");
    assert_eq!(found(&format!("?kind=call&limit=2&cursor={next}")).await, 1);
    let statement = &first["entries"][0]["statement"];
    assert_eq!(statement["predicateType"], "https://ringfence.dev/attestation/call/v1");
    assert_eq!(statement["predicate"]["tool"]["name"], "echo");
    for bad in ["?kind=x", "?limit=0", "?since=monday", "?cursor=x", "?call_id=1", "?what=1"] {
        assert_eq!(
            server.get(&format!("/v1/audit{bad}")).await.problem(),
            "query_invalid",
            "{bad}"
        );
    }
    let lines =
        send(server.request("GET", "/v1/audit?kind=call").header("accept", "application/x-ndjson"))
            .await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let text = String::from_utf8(lines.bytes).unwrap();
    let kinds =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["call", "call", "call"]);
    server.stop().await;
}

#[tokio::test]
async fn what_an_entry_says_is_its_tenant_s_alone() {
    let server = Server::start().await;
    let theirs = server.key("other", &[Scope::Call, Scope::Read]).await;
    let body = json!({"tool": "echo", "args": {"text": "secret"}, "session_id": "s"});
    let id = called(&server, &theirs, body).await;
    for path in [format!("/v1/calls/{id}/proof"), "/v1/sessions/s/proof".to_owned()] {
        let answer = server.get(&path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"), "{path}");
        assert_eq!(get_as(&server, &theirs, &path).await.status, 200, "the control: {path}");
    }
    let count = async |key: &str, query: &str| {
        let page = get_as(&server, key, &format!("/v1/audit?{query}")).await.json();
        page["entries"].as_array().unwrap().len()
    };
    for query in [format!("call_id={id}"), "session_id=s".to_owned(), "kind=call".to_owned()] {
        assert_eq!(count(&server.admin, &query).await, 0, "{query}");
        assert_eq!(count(&theirs, &query).await, 1, "the control: {query}");
    }
    assert_eq!(count(&theirs, "kind=checkpoint-key").await, 1, "the server's are visible to all");
    server.stop().await;
}

#[tokio::test]
async fn keys_that_come_and_go_and_skills_too_are_on_the_ledger() {
    let server = Server::start().await;
    let body = json!({"label": "mine", "scopes": ["read"]});
    let made = server.post("/v1/keys", &body).await.json();
    let id = made["key_id"].as_str().unwrap();
    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.status, 204);
    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.status, 204, "again");
    let page = server.get("/v1/audit?kind=key").await.json();
    let said = |entry: &Value| entry["statement"]["predicate"]["said"].clone();
    let events: Vec<_> = page["entries"].as_array().unwrap().iter().map(said).collect();
    let of_it = events.iter().filter(|said| said["key"] == id).map(|said| &said["event"]);
    assert_eq!(of_it.collect::<Vec<_>>(), ["created", "revoked"]);
    assert!(!page.to_string().contains(made["secret"].as_str().unwrap()), "no secret");
    server.stop().await;
}
