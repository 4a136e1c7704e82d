//! AuthZEN decision point, written for these tests from the specification, with the rules in a real
//! OPA behind it.

use ringfence_policy::{AuthZen, Bundle, Engine, Rego, Trouble, contract, contract::document};
use ringfence_testkit::{HttpServer, Opa as Server, post, server};
use ringfence_types::{Json, Verdict};
use serde_json::{Value, json};

use super::{BUILT_IN, remote};

/// Decision point that answers with a boolean and a context with the whole decision.
fn decision_point(opa: &Server) -> HttpServer {
    let address = opa.address();
    HttpServer::open(move |path, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let names = ["subject", "action", "resource"].map(|name| asked[name].is_object());
        if path != "/access/v1/evaluation" || names.contains(&false) {
            return (400, json!("not an evaluation").to_string());
        }
        assert_eq!(asked["subject"]["type"], "key");
        assert_eq!(asked["action"]["name"], asked["context"]["action"]);
        assert_eq!(asked["resource"]["id"], asked["context"]["tool"]["name"]);
        let said =
            post(address, "/v1/data/ringfence/decision", &json!({"input": asked["context"]}));
        let said = said.expect("OPA answers").json();
        let context = said["result"].clone();
        let decision = context["decision"] == "allow";
        (200, json!({"decision": decision, "context": context}).to_string())
    })
    .expect("a decision point")
}

#[tokio::test]
async fn an_authzen_decision_point_keeps_the_contract() {
    let test = "an_authzen_decision_point_keeps_the_contract";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let opa = Server::start(&program, "1", &[("rules.rego", BUILT_IN)]).expect("OPA serves");
    let point = decision_point(&opa);
    let engine = AuthZen::open(remote("authzen", &point.url())).expect("a client");
    contract::run(&engine).await;
    let rego = Rego::load(&Bundle::built_in()).expect("rules");
    for input in contract::documents() {
        let (one, other) = (engine.evaluate(&input).await, rego.evaluate(&input).await);
        let (one, other) = (one.expect("an answer"), other.expect("an answer"));
        assert_eq!((one.verdict, one.reasons), (other.verdict, other.reasons));
    }
}

#[tokio::test]
async fn what_a_decision_point_says_is_understood_whole_or_not_at_all() {
    // Echoes the decision in the arguments: this is about reading answers, not about rules.
    let point = HttpServer::open(|_, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        (200, asked["context"]["args"].to_string())
    });
    let point = point.expect("a decision point");
    let engine = AuthZen::open(remote("authzen", &point.url())).expect("a client");
    let hold = json!({"decision": false, "context": {"decision": "hold"}});
    for (answer, expected) in [
        (json!({"decision": true}), Ok(Verdict::Allow)),
        (json!({"decision": false}), Ok(Verdict::Deny)),
        (json!({"decision": false, "context": {"reason_user": {"en": "no"}}}), Ok(Verdict::Deny)),
        (hold, Ok(Verdict::Hold)),
        (json!({"decision": true, "context": {"decision": "deny"}}), Err(Trouble::Malformed)),
        (json!({"decision": false, "context": {"decision": "allow"}}), Err(Trouble::Malformed)),
        (json!({"decision": true, "context": {"mfa_required": true}}), Err(Trouble::Malformed)),
        (json!({"decision": true, "context": {"obligations": ["x"]}}), Err(Trouble::Malformed)),
        (json!({"decision": true, "expires": 1}), Err(Trouble::Malformed)),
        (json!({"decision": "true"}), Err(Trouble::Malformed)),
        (json!({}), Err(Trouble::Malformed)),
    ] {
        let mut input = document(&[], "{}");
        input.args = Json::from_value(&answer).expect("arguments");
        let said = engine.evaluate(&input).await;
        let said = said.map(|said| said.verdict).map_err(|unavailable| unavailable.trouble);
        assert_eq!(said, expected, "{answer}");
    }
}
