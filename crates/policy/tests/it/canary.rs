//! Candidate policies beside the one in force, and tenants that fail open.

use std::sync::Arc;

use ringfence_policy::{
    Canary, CanaryReport, Decided, Engine, FAIL_OPEN, Opa, POLICY_UNAVAILABLE, Shadowed, contract,
    contract::document, decide,
};
use ringfence_types::Verdict;

fn rego(rules: &str) -> Arc<dyn Engine> {
    Arc::new(super::load(&format!("package ringfence\n{rules}")).expect("rules"))
}

fn canary(candidate: Arc<dyn Engine>, tenants: &[&str], fail_open: bool) -> Canary {
    let tenants = tenants.iter().map(|tenant| tenant.parse().expect("a tenant")).collect();
    Canary { name: "stricter".to_owned(), tenants, candidate, fail_open }
}

/// Engine at an address without a listener.
fn nowhere() -> Arc<dyn Engine> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    Arc::new(Opa::open(super::remote::opa(&url)).expect("a client"))
}

/// Report after this many comparisons.
async fn report(engine: &Shadowed, judged: u64) -> CanaryReport {
    super::until("the candidate has judged", async || {
        let counts = engine.canaries()[0].counts;
        counts.same + counts.different + counts.unavailable + counts.left_out == judged
    })
    .await;
    engine.canaries().remove(0)
}

#[tokio::test]
async fn a_candidate_is_compared_and_changes_nothing() {
    let enforced = rego("decision := true");
    let candidate = rego(
        r#"decision := {"decision": "hold", "reasons": [{"rule": "big", "message": "m"}]} if input.args.n > 5
        decision := true if input.args.n <= 5"#,
    );
    let engine = Shadowed::new(enforced, vec![canary(candidate, &["acme"], false)]);
    for n in [1, 9, 3, 7] {
        let input = document(&[], &format!(r#"{{"n":{n}}}"#));
        assert_eq!(decide(&engine, &input).await.decision().verdict, Verdict::Allow, "{n}");
    }
    let mut other = document(&[], r#"{"n":9}"#);
    other.tenant = "other".parse().expect("a tenant");
    assert_eq!(decide(&engine, &other).await.decision().verdict, Verdict::Allow);
    let report = report(&engine, 4).await;
    assert_eq!((report.counts.same, report.counts.different), (2, 2));
    let [newest, _] = &report.differences[..] else { panic!("{report:?}") };
    assert_eq!(newest.enforced.verdict, Verdict::Allow);
    assert_eq!(newest.candidate.verdict, Verdict::Hold);
    assert_eq!(newest.candidate.reasons[0].rule, "big");
    assert_ne!(newest.candidate.policy, newest.enforced.policy);
}

#[tokio::test]
async fn a_candidate_that_is_down_is_counted_and_delays_no_call() {
    let enforced = rego("decision := true");
    let engine = Shadowed::new(enforced, vec![canary(nowhere(), &[], false)]);
    for _ in 0..20 {
        let decided = decide(&engine, &document(&[], "{}")).await;
        assert_eq!(decided.decision().verdict, Verdict::Allow);
    }
    assert_eq!(report(&engine, 20).await.counts.unavailable, 20);
}

#[tokio::test]
async fn the_contract_holds_with_a_candidate_beside() {
    let enforced = rego("decision := true");
    let engine = Shadowed::new(enforced, vec![canary(rego("decision := false"), &[], false)]);
    contract::run(&engine).await;
}

#[tokio::test]
async fn only_a_tenant_that_was_named_fails_open_and_every_decision_says_so() {
    let yes = rego("decision := true");
    let engine = Shadowed::new(nowhere(), vec![canary(yes, &["acme"], true)]);
    assert_eq!(engine.fail_open(), ["acme".parse().expect("a tenant")]);
    let input = document(&["none"], "{}");
    let Decided::Allow(_, decision) = decide(&engine, &input).await else { panic!("it runs") };
    assert!(decision.fail_open);
    assert_eq!(decision.reasons[0].rule, FAIL_OPEN);
    let text = serde_json::to_string(&decision).expect("a decision");
    assert!(text.contains(r#""fail_open":true"#), "{text}");
    // Control: other tenants are held.
    let mut other = input;
    other.tenant = "other".parse().expect("a tenant");
    let Decided::Hold(decision) = decide(&engine, &other).await else { panic!("it is held") };
    assert!(!decision.fail_open);
    assert_eq!(decision.reasons[0].rule, POLICY_UNAVAILABLE);
}

#[tokio::test]
async fn rules_that_were_asked_and_did_not_allow_never_fail_open() {
    for rules in [
        "decision := true if input.args.none",
        "decision := \"allow\"",
        "decision := {\"decision\": \"abstain\"}",
        "decision := {\"decision\": \"allow\", \"condition\": 1}",
    ] {
        let yes = rego("decision := true");
        let engine = Shadowed::new(rego(rules), vec![canary(yes, &["acme"], true)]);
        let decided = decide(&engine, &document(&[], "{}")).await;
        assert_eq!(decided.decision().verdict, Verdict::Hold, "{rules}");
        assert!(!decided.decision().fail_open, "{rules}");
    }
}
