//! Data that tools keep between their calls.

use std::sync::Arc;

use ringfence_types::{Timestamp, ToolName};
use uuid::Uuid;

use super::samples::{AT, tenant};
use crate::{
    MAX_TOOL_DATA_NAMES, Store, ToolDataChange, ToolDataChanged, ToolDataKind, ToolDataScope,
    ToolDataTotals, ToolDatum,
};

fn tool() -> ToolName {
    format!("t{}", Uuid::now_v7().simple()).parse().expect("a name")
}

fn scope(kind: ToolDataKind) -> ToolDataScope {
    ToolDataScope { tenant: tenant(), tool: tool(), kind }
}

fn datum(name: &str, bytes: &[u8]) -> ToolDatum {
    ToolDatum { name: name.to_owned(), bytes: bytes.to_vec() }
}

fn change(of: &ToolDataScope, put: Vec<ToolDatum>, remove: &[&str], max: u64) -> ToolDataChange {
    let remove = remove.iter().map(|&name| name.to_owned()).collect();
    let at = Timestamp::from_micros(AT);
    ToolDataChange { of: of.clone(), put, remove, max_bytes: max, at }
}

fn done(bytes: u64, names: u64) -> ToolDataChanged {
    ToolDataChanged::Done(ToolDataTotals { bytes, names })
}

/// Data reads back whole, by name and all of it, until it is removed; tenants, tools and kinds are walls.
pub async fn data_of_a_tool_reads_back_whole_until_it_is_removed(store: &Arc<dyn Store>) {
    let of = scope(ToolDataKind::State);
    let (one, two) = (datum("b/ü", b"\0\xff"), datum("a", b""));
    let made = change(&of, vec![one.clone(), two.clone()], &["none"], 100);
    assert_eq!(store.change_tool_data(made).await.expect("an answer"), done(7, 2));
    let all = store.tool_data(&of, None).await.expect("an answer");
    assert_eq!(all, [two.clone(), one.clone()]);
    let only = store.tool_data(&of, Some("b/ü")).await.expect("an answer");
    assert_eq!(only, std::slice::from_ref(&one));
    let listed = store.tool_data_names(&of).await.expect("an answer");
    let shown: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.size)).collect();
    assert_eq!(shown, [("a", 0), ("b/ü", 2)]);
    assert_eq!(listed[0].changed_at, Timestamp::from_micros(AT));
    for other in [
        ToolDataScope { tenant: tenant(), ..of.clone() },
        ToolDataScope { tool: tool(), ..of.clone() },
        ToolDataScope { kind: ToolDataKind::File, ..of.clone() },
    ] {
        assert_eq!(store.tool_data(&other, None).await.expect("an answer"), []);
        assert_eq!(store.tool_data_names(&other).await.expect("an answer"), []);
    }
    let next = change(&of, vec![datum("a", b"new")], &["b/ü"], 100);
    assert_eq!(store.change_tool_data(next).await.expect("an answer"), done(4, 1));
    let all = store.tool_data(&of, None).await.expect("an answer");
    assert_eq!(all, [datum("a", b"new")]);
    let foreign = ToolDataScope { tenant: tenant(), ..of.clone() };
    let put = change(&foreign, vec![two], &[], 100);
    store.change_tool_data(put).await.expect("an answer");
    assert!(store.has_tool_data(&of.tool).await.expect("an answer"));
    let removed = store.remove_tool_data(Some(&of.tenant), &of.tool).await.expect("an answer");
    assert_eq!(removed, 1);
    assert_eq!(store.tool_data(&of, None).await.expect("an answer"), []);
    assert_eq!(store.tool_data_names(&foreign).await.expect("an answer").len(), 1);
    assert_eq!(store.remove_tool_data(None, &of.tool).await.expect("an answer"), 1);
    assert!(!store.has_tool_data(&of.tool).await.expect("an answer"));
}

/// A change beyond the quota changes nothing; one that makes the data smaller is always made.
pub async fn data_of_a_tool_keeps_to_its_quota(store: &Arc<dyn Store>) {
    let of = scope(ToolDataKind::File);
    let put =
        |name: &str, size: usize, max| change(&of, vec![datum(name, &vec![7; size])], &[], max);
    assert_eq!(store.change_tool_data(put("a", 9, 20)).await.expect("an answer"), done(10, 1));
    let refused = store.change_tool_data(put("b", 10, 20)).await.expect("an answer");
    assert_eq!(refused, ToolDataChanged::TooLarge(ToolDataTotals { bytes: 21, names: 2 }));
    let names = store.tool_data_names(&of).await.expect("an answer");
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(store.change_tool_data(put("b", 9, 20)).await.expect("an answer"), done(20, 2));
    // The quota was lowered since.
    assert_eq!(store.change_tool_data(put("b", 5, 8)).await.expect("an answer"), done(16, 2));
    let grows = store.change_tool_data(put("b", 6, 8)).await.expect("an answer");
    assert!(matches!(grows, ToolDataChanged::TooLarge(_)), "{grows:?}");
    let many = (0..=MAX_TOOL_DATA_NAMES).map(|number| datum(&format!("n{number}"), b""));
    let many = change(&of, many.collect(), &[], 1 << 30);
    let refused = store.change_tool_data(many).await.expect("an answer");
    assert!(matches!(refused, ToolDataChanged::TooLarge(_)), "{refused:?}");
}

/// Many changes at once that fit one by one: no more are made than fit together.
pub async fn of_many_changes_of_data_no_more_are_made_than_fit(store: &Arc<dyn Store>) {
    let of = scope(ToolDataKind::State);
    let changes = (0..8).map(|number| {
        let (store, of) = (store.clone(), of.clone());
        let put = change(&of, vec![datum(&number.to_string(), &[1; 9])], &[], 30);
        async move { store.change_tool_data(put).await.expect("an answer") }
    });
    let made = futures_util::future::join_all(changes).await;
    let made = made.iter().filter(|made| matches!(made, ToolDataChanged::Done(_))).count();
    assert_eq!(made, 3);
    assert_eq!(store.tool_data_names(&of).await.expect("an answer").len(), 3);
}
