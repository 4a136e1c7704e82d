//! Executable contract of an [`Engine`]. Every engine's tests call [`run`].

use std::time::{Duration, Instant};

use ringfence_types::{CallId, Digest, Json, KeyId, Origin, Scope, Scopes, Timestamp, Verdict};

use crate::{Action, Decided, Engine, Input, Subject, ToolFacts, decide};

/// Time within which an engine must answer or give up on one document.
pub const EVALUATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the contract, whatever rules `engine` has.
///
/// # Panics
/// If the engine breaks the contract.
pub async fn run(engine: &dyn Engine) {
    assert!(!engine.name().is_empty(), "an engine has a name");
    for input in documents() {
        bounded_and_pure(engine, &input).await;
        decided_as_answered(engine, &input).await;
    }
    seen(engine);
}

/// Ordinary and hostile documents.
pub fn documents() -> Vec<Input> {
    let flags: [&[&str]; 6] =
        [&[], &["none"], &["side_effect"], &["none", "external_call"], &["no such flag"], &[""]];
    let plain = flags.map(|flags| document(flags, "{}"));
    plain.into_iter().chain(hostile().iter().map(|args| document(&["none"], args))).collect()
}

/// Document with these safety flags and arguments.
///
/// # Panics
/// If `args` is not JSON that a call may carry.
pub fn document(flags: &[&str], args: &str) -> Input {
    Input {
        action: Action::ToolExecute,
        approval: None,
        args: Json::parse(args.as_bytes()).expect("arguments of a call"),
        call_id: CallId("019a8b7c-1234-7abc-8def-0123456789ab".parse().expect("an id")),
        grants: Vec::new(),
        metadata: Json::empty_object(),
        network: Vec::new(),
        parent_call_id: None,
        persona_id: None,
        plan_step: None,
        principal: Subject {
            key: KeyId("019a8b7c-1234-7abc-8def-000000000001".parse().expect("an id")),
            scopes: Scopes::from(vec![Scope::Call]),
        },
        secrets: Vec::new(),
        session_id: None,
        taint: Vec::new(),
        tenant: "acme".parse().expect("a tenant"),
        time: Timestamp::from_micros(1_700_000_000_000_000),
        tool: ToolFacts {
            digest: Digest::of(b"tool"),
            name: "echo".parse().expect("a name"),
            origin: Origin::Builtin,
            pure: true,
            requires_approval: false,
            safety_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            tags: Vec::new(),
            version: "1.0.0".to_owned(),
        },
        trace: None,
    }
}

/// Arguments that are large, deep or oddly named.
fn hostile() -> [String; 5] {
    let deep = ringfence_types::json::DEPTH - 2;
    [
        format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20)),
        format!(r#"{{"many":[{}0]}}"#, "0,".repeat(200_000)),
        format!(r#"{{"deep":{}{}}}"#, "[".repeat(deep), "]".repeat(deep)),
        r#"{"":1,"\u0000":2,"input":3,"data.ringfence":4,"\"\n":5,"😀":6}"#.to_owned(),
        r#"{"n":123456789012345678901234567890,"e":1e308,"z":-0.0}"#.to_owned(),
    ]
}

async fn bounded_and_pure(engine: &dyn Engine, input: &Input) {
    let started = Instant::now();
    let first = engine.evaluate(input).await;
    assert!(started.elapsed() < EVALUATE_TIMEOUT, "took {:?}", started.elapsed());
    let second = engine.evaluate(input).await;
    match (first, second) {
        (Ok(first), Ok(second)) => assert_eq!(first, second, "the same document twice"),
        (Err(first), Err(second)) => assert_eq!(first.trouble, second.trouble),
        (first, second) => panic!("the same document twice: {first:?}, then {second:?}"),
    }
}

/// Checks that the status names each engine once and that changes can be awaited.
fn seen(engine: &dyn Engine) {
    let mut names: Vec<_> = engine.status().into_iter().map(|status| status.engine).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert!(count > 0 && names.len() == count, "{names:?}");
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    assert!(engine.changed().has_changed().is_ok(), "the sender is alive");
}

async fn decided_as_answered(engine: &dyn Engine, input: &Input) {
    let answered = engine.evaluate(input).await.map_or(Verdict::Hold, |answer| answer.verdict);
    let decided = decide(engine, input).await;
    assert_eq!(decided.decision().verdict, answered);
    assert_eq!(decided.decision().input, input.digest());
    assert!(!decided.decision().engine.is_empty(), "a decision names its engine");
    assert!(!decided.decision().fail_open, "fail-open is not configured");
    if let Decided::Allow(permit, _) = decided {
        assert_eq!(permit.call(), input.call_id);
        assert_eq!(permit.tool(), input.tool.digest);
        assert_eq!(permit.args(), Digest::of_json(&input.args));
    }
}
