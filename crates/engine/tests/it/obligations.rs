//! Obligations of policy are kept, and its decisions are on record.

use std::time::Duration;

use ringfence_engine::OutputStream;
use ringfence_policy::Bundle;
use ringfence_testkit::Plane;
use ringfence_types::{Call, Digest, FactKind, Json, Principal, Produced, State};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{echo, engine_with, principal, request, stand};

/// An engine whose policy allows everything under these obligations.
async fn obliged(obligations: &str) -> (TempDir, Plane, Principal) {
    let rules = format!(
        "package ringfence\n\ndecision := {{\"decision\": \"allow\", \"obligations\": {obligations}}}\n"
    );
    let dir = tempfile::tempdir().expect("works here");
    let bundle = Bundle::from_files([("rules.rego", rules)]).expect("works here");
    let engine = engine_with(dir.path(), &bundle).await;
    (dir, engine, principal("acme"))
}

fn produced(call: &Call) -> Result<String, String> {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => Ok(result.to_string()),
            Produced::Error(error) => Err(error.code.to_string()),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_masked_is_nowhere_and_digests_are_of_the_truth() {
    let secret = "hunter2-and-more";
    let (dir, engine, who) = obliged(r#"{"redact": ["/args/text", "/result/message"]}"#).await;
    for is_detached in [false, true] {
        let mut asked = echo(secret);
        asked.detached = is_detached;
        let call = stand(&engine, &who, asked).await;
        assert_eq!(produced(&call).as_deref(), Ok(r#"{"message":"[redacted]"}"#));
        let kept = engine.get(&who, call.asked.id).await.expect("works here").expect("it is there");
        assert_eq!(kept.asked.args.as_str(), r#"{"text":"[redacted]"}"#);
        let decisions = engine.store.decisions_of(None, call.asked.id).await.expect("works here");
        let [decision] = decisions.as_slice() else { panic!("{decisions:?}") };
        assert!(decision.kept.input.contains(r#""args":{"text":"[redacted]"}"#));
        let receipt =
            engine.receipt(&who, call.asked.id).await.expect("works here").expect("final");
        let of = |text: String| Digest::of_json(&Json::parse(text.as_bytes()).expect("JSON"));
        assert_eq!(receipt.args, of(format!(r#"{{"text":"{secret}"}}"#)));
        assert_eq!(receipt.result, Some(of(format!(r#"{{"message":"{secret}"}}"#))));
        let stamped = receipt.decision.expect("it was decided").obligations.redact;
        let stamped: Vec<_> = stamped.iter().map(ToString::to_string).collect();
        assert_eq!(stamped, ["/args/text", "/result/message"]);
        let mut facts = engine.follow(&who, Some(call.asked.id), None);
        loop {
            let (_, fact) = facts.next().await.expect("works here");
            assert!(!fact.data.as_str().contains(secret));
            if fact.kind == FactKind::Finished {
                break;
            }
        }
    }
    engine.stop(Duration::from_secs(5)).await;
    drop(dir);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_masks_the_same_call_is_kept_whole() {
    let (_dir, engine, who) = obliged("{}").await;
    let call = stand(&engine, &who, echo("hunter2-and-more")).await;
    assert_eq!(produced(&call).as_deref(), Ok(r#"{"message":"hunter2-and-more"}"#));
    let decisions = engine.store.decisions_of(None, call.asked.id).await.expect("works here");
    let decision = &decisions[0].kept;
    assert_eq!(Some(&decision.decision), call.decision.as_ref());
    assert_eq!(Digest::of(decision.input.as_bytes()), decision.decision.input);
    assert!(decision.input.contains("hunter2-and-more"));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_reaches_the_hosts_that_policy_names_and_no_other() {
    // No name of these exists, so what policy lets pass fails at the lookup.
    for (network, host, expected) in [
        (r#""none""#, "a.invalid", "host_refused"),
        (r#"["b.invalid", "*.c.invalid"]"#, "a.invalid", "host_refused"),
        (r#"["b.invalid", "*.c.invalid"]"#, "c.invalid", "host_refused"),
        (r#"["b.invalid", "*.c.invalid"]"#, "b.invalid", "dns_failed"),
        (r#"["b.invalid", "*.c.invalid"]"#, "x.c.invalid", "dns_failed"),
        (r#"["http://b.invalid/"]"#, "b.invalid", "obligation_invalid"),
    ] {
        let (_dir, engine, who) = obliged(&format!(r#"{{"network": {network}}}"#)).await;
        let url = format!("http://{host}/");
        let call = stand(&engine, &who, request("http_fetch", &json!({"url": url}))).await;
        assert_eq!(produced(&call), Err(expected.to_owned()), "{network} and {host}");
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_without_a_sandbox_is_refused_where_policy_demands_one() {
    for (obligations, expected) in [
        (r#"{"min_isolation": "cold"}"#, Err("isolation_unavailable".to_owned())),
        (r#"{"limits": {"wall_secs": 9}}"#, Ok(r#"{"message":"hi"}"#.to_owned())),
    ] {
        let (_dir, engine, who) = obliged(obligations).await;
        let call = stand(&engine, &who, echo("hi")).await;
        assert_eq!(produced(&call), expected, "{obligations}");
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_is_masked_is_not_there_to_read() {
    let (_dir, engine, who) = obliged(r#"{"redact": ["/stdout"]}"#).await;
    let call = stand(&engine, &who, echo("hi")).await;
    let read = engine.output(&who, call.asked.id, OutputStream::Stdout, 0).await;
    let read = read.expect("works here").expect("it is there");
    assert!(read.bytes.is_empty() && read.is_end);
    engine.stop(Duration::from_secs(5)).await;
}
