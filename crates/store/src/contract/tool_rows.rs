//! State of tool versions.

use std::sync::Arc;

use ringfence_types::{
    About, Digest, EntryKind, Json, KeyId, Origin, Sealed, Timestamp, ToolPermissions, ToolRef,
    ToolStatus,
};
use uuid::Uuid;

use super::samples::sealed;
use crate::{Error, NewToolRow, PAGE, Store, ToolRow, ToolRowDetails};

fn row(name: &str) -> ToolRow {
    let definition = Json::plain(&serde_json::json!({"name": name, "unique": Uuid::now_v7()}));
    let at = Timestamp::from_micros(1_000_000);
    let asks = ToolPermissions { hosts: vec!["api.example".into()], ..ToolPermissions::default() };
    ToolRow {
        tool: ToolRef {
            name: name.parse().expect("a name"),
            version: "1.0.0".to_owned(),
            digest: Digest::of_json(&definition),
        },
        status: ToolStatus::Proposed,
        definition: Some(definition),
        about: ToolRowDetails {
            origin: Origin::Manifest,
            source: "tool.yaml".to_owned(),
            asks,
            grants: None,
            replaces: Some(Digest::of(b"before")),
            by: Some(KeyId(Uuid::now_v7())),
            why: "tried \u{e9}".to_owned(),
            changed_at: at,
            created_at: at,
            stops_running: false,
        },
    }
}

fn entry() -> Sealed {
    sealed(EntryKind::Tool, About::server(Timestamp::from_micros(1)), &Uuid::now_v7())
}

async fn put(store: &Arc<dyn Store>, seen: Option<u64>, row: &ToolRow) -> Result<(), Error> {
    store.put_tools(vec![NewToolRow { seen, row: row.clone() }], vec![entry()]).await
}

/// A row reads back whole; a change keeps its definition and is found after the revision before it.
pub async fn the_state_of_a_tool_reads_back_whole(store: &Arc<dyn Store>) {
    let first = row("kept");
    put(store, None, &first).await.expect("a new row");
    let found = store.tool(first.tool.digest).await.expect("an answer");
    let (revision, read) = found.expect("the row");
    assert_eq!(read, first);
    let grants = Some(first.about.asks.clone());
    let about = ToolRowDetails { grants, why: String::new(), ..first.about.clone() };
    let changed = ToolRow { status: ToolStatus::Approved, about, ..first.clone() };
    put(store, Some(revision), &changed).await.expect("a change");
    let after = store.tools_after(revision, PAGE).await.expect("an answer");
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!(after[0].1, changed);
    assert!(after[0].0 > revision);
    assert_eq!(store.tool(Digest::of(b"none")).await.expect("an answer"), None);
}

/// A change of what is not the newest row changes nothing, and its entries are not written.
pub async fn a_stale_change_of_a_tool_changes_nothing(store: &Arc<dyn Store>) {
    let (one, two) = (row("stale"), row("stale"));
    put(store, None, &one).await.expect("a new row");
    let (revision, _) = store.tool(one.tool.digest).await.expect("an answer").expect("the row");
    let size = *store.grown().borrow();
    let again = put(store, None, &one).await;
    assert!(matches!(again, Err(Error::Stale)), "{again:?}");
    let unseen = put(store, Some(revision + 1_000), &one).await;
    assert!(matches!(unseen, Err(Error::Stale)), "{unseen:?}");
    // All of it or nothing: the first row is new and would be written.
    let both = vec![
        NewToolRow { seen: None, row: two.clone() },
        NewToolRow { seen: None, row: one.clone() },
    ];
    let both = store.put_tools(both, vec![entry()]).await;
    assert!(matches!(both, Err(Error::Stale)), "{both:?}");
    assert_eq!(store.tool(two.tool.digest).await.expect("an answer"), None);
    assert_eq!(*store.grown().borrow(), size);
    assert_eq!(store.tool(one.tool.digest).await.expect("an answer"), Some((revision, one)));
}

/// A reader that follows the revisions finds every change once, in order; the ledger grows with each.
pub async fn changes_of_tools_are_followed_by_revision(store: &Arc<dyn Store>) {
    let mut start = 0;
    loop {
        let page = store.tools_after(start, PAGE).await.expect("an answer");
        let Some((revision, _)) = page.last() else { break };
        start = *revision;
    }
    let all = [row("one"), row("two"), row("three")];
    let mut grown = store.grown();
    let size = *grown.borrow_and_update();
    for row in &all {
        put(store, None, row).await.expect("a new row");
    }
    assert_eq!(*grown.borrow_and_update(), size + 3);
    let mut seen = Vec::new();
    let mut after = start;
    loop {
        let page = store.tools_after(after, 2).await.expect("an answer");
        assert!(page.len() <= 2);
        let Some((revision, _)) = page.last() else { break };
        assert!(*revision > after);
        after = *revision;
        seen.extend(page.into_iter().map(|(_, row)| row));
    }
    assert_eq!(seen, all);
}
