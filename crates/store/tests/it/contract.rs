//! Each sentence of the contract, on a store of its own.

use ringfence_store::contract;

use crate::support::open;

macro_rules! sentences {
    ($($sentence:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $sentence() {
            let folder = tempfile::tempdir().unwrap();
            let (_db, store) = open(folder.path()).await;
            contract::$sentence(&store).await;
        }
    )*};
}

sentences! {
    a_call_reads_back_whole
    stale_changes_nothing
    an_id_that_exists_is_stale
    a_final_call_never_changes
    of_many_who_race_one_wins
    an_idempotency_key_makes_one_call
    a_day_later_the_key_is_free
    of_equal_requests_one_wins
    facts_of_a_call_are_in_order
    who_follows_the_facts_misses_none
    a_commit_is_never_split
    the_newest_position_changes_with_each_commit
    a_cursor_never_moves_back
    calls_are_listed_newest_first_page_by_page
    filters_find_what_they_say
    unfinished_calls_are_oldest_first
    tenants_are_walls
    no_answer_is_longer_than_a_page
    bytes_are_found_by_digest_in_parts
    what_is_refused_leaves_no_bytes
    a_key_reads_back_whole
    the_first_revocation_stays
    a_key_is_touched_forwards
    a_key_and_its_end_are_on_the_ledger
    entries_have_indexes_without_a_gap
    an_entry_shares_its_commit
    an_entry_about_no_call_of_ours_is_refused
    entries_are_found_by_what_they_concern
    entries_of_others_are_never_found
    a_checkpoint_and_its_tiles_share_the_commit
    a_ledger_that_somebody_else_changed_takes_nothing
    a_signature_may_come_later
    session_events_are_in_order
    session_events_of_a_record_share_its_commit
}

/// A store with a past keeps it as well as a fresh one; so nothing depends on being alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_contract_holds_twice_on_one_store_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (_db, store) = open(folder.path()).await;
        contract::run(store).await;
    }
}

/// Without anybody who signs for the commit nothing would show that it was changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_without_a_signature_needs_a_notary() {
    use ringfence_types::{About, EntryKind, Sealed, Timestamp};
    let folder = tempfile::tempdir().unwrap();
    let (_db, store) = open(folder.path()).await;
    let about = About::server(Timestamp::from_micros(0));
    let signed = contract::samples::sealed(EntryKind::Tool, about, &1);
    let bare = Sealed { signature: None, ..signed.clone() };
    store.append(vec![signed.clone(), bare]).await.expect_err("one of them is not signed");
    store.append(vec![signed]).await.expect("the control");
}
