//! The contract of [`Store`], executable: one function per sentence.
//!
//! Each works on tenants and ids of its own, so all may run on one store, one after the other and
//! repeatedly.
//! Surviving a crash is not here: it takes a process to kill, so each backend has its own test.

mod approvals;
mod blobs;
mod calls;
mod canaries;
mod decisions;
mod facts;
mod keys;
mod ledger;
mod lists;
mod memos;
mod once;
pub mod samples;
mod sessions;

use std::sync::Arc;

pub use self::{
    approvals::{
        an_approval_ends_with_the_key_that_gave_it, an_approval_is_spent_in_the_commit,
        an_approval_reads_back_whole, of_many_who_spend_as_many_win_as_may,
        the_approvals_that_a_call_may_use_are_found, the_first_revocation_of_an_approval_stays,
    },
    blobs::{bytes_are_found_by_digest_in_parts, what_is_refused_leaves_no_bytes},
    calls::{
        a_call_reads_back_whole, a_final_call_never_changes, an_id_that_exists_is_stale,
        of_many_who_race_one_wins, stale_changes_nothing,
    },
    canaries::findings_add_up_and_the_newest_are_kept,
    decisions::{
        a_decision_reads_back_whole, a_decision_shares_the_commit_of_its_call,
        decisions_are_found_by_time_page_by_page, decisions_of_others_are_behind_a_wall,
        what_is_masked_replaces_what_was_asked,
    },
    facts::{
        a_commit_is_never_split, a_cursor_never_moves_back, facts_of_a_call_are_in_order,
        the_newest_position_changes_with_each_commit, who_follows_the_commits_misses_none,
        who_follows_the_facts_misses_none,
    },
    keys::{
        a_key_and_its_end_are_on_the_ledger, a_key_is_touched_forwards, a_key_reads_back_whole,
        a_repair_shares_the_commit_of_its_entries, the_first_revocation_stays,
    },
    ledger::{
        a_checkpoint_and_its_tiles_share_the_commit,
        a_ledger_that_somebody_else_changed_takes_nothing, a_signature_may_come_later,
        an_entry_about_no_call_of_ours_is_refused, an_entry_shares_its_commit,
        entries_are_found_by_what_they_concern, entries_have_indexes_without_a_gap,
        entries_of_others_are_never_found,
    },
    lists::{
        calls_are_listed_newest_first_page_by_page, filters_find_what_they_say,
        no_answer_is_longer_than_a_page, tenants_are_walls, unfinished_calls_are_oldest_first,
    },
    memos::{
        a_memory_shares_the_commit_of_its_call, a_remembered_call_reads_back_with_its_entry,
        no_more_is_remembered_than_may_be_and_each_tenant_for_itself,
    },
    once::{
        a_day_later_the_key_is_free, an_idempotency_key_makes_one_call, of_equal_requests_one_wins,
    },
    sessions::{session_events_are_in_order, session_events_of_a_record_share_its_commit},
};
use crate::Store;

/// All of it. Panics, with what was expected, where the store breaks its promise.
pub async fn run(store: Arc<dyn Store>) {
    a_call_reads_back_whole(&store).await;
    stale_changes_nothing(&store).await;
    an_id_that_exists_is_stale(&store).await;
    a_final_call_never_changes(&store).await;
    of_many_who_race_one_wins(&store).await;
    an_idempotency_key_makes_one_call(&store).await;
    a_day_later_the_key_is_free(&store).await;
    of_equal_requests_one_wins(&store).await;
    facts_of_a_call_are_in_order(&store).await;
    who_follows_the_facts_misses_none(&store).await;
    who_follows_the_commits_misses_none(&store).await;
    a_commit_is_never_split(&store).await;
    the_newest_position_changes_with_each_commit(&store).await;
    a_cursor_never_moves_back(&store).await;
    calls_are_listed_newest_first_page_by_page(&store).await;
    filters_find_what_they_say(&store).await;
    unfinished_calls_are_oldest_first(&store).await;
    tenants_are_walls(&store).await;
    no_answer_is_longer_than_a_page(&store).await;
    bytes_are_found_by_digest_in_parts(&store).await;
    what_is_refused_leaves_no_bytes(&store).await;
    a_key_reads_back_whole(&store).await;
    the_first_revocation_stays(&store).await;
    a_key_is_touched_forwards(&store).await;
    a_repair_shares_the_commit_of_its_entries(&store).await;
    an_approval_reads_back_whole(&store).await;
    an_approval_is_spent_in_the_commit(&store).await;
    of_many_who_spend_as_many_win_as_may(&store).await;
    the_first_revocation_of_an_approval_stays(&store).await;
    the_approvals_that_a_call_may_use_are_found(&store).await;
    an_approval_ends_with_the_key_that_gave_it(&store).await;
    a_decision_reads_back_whole(&store).await;
    a_decision_shares_the_commit_of_its_call(&store).await;
    decisions_are_found_by_time_page_by_page(&store).await;
    decisions_of_others_are_behind_a_wall(&store).await;
    what_is_masked_replaces_what_was_asked(&store).await;
    findings_add_up_and_the_newest_are_kept(&store).await;
    a_remembered_call_reads_back_with_its_entry(&store).await;
    a_memory_shares_the_commit_of_its_call(&store).await;
    no_more_is_remembered_than_may_be_and_each_tenant_for_itself(&store).await;
    a_key_and_its_end_are_on_the_ledger(&store).await;
    entries_have_indexes_without_a_gap(&store).await;
    an_entry_shares_its_commit(&store).await;
    an_entry_about_no_call_of_ours_is_refused(&store).await;
    entries_are_found_by_what_they_concern(&store).await;
    entries_of_others_are_never_found(&store).await;
    session_events_are_in_order(&store).await;
    session_events_of_a_record_share_its_commit(&store).await;
    // Last, because what they appoint stays.
    a_checkpoint_and_its_tiles_share_the_commit(&store).await;
    a_ledger_that_somebody_else_changed_takes_nothing(&store).await;
    a_signature_may_come_later(&store).await;
}
