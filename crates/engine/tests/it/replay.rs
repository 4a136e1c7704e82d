//! History under other rules.

use std::time::Duration;

use ringfence_engine::{Engine, Replay, ReplayError, ReplayRequest};
use ringfence_policy::Bundle;
use ringfence_store::DecisionQuery;
use serde_json::json;

use crate::support::{echo, engine, principal, request, stand};

fn bundle(rules: &str) -> Bundle {
    Bundle::from_files([("rules.rego", format!("package ringfence\n\n{rules}\n"))])
        .expect("a bundle")
}

fn asked(rules: &str) -> ReplayRequest {
    ReplayRequest {
        bundle: bundle(rules),
        history: DecisionQuery::default(),
        listed: 100,
        max_decisions: usize::MAX,
        time_limit: Duration::from_secs(60),
        threads: 2,
    }
}

async fn replayed(engine: &Engine, request: ReplayRequest) -> Replay {
    engine.replay(request).await.expect("a replay")
}

const STRICT: &str = r#"default decision := {"decision": "allow"}
decision := {"decision": "deny", "reasons": [{"rule": "no_secrets", "message": "m"}]} if {
    contains(input.args.text, "secret")
}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_what_would_flip_is_counted_and_listed() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let (one, other) = (principal("one"), principal("other"));
    let flips = stand(&engine, &one, echo("a secret")).await;
    stand(&engine, &one, echo("plain")).await;
    stand(&engine, &other, echo("secret")).await;
    let held =
        stand(&engine, &other, request("http_fetch", &json!({"url": "http://a.invalid/"}))).await;
    let replay = replayed(&engine, asked(STRICT)).await;
    assert_eq!((replay.decisions, replay.flips.total), (4, 3));
    assert_eq!((replay.unanswered, replay.redacted, replay.next), (0, 0, None));
    let kinds: Vec<_> = replay.flips.kinds.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(kinds, [(("allow", "deny"), 2), (("hold", "allow"), 1)]);
    assert_eq!(replay.flips.tools["echo"][&("allow", "deny")], 2);
    assert_eq!(replay.flips.tools["http_fetch"][&("hold", "allow")], 1);
    assert_eq!(replay.flips.tenants["other"].values().sum::<u64>(), 2);
    assert_eq!(replay.flips.rules["no_secrets"][&("allow", "deny")], 2);
    let calls: Vec<_> = replay.listed.iter().map(|flipped| flipped.call).collect();
    assert_eq!(calls[0], flips.asked.id);
    assert_eq!(calls[2], held.asked.id);
    assert_eq!(replay.listed[0].would_be_because[0].rule, "no_secrets");
    // The rules in force flip nothing.
    let same = ReplayRequest { bundle: Bundle::built_in(), ..asked(STRICT) };
    assert_eq!(replayed(&engine, same).await.flips.total, 0);
    // A tenant sees its own alone.
    let history = DecisionQuery { tenant: Some(one.tenant.clone()), ..DecisionQuery::default() };
    let own = replayed(&engine, ReplayRequest { history, ..asked(STRICT) }).await;
    assert_eq!((own.decisions, own.flips.total), (2, 1));
    engine.stop(Duration::from_secs(5)).await;
}

/// Formerly a whole page was judged, whatever was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_decisions_are_judged_than_asked_for_and_the_next_request_goes_on() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(stand(&engine, &principal("one"), echo("secret")).await.asked.id);
    }
    let (mut counts, mut flipped, mut history) = (Vec::new(), Vec::new(), DecisionQuery::default());
    loop {
        let request = ReplayRequest { max_decisions: 2, history: history.clone(), ..asked(STRICT) };
        let replay = replayed(&engine, request).await;
        counts.push(replay.decisions);
        flipped.extend(replay.listed.iter().map(|flipped| flipped.call));
        history.after = replay.next;
        if replay.next.is_none() {
            break;
        }
    }
    assert_eq!((counts, flipped), (vec![2, 2, 1], calls));
    // As many as there are: nothing is left to go on with.
    let all = replayed(&engine, ReplayRequest { max_decisions: 5, ..asked(STRICT) }).await;
    assert_eq!((all.decisions, all.next), (5, None));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_proposed_rules_do_not_answer_would_be_held() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    stand(&engine, &principal("one"), echo("x")).await;
    let replay = replayed(&engine, asked("decision := true if input.args.no_such")).await;
    assert_eq!((replay.unanswered, replay.flips.kinds[&("allow", "hold")]), (1, 1));
    assert_eq!(replay.listed[0].would_be_because[0].rule, "policy_unavailable");
    let broken = ReplayRequest { bundle: bundle("decision := no_such(1)"), ..asked("") };
    let refused = engine.replay(broken).await;
    assert!(matches!(refused, Err(ReplayError::Bundle(_))), "{refused:?}");
    engine.stop(Duration::from_secs(5)).await;
}
