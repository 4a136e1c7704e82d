//! Real OPA server.

use ringfence_policy::{
    Bundle, Engine, Opa, OpaConfig, POLICY_UNAVAILABLE, Rego, Shape, Trouble, Undefined, contract,
    contract::document, decide,
};
use ringfence_testkit::{Opa as Server, server};
use ringfence_types::{Json, Verdict};

use super::{BUILT_IN, opa};

fn serving(test: &str, rules: &str) -> Option<Server> {
    let program = server::OPA.program_or_skip(test)?;
    Some(Server::start(&program, "1", &[("rules.rego", rules)]).expect("OPA serves"))
}

fn engine(server: &Server) -> Opa {
    Opa::open(opa(&server.url())).expect("a client")
}

#[tokio::test]
async fn opa_keeps_the_contract() {
    let Some(server) = serving("opa_keeps_the_contract", BUILT_IN) else { return };
    contract::run(&engine(&server)).await;
}

#[tokio::test]
async fn opa_and_the_embedded_rules_say_the_same() {
    let Some(server) = serving("opa_and_the_embedded_rules_say_the_same", BUILT_IN) else { return };
    let (opa, rego) = (engine(&server), Rego::load(&Bundle::built_in()).expect("rules"));
    for input in contract::documents() {
        let (one, other) = (opa.evaluate(&input).await, rego.evaluate(&input).await);
        let (one, mut other) = (one.expect("an answer"), other.expect("an answer"));
        other.policy = one.policy;
        assert_eq!(one, other, "{:?}", input.tool.safety_flags);
    }
}

#[tokio::test]
async fn what_is_undefined_is_denied_or_left_to_others_as_configured() {
    let test = "what_is_undefined_is_denied_or_left_to_others_as_configured";
    let rules = "package ringfence\ndecision := true if input.args.yes";
    let Some(server) = serving(test, rules) else { return };
    let input = document(&[], "{}");
    let answer = engine(&server).evaluate(&input).await.expect("an answer");
    assert_eq!((answer.verdict, answer.reasons[0].rule.as_str()), (Verdict::Deny, "undefined"));
    // A missing rule is undefined too.
    let missing = OpaConfig { path: "/v1/data/no/such".to_owned(), ..opa(&server.url()) };
    let answer = Opa::open(missing).expect("a client").evaluate(&input).await;
    assert_eq!(answer.expect("an answer").verdict, Verdict::Deny);
    let abstain = OpaConfig { undefined: Undefined::Abstain, ..opa(&server.url()) };
    let said = Opa::open(abstain).expect("a client").evaluate(&input).await;
    assert_eq!(said.expect_err("no opinion").trouble, Trouble::Abstained);
    // Control: the same rule, defined.
    let yes = engine(&server).evaluate(&document(&[], r#"{"yes":true}"#)).await;
    assert_eq!(yes.expect("an answer").verdict, Verdict::Allow);
}

#[tokio::test]
async fn whatever_is_no_decision_holds_the_call() {
    let rules = r#"package ringfence
        decision := true if input.args.say == "true"
        decision := {"allow": true} if input.args.say == "object"
        decision := {"decision": "hold"} if input.args.say == "hold"
        decision := {"decision": "abstain"} if input.args.say == "abstain"
        decision := null if input.args.say == "null"
        decision := "allow" if input.args.say == "text"
        decision := {"decision": "allow", "audit": true} if input.args.say == "condition"
        decision := {"decision": "allow", "reasons": [{"rule": "r", "message": m}]} if {
            input.args.say == "long"
            m := concat("", [input.args.x | some i in numbers.range(1, 300)])
        }
        decision := true if input.args.say == "conflict"
        decision := false if input.args.say == "conflict"
    "#;
    let Some(server) = serving("whatever_is_no_decision_holds_the_call", rules) else { return };
    let engine = engine(&server);
    for (say, verdict, trouble) in [
        ("true", Verdict::Allow, None),
        ("object", Verdict::Allow, None),
        ("hold", Verdict::Hold, None),
        ("abstain", Verdict::Hold, Some(Trouble::Abstained)),
        ("null", Verdict::Hold, Some(Trouble::Malformed)),
        ("text", Verdict::Hold, Some(Trouble::Malformed)),
        ("condition", Verdict::Hold, Some(Trouble::Malformed)),
        ("long", Verdict::Hold, Some(Trouble::Malformed)),
        ("conflict", Verdict::Hold, Some(Trouble::Failed)),
        ("true", Verdict::Allow, None),
    ] {
        let mut input = document(&[], "{}");
        let args = format!(r#"{{"say":"{say}","x":"{}"}}"#, "x".repeat(1000));
        input.args = Json::parse(args.as_bytes()).expect("arguments");
        let found = engine.evaluate(&input).await.err().map(|unavailable| unavailable.trouble);
        assert_eq!(found, trouble, "{say}");
        let decided = decide(&engine, &input).await;
        assert_eq!(decided.decision().verdict, verdict, "{say}");
        let is_parked = decided.decision().reasons.iter().any(|r| r.rule == POLICY_UNAVAILABLE);
        assert_eq!(is_parked, trouble.is_some(), "{say}");
    }
}

#[tokio::test]
async fn the_revision_is_that_of_the_bundles_and_a_new_one_ticks() {
    let test = "the_revision_is_that_of_the_bundles_and_a_new_one_ticks";
    let rules = "package ringfence\ndecision := false";
    let Some(server) = serving(test, rules) else { return };
    let engine = engine(&server);
    let mut changed = engine.changed();
    let input = document(&[], "{}");
    let first = engine.evaluate(&input).await.expect("an answer");
    assert_eq!((first.verdict, first.policy), (Verdict::Deny, engine.revision()));
    // The first revision counts as a change too.
    changed.changed().await.expect("it lives");
    let rules = [("rules.rego", "package ringfence\ndecision := true")];
    server.rewrite("2", &rules).expect("other rules");
    super::super::until("OPA has the other rules", async || {
        let answer = engine.evaluate(&input).await;
        answer.is_ok_and(|answer| answer.verdict == Verdict::Allow && answer.policy != first.policy)
    })
    .await;
    changed.changed().await.expect("it lives");
}

#[tokio::test]
async fn rules_of_the_originals_are_asked_in_their_own_words() {
    let test = "rules_of_the_originals_are_asked_in_their_own_words";
    let rules = r#"package soma
        allow if {
            input.action == "tool.execute"
            input.resource == "echo"
            input.tenant == "acme"
            input.context.args.text == "hello"
            not input.tool
        }"#;
    let Some(server) = serving(test, rules) else { return };
    let config = OpaConfig {
        path: "/v1/data/soma/allow".to_owned(),
        shape: Shape::Original,
        ..opa(&server.url())
    };
    let engine = Opa::open(config).expect("a client");
    for (args, verdict) in
        [(r#"{"text":"hello"}"#, Verdict::Allow), (r#"{"text":"bye"}"#, Verdict::Deny)]
    {
        let answer = engine.evaluate(&document(&[], args)).await.expect("an answer");
        assert_eq!(answer.verdict, verdict, "{args}");
    }
}
