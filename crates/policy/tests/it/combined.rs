//! Several engines as one.

use std::sync::Arc;

use ringfence_policy::{
    Bundle, Combined, Engine, How, OpaConfig, Rego, Route, Trouble, Undefined, contract,
    contract::document, decide,
};
use ringfence_testkit::{Opa as OpaServer, server};
use ringfence_types::Verdict;

fn rego(rules: &str) -> Arc<dyn Engine> {
    Arc::new(super::load(&format!("package ringfence\n{rules}")).expect("rules"))
}

fn route(how: How, engines: &[&Arc<dyn Engine>]) -> Route {
    let engines = engines.iter().map(|engine| Arc::clone(engine)).collect();
    Route { actions: Vec::new(), tenants: Vec::new(), engines, how }
}

/// Combined verdict of engines with these answers.
async fn said(how: How, words: &[&str]) -> Result<Verdict, Trouble> {
    let engines: Vec<_> = words
        .iter()
        .map(|word| match *word {
            "nothing" => rego("decision := true if input.args.none"),
            word => rego(&format!("decision := {{\"decision\": \"{word}\"}}")),
        })
        .collect();
    let combined = Combined::new(vec![route(how, &engines.iter().collect::<Vec<_>>())]);
    let said = combined.evaluate(&document(&[], "{}")).await;
    said.map(|answer| answer.verdict).map_err(|unavailable| unavailable.trouble)
}

#[tokio::test]
async fn all_must_allow_and_the_strictest_wins() {
    use Verdict::{Allow, Deny, Hold};
    for (words, expected) in [
        (["allow", "allow"], Ok(Allow)),
        (["allow", "hold"], Ok(Hold)),
        (["deny", "hold"], Ok(Deny)),
        (["allow", "deny"], Ok(Deny)),
        (["allow", "abstain"], Ok(Allow)),
        (["abstain", "abstain"], Err(Trouble::Abstained)),
        (["allow", "nothing"], Err(Trouble::Undefined)),
        (["nothing", "hold"], Err(Trouble::Undefined)),
        (["nothing", "deny"], Ok(Deny)),
        (["abstain", "nothing"], Err(Trouble::Undefined)),
    ] {
        assert_eq!(said(How::All, &words).await, expected, "{words:?}");
    }
}

#[tokio::test]
async fn the_first_with_an_opinion_decides_and_no_engine_is_skipped() {
    use Verdict::{Allow, Deny};
    for (words, expected) in [
        (["allow", "deny"], Ok(Allow)),
        (["deny", "allow"], Ok(Deny)),
        (["abstain", "allow"], Ok(Allow)),
        (["abstain", "abstain"], Err(Trouble::Abstained)),
        (["nothing", "allow"], Err(Trouble::Undefined)),
        (["abstain", "nothing"], Err(Trouble::Undefined)),
    ] {
        assert_eq!(said(How::First, &words).await, expected, "{words:?}");
    }
}

#[tokio::test]
async fn conditions_of_all_hold_and_reasons_of_the_strictest_come_first() {
    let limits = |wall: u32, memory: u32| {
        rego(&format!(
            r#"decision := {{"decision": "allow", "reasons": [{{"rule": "r{wall}", "message": "m"}}],
               "obligations": {{"limits": {{"wall_secs": {wall}, "memory_bytes": {memory}}}}}}}"#
        ))
    };
    let hold =
        rego(r#"decision := {"decision": "hold", "reasons": [{"rule": "h", "message": "m"}]}"#);
    let (one, other) = (limits(5, 900), limits(9, 100));
    let combined = Combined::new(vec![route(How::All, &[&one, &other, &hold])]);
    let answer = combined.evaluate(&document(&[], "{}")).await.expect("an answer");
    let rules: Vec<_> = answer.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    assert_eq!((answer.verdict, rules.join(" ")), (Verdict::Hold, "h r5 r9".to_owned()));
    let text = serde_json::to_string(&answer.obligations).expect("obligations");
    assert_eq!(text, r#"{"limits":{"wall_secs":5,"memory_bytes":100}}"#);
    assert_ne!(answer.policy, one.revision());
}

#[tokio::test]
async fn who_is_asked_depends_on_action_and_tenant() {
    let (yes, no) = (rego("decision := true"), rego("decision := false"));
    let of = |actions: &[&str], tenants: &[&str], engine: &Arc<dyn Engine>| Route {
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        tenants: tenants.iter().map(|tenant| tenant.parse().expect("a tenant")).collect(),
        ..route(How::All, &[engine])
    };
    let combined = Combined::new(vec![
        of(&["memory.write"], &[], &no),
        of(&["tool.execute"], &["other"], &no),
        of(&[], &["acme"], &yes),
    ]);
    for (tenant, expected) in
        [("acme", Ok(Verdict::Allow)), ("other", Ok(Verdict::Deny)), ("third", Err(()))]
    {
        let mut input = document(&[], "{}");
        input.tenant = tenant.parse().expect("a tenant");
        let said = combined.evaluate(&input).await;
        assert_eq!(said.map(|answer| answer.verdict).map_err(|_| ()), expected, "{tenant}");
        let held = decide(&combined, &input).await.decision().verdict;
        assert_eq!(held, expected.unwrap_or(Verdict::Hold), "{tenant}");
    }
}

#[tokio::test]
async fn the_embedded_rules_and_a_real_opa_keep_the_contract_together() {
    let test = "the_embedded_rules_and_a_real_opa_keep_the_contract_together";
    let Some(program) = server::OPA.program_or_skip(test) else { return };
    let rules = "package ringfence\ndecision := {\"decision\": \"hold\"} if input.args.text";
    let server = OpaServer::start(&program, "1", &[("r.rego", rules)]).expect("OPA serves");
    let config = super::remote::opa(&server.url());
    let config = OpaConfig { undefined: Undefined::Abstain, ..config };
    let opa: Arc<dyn Engine> = Arc::new(ringfence_policy::Opa::open(config).expect("a client"));
    let embedded: Arc<dyn Engine> = Arc::new(Rego::load(&Bundle::built_in()).expect("rules"));
    for how in [How::All, How::First] {
        let combined = Combined::new(vec![route(how, &[&opa, &embedded])]);
        contract::run(&combined).await;
        for (args, verdict) in [("{}", Verdict::Allow), (r#"{"text":"x"}"#, Verdict::Hold)] {
            let decided = decide(&combined, &document(&["none"], args)).await;
            assert_eq!(decided.decision().verdict, verdict, "{how:?} {args}");
            let word = if how == How::All { "all(opa,rego)" } else { "first(opa,rego)" };
            assert_eq!(decided.decision().engine, word);
        }
    }
}

#[tokio::test]
async fn a_tick_of_one_is_a_tick_of_all() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rules.rego");
    std::fs::write(&path, "package ringfence\ndecision := false").expect("a rule");
    let folder = Arc::new(ringfence_policy::Folder::open("rego", dir.path()).expect("rules"));
    let engine: Arc<dyn Engine> = folder.clone();
    let combined = Combined::new(vec![route(How::All, &[&rego("decision := true"), &engine])]);
    let mut changed = combined.changed();
    std::fs::write(&path, "package ringfence\ndecision := true").expect("a rule");
    folder.look();
    folder.look();
    changed.changed().await.expect("it lives");
    let answer = combined.evaluate(&document(&[], "{}")).await.expect("an answer");
    assert_eq!(answer.verdict, Verdict::Allow);
}
