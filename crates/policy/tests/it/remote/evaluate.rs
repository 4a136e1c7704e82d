//! Engine in the style of SomaAgentHub, written for these tests from its description: rules are words
//! that a prompt must not contain.

use ringfence_policy::{Engine, Evaluate, Trouble, contract, contract::document};
use ringfence_testkit::HttpServer;
use ringfence_types::{Digest, Verdict};
use serde_json::{Value, json};

use super::remote;

/// Rules of tenant `acme`: name, word and weight. Other tenants have none.
const RULES: &[(&str, &str, f64)] =
    &[("no_deletion", "rm -rf", 0.6), ("no_secrets", "password", 0.35)];

fn evaluation(asked: &Value) -> Option<Value> {
    let text = |name: &str| asked[name].as_str();
    let (tenant, prompt) = (text("tenant")?, text("prompt")?.to_lowercase());
    if ["session_id", "user", "role"].iter().any(|name| text(name).is_none()) {
        return None;
    }
    let broken = RULES.iter().filter(|(_, word, _)| tenant == "acme" && prompt.contains(word));
    let broken: Vec<_> = broken.collect();
    let weight: f64 = broken.iter().map(|(_, _, weight)| weight).sum();
    let policy: Vec<_> = broken
        .iter()
        .map(|(name, word, weight)| {
            json!({"name": name, "pattern": word, "weight": weight, "severity": "medium",
                   "description": format!("`{word}` is not allowed"), "excerpt": word})
        })
        .collect();
    Some(json!({
        "allowed": policy.is_empty(), "score": (1.0 - weight).max(0.0), "severity": "low",
        "reasons": {"constitution_hash": "c0ffee", "policy": policy},
    }))
}

fn engine() -> (HttpServer, Evaluate) {
    let server = HttpServer::open(|path, body| {
        let asked = serde_json::from_str(body).unwrap_or_default();
        match (path, evaluation(&asked)) {
            ("/v1/evaluate", Some(said)) => (200, said.to_string()),
            _ => (422, "{}".to_owned()),
        }
    });
    let server = server.expect("an engine");
    let engine = Evaluate::open(remote("evaluate", &server.url())).expect("a client");
    (server, engine)
}

#[tokio::test]
async fn an_engine_of_words_keeps_the_contract() {
    let (_door, engine) = engine();
    contract::run(&engine).await;
}

#[tokio::test]
async fn arguments_with_forbidden_words_are_denied_by_the_rule_that_forbids_them() {
    let (_door, engine) = engine();
    let answer = engine.evaluate(&document(&[], r#"{"cmd":"RM -RF /"}"#)).await.expect("an answer");
    assert_eq!(answer.verdict, Verdict::Deny);
    assert_eq!(answer.reasons[0].rule, "no_deletion");
    assert_eq!(answer.reasons[0].message, "`rm -rf` is not allowed");
    assert_eq!(answer.policy, Digest::of(b"c0ffee"));
    let mut other = document(&[], r#"{"cmd":"rm -rf /"}"#);
    other.tenant = "other".parse().expect("a tenant");
    assert_eq!(engine.evaluate(&other).await.expect("an answer").verdict, Verdict::Allow);
    let plain = engine.evaluate(&document(&[], r#"{"cmd":"ls"}"#)).await.expect("an answer");
    assert_eq!(plain.verdict, Verdict::Allow);
}

#[tokio::test]
async fn a_decision_beside_the_original_fields_is_kept_whole_and_must_agree() {
    let server = HttpServer::open(|_, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        (200, asked["context"]["args"].to_string())
    });
    let server = server.expect("an engine");
    let engine = Evaluate::open(remote("evaluate", &server.url())).expect("a client");
    for (answer, expected) in [
        (r#"{"allowed":false,"decision":"hold"}"#, Ok(Verdict::Hold)),
        (
            r#"{"allowed":false,"decision":{"id":7,"decision":"hold","reasons":[],
                "obligations":{},"engine":"rego","policy":"x"}}"#,
            Ok(Verdict::Hold),
        ),
        (r#"{"allowed":false,"decision":{"decision":"hold","if":1}}"#, Err(Trouble::Malformed)),
        (r#"{"allowed":true,"decision":"hold"}"#, Err(Trouble::Malformed)),
        (r#"{"allowed":true,"obligations":{"pray":true}}"#, Err(Trouble::Malformed)),
        (r#"{"allowed":1}"#, Err(Trouble::Malformed)),
        (r#"{"score":1}"#, Err(Trouble::Malformed)),
    ] {
        let said = engine.evaluate(&document(&[], answer)).await;
        let said = said.map(|said| said.verdict).map_err(|unavailable| unavailable.trouble);
        assert_eq!(said, expected, "{answer}");
    }
}
