//! Tools that are proposed, approved, switched off, changed at their source, and withdrawn.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_engine::{
    By, LifecycleError, NotResolved, Refused, ToolApproval, VersionChoice, data::Definition,
    new_trace,
};
use ringfence_ledger::{Entry as LedgerEntry, ToolTransition};
use ringfence_policy::{self as policy, Answer, Input, Unavailable};
use ringfence_store::{NewToolRow, ToolRow, ToolRowDetails};
use ringfence_testkit::Plane;
use ringfence_types::{
    Digest, FactKind, LifecycleEvent, Obligations, Origin, Principal, Scope, State, ToolName,
    ToolPermissions, ToolRef, ToolStatus, TraceContext, Verdict,
};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    causes::{self, Silent},
    holds::{after, approve as yes, resolve},
    support::{
        Replaced, allow_all, approver, echo, engine_of, engine_with, principal, request, stand,
    },
};

fn boss() -> Principal {
    Principal { scopes: vec![Scope::Admin].into(), ..principal("default") }
}

fn trace() -> TraceContext {
    new_trace(None).into()
}

fn name(text: &str) -> ToolName {
    text.parse().expect("a name")
}

/// A program that asks for a host and some memory.
fn definition(tool: &str, version: &str, description: &str) -> Definition {
    serde_json::from_value(json!({
        "name": tool, "version": version, "description": description, "origin": "manifest",
        "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
        "safety_flags": ["external_call"],
        "asks": {"hosts": ["api.example"], "memory_bytes": 67_108_864, "secrets": ["key"]},
        "runs": {"command": {"argv": ["cat"]}},
    }))
    .expect("a definition")
}

async fn propose(engine: &Plane, definition: &Definition) -> Digest {
    let who = boss();
    let proposed = engine
        .propose_tools(Some((&who, &trace())), "tool.yaml", std::slice::from_ref(definition))
        .await
        .expect("proposed");
    assert_eq!(proposed.len(), 1);
    proposed[0].tool.digest
}

async fn approve(
    engine: &Plane,
    tool: &str,
    approval: ToolApproval,
) -> Result<ToolStatus, LifecycleError> {
    let choice = VersionChoice::default();
    let approved = engine.approve_tool(&boss(), &trace(), &name(tool), &choice, approval).await;
    approved.map(|state| state.status)
}

fn terms(why: &str) -> ToolApproval {
    ToolApproval { why: why.to_owned(), ..ToolApproval::default() }
}

async fn change(
    engine: &Plane,
    tool: &str,
    event: LifecycleEvent,
) -> Result<ToolStatus, LifecycleError> {
    let choice = VersionChoice::default();
    let changed = engine
        .change_tool(&boss(), &trace(), &name(tool), &choice, event, "a test".into(), false)
        .await;
    changed.map(|states| states[0].status)
}

fn status(engine: &Plane, digest: Digest) -> ToolStatus {
    let states = engine.tool_states();
    states.iter().find(|state| state.tool.digest == digest).expect("a state").status
}

/// Whether a call is accepted. This engine has no sandboxes: what becomes of the call is tried elsewhere.
async fn is_callable(engine: &Plane, tool: &str) -> bool {
    match engine.call(&principal("acme"), request(tool, &json!({}))).await {
        Ok(mut ticket) => {
            let call = ticket.wait(Duration::from_secs(30)).await.expect("it is on record");
            assert_eq!(call.state.name(), "finished");
            true
        }
        Err(Refused::NotActive { .. }) => false,
        Err(refused) => panic!("{refused:?}"),
    }
}

/// The refusal of a call.
async fn refusal(engine: &Plane, tool: &str) -> Refused {
    let called = engine.call(&principal("acme"), request(tool, &json!({}))).await;
    called.expect_err("it is refused")
}

async fn start(dir: &Path) -> Plane {
    engine_with(dir, &allow_all()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_approved_tool_can_be_called_and_it_survives_a_restart() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    assert!(matches!(refusal(&engine, "remote").await, Refused::UnknownTool { .. }));
    let digest = propose(&engine, &definition("remote", "1.0.0", "Asks.")).await;
    let refused = refusal(&engine, "remote").await;
    assert_eq!(refused.to_string(), "tool `remote` 1.0.0 is proposed, not active");
    assert_eq!(approve(&engine, "remote", terms("read it")).await.unwrap(), ToolStatus::Active);
    assert!(is_callable(&engine, "remote").await);
    engine.stop(Duration::from_secs(5)).await;
    drop(engine);
    let engine = start(dir.path()).await;
    assert_eq!(status(&engine, digest), ToolStatus::Active);
    assert!(is_callable(&engine, "remote").await);
    let history = engine.tool_history(&name("remote")).await.expect("the ledger");
    let told: Vec<_> = history
        .iter()
        .map(|entry| {
            let said = &entry.transition;
            (said.transition.name(), said.to.name(), said.why.as_str(), said.by)
        })
        .collect();
    let by = Some(boss().key);
    assert_eq!(
        told,
        [
            ("propose", "proposed", "", by),
            ("approve", "approved", "read it", by),
            ("install", "installed", "read it", by),
            ("enable", "active", "read it", by),
        ]
    );
    engine.stop(Duration::from_secs(5)).await;
}

/// Brings a new tool to a status.
async fn reach(engine: &Plane, tool: &str, status: ToolStatus) {
    propose(engine, &definition(tool, "1.0.0", "Asks.")).await;
    let stays_off = status == ToolStatus::Installed;
    if status != ToolStatus::Proposed {
        approve(engine, tool, ToolApproval { stays_off, ..terms("x") }).await.expect("approved");
    }
    let event = match status {
        ToolStatus::Disabled => LifecycleEvent::Disable,
        ToolStatus::Quarantined => LifecycleEvent::Quarantine,
        ToolStatus::Revoked => LifecycleEvent::Revoke,
        _ => return,
    };
    assert_eq!(change(engine, tool, event).await.expect("a change"), status);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_edge_leads_where_the_table_says_and_every_missing_edge_is_refused() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    let statuses = [
        ToolStatus::Proposed,
        ToolStatus::Installed,
        ToolStatus::Active,
        ToolStatus::Disabled,
        ToolStatus::Quarantined,
        ToolStatus::Revoked,
    ];
    for status in statuses {
        for event in LifecycleEvent::ALL {
            let tool = format!("{status}-{event}");
            reach(&engine, &tool, status).await;
            let done = match event {
                LifecycleEvent::Propose => {
                    let again = definition(&tool, "1.0.0", "Asks.");
                    let digest = propose(&engine, &again).await;
                    let now = self::status(&engine, digest);
                    let expected = status.on(event).unwrap_or(status);
                    assert_eq!(now, expected, "{tool}");
                    continue;
                }
                // Approving sets it up and switches it on in the same commit.
                LifecycleEvent::Approve => approve(&engine, &tool, terms("x")).await,
                LifecycleEvent::Install => continue,
                event => change(&engine, &tool, event).await,
            };
            let expected = match (event, status.on(event)) {
                (LifecycleEvent::Approve, Ok(_)) => Ok(ToolStatus::Active),
                (_, expected) => expected,
            };
            match (done, expected) {
                (Ok(now), Ok(expected)) => assert_eq!(now, expected, "{tool}"),
                (Err(LifecycleError::Illegal(found)), Err(expected)) => {
                    assert_eq!(found, expected, "{tool}");
                }
                (done, expected) => panic!("{tool}: {done:?} instead of {expected:?}"),
            }
            let now = self::status(&engine, definition(&tool, "1.0.0", "Asks.").digest());
            assert_eq!(is_callable(&engine, &tool).await, now.is_active(), "{tool}");
        }
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_what_was_asked_for_or_less() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    let digest = propose(&engine, &definition("remote", "1.0.0", "Asks.")).await;
    let more = ToolPermissions {
        hosts: vec!["api.example".into(), "evil.example".into()],
        memory_bytes: Some(1 << 40),
        ..ToolPermissions::default()
    };
    let refused =
        approve(&engine, "remote", ToolApproval { grants: Some(more), ..terms("x") }).await;
    let Err(LifecycleError::Beyond { parts }) = refused else { panic!("{refused:?}") };
    assert_eq!(parts, ["memory_bytes", "hosts: `evil.example`"]);
    let less = ToolPermissions { memory_bytes: Some(1 << 20), ..ToolPermissions::default() };
    let grants = Some(less.clone());
    approve(&engine, "remote", ToolApproval { grants, ..terms("x") }).await.expect("approved");
    let catalogue = engine.tools();
    let entry = catalogue.by_digest(digest).expect("active");
    assert_eq!(entry.tool.network, [""; 0], "no host was granted");
    assert_eq!(entry.tool.limits.memory.0, 1 << 20);
    let choice = VersionChoice::default();
    let asks = definition("remote", "1.0.0", "Asks.").asks;
    let (who, trace) = (boss(), trace());
    engine
        .grant_tool(&who, &trace, &name("remote"), &choice, asks, "all of it".into())
        .await
        .expect("granted");
    let catalogue = engine.tools();
    let entry = catalogue.by_digest(digest).expect("active");
    assert_eq!(entry.tool.network, ["api.example"]);
    assert_eq!(entry.tool.limits.memory.0, 64 << 20);
    let granted = engine.grant_tool(&who, &trace, &name("echo"), &choice, less, "x".into()).await;
    assert!(matches!(granted, Err(LifecycleError::NotGranted { .. })), "{granted:?}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_at_the_source_quarantines_that_tool_alone_and_shows_the_difference() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    let first = propose(&engine, &definition("remote", "1.0.0", "Asks.")).await;
    let other = propose(&engine, &definition("other", "1.0.0", "Asks.")).await;
    for tool in ["remote", "other"] {
        approve(&engine, tool, terms("x")).await.expect("approved");
    }
    // The server finds out by itself, without a person.
    let mut changed = definition("remote", "1.0.0", "Asks, and sends a copy.");
    changed.asks.hosts.push("evil.example".into());
    let proposed =
        engine.propose_tools(None, "tool.yaml", &[changed.clone()]).await.expect("offered");
    assert_eq!(proposed[0].replaces, Some(first));
    assert_eq!(status(&engine, first), ToolStatus::Quarantined);
    assert_eq!(status(&engine, changed.digest()), ToolStatus::Proposed);
    assert_eq!(status(&engine, other), ToolStatus::Active, "that tool alone");
    assert!(matches!(refusal(&engine, "remote").await, Refused::NotActive { .. }));
    let difference =
        engine.tool_differences(&name("remote"), &VersionChoice::default()).expect("a difference");
    let paths: Vec<_> = difference.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["asks.hosts.1", "description"]);
    // What was granted to the old one counts for nothing: the new one is decided anew.
    assert_eq!(
        approve(&engine, "remote", terms("read the diff")).await.unwrap(),
        ToolStatus::Active
    );
    assert_eq!(status(&engine, changed.digest()), ToolStatus::Active);
    assert_eq!(status(&engine, first), ToolStatus::Quarantined);
    // An author's new version stands beside the old one.
    let newer = propose(&engine, &definition("other", "1.1.0", "Asks.")).await;
    assert_eq!(status(&engine, other), ToolStatus::Active);
    assert_eq!(status(&engine, newer), ToolStatus::Proposed);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_other_sources_cannot_be_taken_and_bad_definitions_are_refused() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    let who = boss();
    let ask = async |definition: Definition, source: &'static str| {
        engine.propose_tools(Some((&who, &trace())), source, &[definition]).await
    };
    let taken = ask(definition("echo", "9.0.0", "Mine."), "a").await;
    assert!(matches!(taken, Err(LifecycleError::Taken { .. })), "{taken:?}");
    let mut remote = definition("remote", "1.0.0", "Asks.");
    remote.origin = Origin::Mcp;
    ask(remote.clone(), "one").await.expect("proposed");
    let taken = ask(remote, "another server").await;
    assert!(matches!(taken, Err(LifecycleError::Taken { .. })), "{taken:?}");
    let broken = ask(definition("bad", "one", " "), "a").await;
    let Err(LifecycleError::Broken { problems, .. }) = broken else { panic!("{broken:?}") };
    assert_eq!(problems.len(), 2, "{problems:?}");
    engine.stop(Duration::from_secs(5)).await;
}

/// Rules that allow every action at once, and calls when they are told to.
#[derive(Debug)]
struct Gate(Semaphore, Semaphore);

#[async_trait]
impl policy::Engine for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn revision(&self) -> Digest {
        Digest::of(b"gate")
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        if input.action == policy::Action::ToolExecute {
            self.0.add_permits(1);
            self.1.acquire().await.expect("never closed").forget();
        }
        Ok(Answer {
            verdict: Verdict::Allow,
            reasons: Vec::new(),
            obligations: Obligations::default(),
            approvals: None,
            policy: self.revision(),
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_decided_before_does_not_run_a_tool_that_was_switched_off() {
    let dir = tempfile::tempdir().expect("works here");
    let gate = Arc::new(Gate(Semaphore::new(0), Semaphore::new(0)));
    let engine = engine_of(dir.path(), gate.clone(), |_| {}).await;
    let who = principal("acme");
    let mut ticket = engine.call(&who, echo("hi")).await.expect("accepted");
    let waiting = tokio::spawn(async move { ticket.wait(Duration::from_secs(30)).await });
    gate.0.acquire().await.expect("policy is asked").forget();
    assert_eq!(
        change(&engine, "echo", LifecycleEvent::Disable).await.unwrap(),
        ToolStatus::Disabled
    );
    gate.1.add_permits(1);
    let call = waiting.await.expect("no panic").expect("it is on record");
    let State::Denied { reasons } = &call.state else { panic!("{:?}", call.state) };
    assert_eq!(reasons[0].rule, "tool_not_active");
    assert!(engine.receipt(&who, call.asked.id).await.expect("works here").is_some());
    assert!(matches!(refusal(&engine, "echo").await, Refused::NotActive { .. }));
    // The control.
    change(&engine, "echo", LifecycleEvent::Enable).await.expect("on again");
    gate.1.add_permits(1);
    assert_eq!(stand(&engine, &who, echo("hi")).await.state.name(), "finished");
    engine.stop(Duration::from_secs(5)).await;
}

/// Calls wait for a person; everything else is allowed.
const ASK_CALLS: &str = r#"
package ringfence

decision := {"decision": "allow", "reasons": []} if {
    input.action != "tool.execute"
} else := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_of_a_tool_that_was_switched_off_waits_and_cannot_be_approved() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine_of(dir.path(), Replaced::new(ASK_CALLS), |_| {}).await;
    let (who, person) = (principal("acme"), approver("acme", 1));
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    change(&engine, "echo", LifecycleEvent::Disable).await.expect("off");
    let refused = resolve(&engine, &person, id, yes()).await;
    assert!(matches!(refused, Err(NotResolved::ToolChanged)), "{refused:?}");
    let call = engine.get(&who, id).await.expect("works here").expect("it is there");
    assert_eq!(call.state.name(), "held");
    change(&engine, "echo", LifecycleEvent::Enable).await.expect("on");
    resolve(&engine, &person, id, yes()).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_was_switched_off_stays_off_when_its_files_change() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = start(dir.path()).await;
    // As a program of another version left it: the same name under another digest.
    let own = engine.states_of_tool(&name("echo"))[0].tool.clone();
    let at = engine.clock().now();
    let row = ToolRow {
        tool: ToolRef { digest: Digest::of(b"an earlier program"), ..own },
        status: ToolStatus::Disabled,
        definition: None,
        about: ToolRowDetails {
            origin: Origin::Builtin,
            source: "builtin".to_owned(),
            asks: ToolPermissions::default(),
            grants: None,
            replaces: None,
            by: None,
            why: "not here".to_owned(),
            changed_at: at,
            created_at: at,
            stops_running: false,
        },
    };
    let transition = ToolTransition {
        transition: LifecycleEvent::Disable,
        tool: row.tool.clone(),
        from: Some(ToolStatus::Active),
        to: ToolStatus::Disabled,
        origin: Origin::Builtin,
        by: None,
        why: row.about.why.clone(),
        grants: None,
        replaces: None,
    };
    let entry = LedgerEntry::tool_transition(at, &transition);
    let entry = engine.ledger.signing_guard().await.seal(entry).expect("it is small");
    let rows = vec![NewToolRow { seen: None, row }];
    engine.store.put_tools(rows, vec![entry]).await.expect("written");
    engine.stop(Duration::from_secs(5)).await;
    drop(engine);
    let engine = start(dir.path()).await;
    assert!(matches!(refusal(&engine, "echo").await, Refused::NotActive { .. }));
    change(&engine, "echo", LifecycleEvent::Enable).await.expect("a person switches it on");
    assert_eq!(stand(&engine, &principal("acme"), echo("hi")).await.state.name(), "finished");
    engine.stop(Duration::from_secs(5)).await;
}

/// Calls of `timestamp` wait for a person; everything else is allowed.
const ASK_FOR_TIME: &str = r#"
package ringfence

default decision := {"decision": "allow", "reasons": []}

decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]} if {
    input.tool.name == "timestamp"
    input.action == "tool.execute"
    input.approval == null
}
"#;

/// The call at its end, after its tool was withdrawn while it waited for a place.
async fn end_of_a_queued_call(event: LifecycleEvent, was_approved: bool) -> State {
    let mut silent = Silent::listen().await;
    let engine = causes::engine_under(&silent, ASK_FOR_TIME).await;
    let who = principal("acme");
    causes::begin(&engine, &who, silent.fetch(), By::Client).await;
    // The only place is taken until this is dropped.
    let running = silent.next().await;
    let tool = if was_approved { "timestamp" } else { "echo" };
    let args = if was_approved { json!({}) } else { json!({"text": "hi"}) };
    let mut ticket = engine.call(&who, request(tool, &args)).await.expect("accepted");
    let id = ticket.id();
    if was_approved {
        let held = ticket.wait(Duration::from_secs(30)).await.expect("it is on record");
        assert_eq!(held.state.name(), "held");
        resolve(&engine, &approver("acme", 1), id, yes()).await.expect("approved");
    }
    // It goes on by itself, as if its caller had gone away.
    drop(ticket);
    change(&engine, tool, event).await.expect("withdrawn");
    drop(running);
    after(&engine, &who, id, &[FactKind::Denied]).await;
    let call = engine.get(&who, id).await.expect("works here").expect("it is there");
    call.state.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waited_for_a_place_does_not_run_a_withdrawn_tool() {
    for event in [LifecycleEvent::Disable, LifecycleEvent::Quarantine, LifecycleEvent::Revoke] {
        for was_approved in [false, true] {
            let state = end_of_a_queued_call(event, was_approved).await;
            let State::Denied { reasons } = &state else { panic!("{event}: {state:?}") };
            assert_eq!(reasons[0].rule, "tool_not_active", "{event}, approved: {was_approved}");
        }
    }
}
