//! Everything that happens is on the ledger, and the ledger holds.

use std::{sync::Arc, time::Duration};

use ringfence_engine::{Keys, Ledger, NotRotated, OpenError};
use ringfence_ledger::{
    Audited, Bundle, Checkpoint, Flaw, LogCheck, Note, Row, Selection, SigningKey, ToolChange,
    merkle, said_in,
};
use ringfence_store::{EntryQuery, Placed, Signed, SqliteStore, Store};
use ringfence_testkit::Plane;
use ringfence_types::EntryKind;
use serde_json::json;

use crate::support::{echo, engine, now, principal, request, stand};

async fn entries(store: &dyn Store) -> Vec<Placed> {
    store.entries(EntryQuery { limit: 1_000, ..EntryQuery::default() }).await.expect("works here")
}

fn kinds(entries: &[Placed]) -> Vec<EntryKind> {
    let mut kinds: Vec<_> = entries.iter().map(|placed| placed.sealed.kind).collect();
    kinds.dedup();
    kinds
}

/// All of the log by all of its checkpoints.
async fn audit(store: &dyn Store) -> Result<Audited, Flaw> {
    let mut check = LogCheck::default();
    for Signed { note, .. } in store.checkpoints(0, 1_000).await.expect("works here") {
        check.expect(&note)?;
    }
    for Placed { index, sealed } in entries(store).await {
        check.row(&Row { index, sealed }, |_| {})?;
    }
    check.finish()
}

async fn stopped(engine: Plane) -> Arc<dyn Store> {
    engine.stop(Duration::from_secs(5)).await;
    engine.store.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_begins_with_its_key_then_its_tools_and_then_what_happens() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let call = stand(&engine, &principal("acme"), echo("hi")).await;
    let store = stopped(engine).await;
    let entries = entries(store.as_ref()).await;
    assert_eq!(kinds(&entries), [EntryKind::CheckpointKey, EntryKind::Tool, EntryKind::Call]);
    let last = &entries[entries.len() - 1].sealed;
    assert_eq!(last.about.call, Some(call.asked.id));
    let audited = audit(store.as_ref()).await.expect("it holds");
    assert_eq!(audited.checkpoint.map(|(size, _)| size), Some(entries.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_repeats_no_key_and_no_tool() {
    let dir = tempfile::tempdir().expect("works here");
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let engine = engine(dir.path()).await;
        engine.stop(Duration::from_secs(5)).await;
        sizes.push(entries(engine.store.as_ref()).await.len());
        engine.close(Duration::from_secs(5)).await.expect("works here");
    }
    assert_eq!(sizes[0], sizes[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_has_its_decision_on_the_ledger_and_its_end_later() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let fetch = request("http_fetch", &json!({"url": "https://example.com/"}));
    let held = stand(&engine, &who, fetch).await;
    assert_eq!(held.state.name(), "held", "the control: the built-in rules hold it");
    engine.cancel(&who, held.asked.id).await.expect("works here");
    let query = EntryQuery { call: Some(held.asked.id), limit: 9, ..EntryQuery::default() };
    let about = engine.store.entries(query).await.expect("works here");
    assert_eq!(kinds(&about), [EntryKind::Decision, EntryKind::Call]);
    assert_eq!(said_in(&about[0].sealed), held.decision);
    audit(stopped(engine).await.as_ref()).await.expect("it holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exported_call_is_verified_by_nothing_but_its_file() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let (who, stranger) = (principal("acme"), principal("other"));
    let call = stand(&engine, &who, echo("hi")).await;
    let ledger = &engine.ledger;
    let export = async |who, artifacts| {
        let selection = Selection::Call(call.asked.id);
        ledger.export(who, selection, artifacts, now()).await.expect("works here")
    };
    let file = export(&who, true).await.expect("there is something").render();
    let key = SigningKey::from_seed([5; 32]).public().id();
    let verified = Bundle::verify(file.as_bytes(), Some(key)).expect("it holds");
    assert_eq!(verified.entries.len(), 1);
    assert_eq!(verified.artifacts, Some(2), "arguments and result");
    assert!(export(&stranger, true).await.is_none(), "a foreign call is none");
    let bare = export(&who, false).await.expect("there is something").render();
    assert_eq!(Bundle::verify(bare.as_bytes(), None).expect("it holds").artifacts, None);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_call_is_under_its_checkpoint_and_signed_when_a_proof_is_asked_for() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    for number in 0..300 {
        stand(&engine, &who, echo(&number.to_string())).await;
    }
    let last = stand(&engine, &who, echo("the last")).await;
    let export = async || {
        let selection = Selection::Call(last.asked.id);
        let file = engine.ledger.export(&who, selection, false, now()).await;
        file.expect("works here").expect("there is something").render()
    };
    let key = SigningKey::from_seed([5; 32]).public().id();
    let verified = Bundle::verify(export().await.as_bytes(), Some(key)).expect("it holds");
    assert!(verified.entries[0].is_signed);
    let audited = audit(stopped(engine).await.as_ref()).await.expect("it holds");
    assert_eq!((audited.unsigned, audited.kinds[&EntryKind::Call]), (301, 301), "none is kept");
}

/// The key of its time is gone, so the key in force signs for what stands under its own checkpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_an_earlier_key_is_proved_by_the_key_in_force() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let who = principal("acme");
    let call = stand(&engine, &who, echo("by the first key")).await;
    let ledger = engine.ledger.clone().with_keys(Arc::new(Next));
    let rotated = ledger.rotate(now()).await.expect("works here");
    let file = ledger.export(&who, Selection::Call(call.asked.id), false, now()).await;
    let file = file.expect("works here").expect("there is something").render();
    let verified = Bundle::verify(file.as_bytes(), Some(rotated.key)).expect("it holds");
    assert_eq!(verified.entries.len(), 1);
    assert!(verified.entries[0].index < rotated.entry);
    let bundle: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let signed_by = &bundle["entries"][0]["envelope"]["signatures"][0]["keyid"];
    assert_eq!(*signed_by, rotated.key.hex());
    audit(stopped(engine).await.as_ref()).await.expect("it holds");
}

/// As after a crash: nothing is stopped in good order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_entry_is_under_a_checkpoint_whenever_the_server_dies() {
    let dir = tempfile::tempdir().expect("works here");
    let who = principal("acme");
    let first = engine(dir.path()).await;
    for number in 0..600 {
        stand(&first, &who, echo(&number.to_string())).await;
    }
    let last = stand(&first, &who, echo("the last")).await;
    first.db.close();
    let second = engine(dir.path()).await;
    let export = second.ledger.export(&who, Selection::Call(last.asked.id), false, now());
    let file = export.await.expect("works here").expect("there is something").render();
    Bundle::verify(file.as_bytes(), None).expect("signed when it is asked for");
    let store = stopped(second).await;
    let size = *store.grown().borrow();
    assert!(size > 600, "{size}");
    let audited = audit(store.as_ref()).await.expect("it holds");
    assert_eq!(audited.checkpoint.map(|(size, _)| size), Some(size));
    assert!(store.tile(0, 0).await.expect("works here").is_some(), "full tiles are kept");
    consistent(store.as_ref()).await;
}

/// Each checkpoint is provably the beginning of the newest.
async fn consistent(store: &dyn Store) {
    let read = |note: &str| Note::parse(note).and_then(|note| Checkpoint::of(&note));
    let all = store.checkpoints(0, 1_000).await.expect("works here");
    let newest = all.last().and_then(|newest| read(&newest.note)).expect("works here");
    for Signed { size, note } in &all {
        let old = read(note).expect("works here");
        let proof = ringfence_engine::ledger_consistency(store, *size, newest.size).await;
        let (old, new) = ((old.size, old.root), (newest.size, newest.root));
        let proof = proof.expect("works here");
        merkle::verify_consistency(old, new, &proof).expect("it only grew");
    }
}

/// Keeps nothing, and knows the next key.
#[derive(Debug)]
struct Next;

impl Keys for Next {
    fn prepare(&self) -> std::io::Result<SigningKey> {
        Ok(SigningKey::from_seed([6; 32]))
    }

    fn take_over(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_in_force_opens_nothing_and_its_successor_does() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    stand(&engine, &principal("acme"), echo("hi")).await;
    engine.close(Duration::from_secs(5)).await.expect("works here");
    let db = ringfence_sqlite::Db::open(
        &dir.path().join("state.db"),
        &ringfence_sqlite::Options::default(),
    );
    let store = SqliteStore::open(db.expect("works here"), &dir.path().join("blobs")).await;
    let store: Arc<dyn Store> = Arc::new(store.expect("works here"));
    let key = |seed| SigningKey::from_seed([seed; 32]);
    let open = async |seed| Ledger::open(store.clone(), key(seed), now()).await;
    assert!(matches!(open(6).await, Err(OpenError::OtherKey { .. })));
    let old = open(5).await.expect("the key in force");
    assert!(matches!(old.rotate(now()).await, Err(NotRotated::NoKeys)));
    old.with_keys(Arc::new(Next)).rotate(now()).await.expect("works here");
    assert!(matches!(open(5).await, Err(OpenError::OtherKey { .. })));
    open(6).await.expect("the key in force");
    let audited = audit(store.as_ref()).await.expect("entries of both keys hold");
    assert_eq!(audited.unsigned, 1, "the call");
    assert_eq!(audited.chain.expect("it has keys").keys().count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_comes_and_goes_is_on_the_ledger() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path()).await;
    let tools = async || {
        let query = EntryQuery { kind: Some(EntryKind::Tool), limit: 99, ..EntryQuery::default() };
        let found = engine.store.entries(query).await.expect("works here");
        let change = |placed: &Placed| said_in::<ToolChange>(&placed.sealed).expect("a change");
        found.iter().map(change).collect::<Vec<_>>()
    };
    let before = tools().await;
    let known = engine.registry.catalogue();
    let recorded: Vec<_> = before.iter().map(|change| change.tool.clone()).collect();
    let there: Vec<_> = known.entries().iter().map(|entry| entry.tool.reference()).collect();
    assert_eq!(recorded, there);
    engine.stop(Duration::from_secs(5)).await;
}
