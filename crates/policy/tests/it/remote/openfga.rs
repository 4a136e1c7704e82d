//! Real OpenFGA server.

use ringfence_policy::{Engine, OpenFga, OpenFgaConfig, Trouble, contract, contract::document};
use ringfence_testkit::{OpenFga as Server, RELATIONS, server};
use ringfence_types::Verdict;

use super::remote;

fn serving(test: &str) -> Option<Server> {
    let program = server::OPENFGA.program_or_skip(test)?;
    Some(Server::start(&program, RELATIONS).expect("OpenFGA serves"))
}

fn config(server: &Server) -> OpenFgaConfig {
    let remote = remote("openfga", &server.url());
    OpenFgaConfig::usual(remote, server.store.clone(), server.model.clone())
}

/// Verdict about a call of `echo` on behalf of this persona.
async fn verdict(engine: &OpenFga, persona: Option<&str>) -> Verdict {
    let mut input = document(&[], "{}");
    input.persona_id = persona.map(|name| name.parse().expect("a persona"));
    engine.evaluate(&input).await.expect("an answer").verdict
}

#[tokio::test]
async fn openfga_keeps_the_contract() {
    let Some(server) = serving("openfga_keeps_the_contract") else { return };
    let engine = OpenFga::open(config(&server)).expect("a client");
    contract::run(&engine).await;
    server.relate("tenant:acme#member", "can_call", "tool:echo").expect("a relation");
    contract::run(&engine).await;
}

#[tokio::test]
async fn a_key_may_by_itself_by_its_tenant_or_by_its_persona_and_no_longer_than_that() {
    let test = "a_key_may_by_itself_by_its_tenant_or_by_its_persona_and_no_longer_than_that";
    let Some(server) = serving(test) else { return };
    let engine = OpenFga::open(config(&server)).expect("a client");
    let key = "key:019a8b7c-1234-7abc-8def-000000000001";
    for user in [key, "tenant:acme#member", "persona:anne#actor"] {
        assert_eq!(verdict(&engine, Some("anne")).await, Verdict::Deny, "{user} before");
        server.relate(user, "can_call", "tool:echo").expect("a relation");
        assert_eq!(verdict(&engine, Some("anne")).await, Verdict::Allow, "{user}");
        server.unrelate(user, "can_call", "tool:echo").expect("no relation");
        assert_eq!(verdict(&engine, Some("anne")).await, Verdict::Deny, "{user} after");
    }
    for other in ["key:other", "tenant:other#member", "persona:bob#actor"] {
        server.relate(other, "can_call", "tool:echo").expect("a relation");
        assert_eq!(verdict(&engine, Some("anne")).await, Verdict::Deny, "{other}");
    }
}

#[tokio::test]
async fn a_name_cannot_pass_for_another() {
    let Some(server) = serving("a_name_cannot_pass_for_another") else { return };
    let engine = OpenFga::open(config(&server)).expect("a client");
    server.relate("persona:anne#actor", "can_call", "tool:echo").expect("a relation");
    for name in ["*", "anne#actor", "anne%", "persona:anne", "Anne"] {
        assert_eq!(verdict(&engine, Some(name)).await, Verdict::Deny, "{name}");
    }
    assert_eq!(verdict(&engine, None).await, Verdict::Deny);
    // Control: the name itself.
    assert_eq!(verdict(&engine, Some("anne")).await, Verdict::Allow);
}

#[tokio::test]
async fn a_model_that_is_not_there_is_no_answer() {
    let Some(server) = serving("a_model_that_is_not_there_is_no_answer") else { return };
    server.relate("tenant:acme#member", "can_call", "tool:echo").expect("a relation");
    let wrong = OpenFgaConfig { model: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(), ..config(&server) };
    let engine = OpenFga::open(wrong).expect("a client");
    let said = engine.evaluate(&document(&[], "{}")).await;
    assert_eq!(said.expect_err("no answer").trouble, Trouble::Failed);
    // Control: an existing model.
    let engine = OpenFga::open(config(&server)).expect("a client");
    assert_eq!(verdict(&engine, None).await, Verdict::Allow);
}
