//! The contract of [`Store`], executable: one module per port, one function per sentence.
//!
//! Each works on tenants and ids of its own, so all may run on one store, one after the other and
//! repeatedly.
//! Surviving a crash is not here: it takes a process to kill, so each backend has its own test.

mod activity;
mod approvals;
mod artifacts;
mod blobs;
mod budgets;
mod calls;
mod canaries;
mod decisions;
mod erasure;
mod facts;
mod keys;
pub mod large_blobs;
mod lists;
mod log;
mod mcp;
mod memos;
mod once;
mod plans;
mod processes;
pub mod samples;
mod secrets;
mod sessions;
mod tool_data;
mod tool_rows;
mod uploads;
mod usage;

use std::sync::Arc;

use crate::Store;

/// Has checkpoints signed in every commit from now on, so that sentences about them may follow others.
pub async fn sign(store: &Arc<dyn Store>) {
    log::sign(store).await;
}

/// Hands all sentences of the contract to a macro: `store` are about one store, `stores` about two
/// processes that use one database.
#[macro_export]
macro_rules! contract_sentences {
    ($with:ident) => {
        $with! {
            store {
                calls: a_call_reads_back_whole stale_changes_nothing an_id_that_exists_is_stale a_final_call_never_changes of_many_who_race_one_wins;
                once: an_idempotency_key_makes_one_call a_day_later_the_key_is_free a_derived_key_does_not_expire of_equal_requests_one_wins;
                facts: facts_of_a_call_are_in_order who_follows_the_facts_misses_none who_follows_the_commits_misses_none a_commit_is_never_split the_newest_position_changes_with_each_commit a_cursor_never_moves_back;
                lists: calls_are_listed_newest_first_page_by_page filters_find_what_they_say children_are_found_by_their_parent tenants_are_walls no_answer_is_longer_than_a_page;
                blobs: bytes_are_found_by_digest_in_parts what_is_refused_leaves_no_bytes a_blob_stays_until_its_last_owner_lets_go a_blob_that_is_used_again_stays a_call_owns_the_output_that_it_repeats;
                artifacts: artifacts_of_a_record_share_its_commit an_artifact_keeps_its_bytes_until_it_is_removed versions_of_an_artifact_grow_by_one of_many_who_add_versions_each_has_its_own verdicts_and_labels_are_added artifacts_are_found_by_what_they_are artifacts_of_others_are_never_found lineage_goes_both_ways_within_bounds;
                keys: a_key_reads_back_whole the_first_revocation_stays the_last_admin_key_stays a_key_is_touched_forwards a_key_and_its_end_are_on_the_ledger a_repair_shares_the_commit_of_its_entries;
                approvals: an_approval_reads_back_whole an_approval_is_spent_in_the_commit of_many_who_spend_as_many_win_as_may the_first_revocation_of_an_approval_stays the_approvals_that_a_call_may_use_are_found an_approval_ends_with_the_key_that_gave_it;
                decisions: a_decision_reads_back_whole a_decision_shares_the_commit_of_its_call decisions_are_found_by_time_page_by_page decisions_of_others_are_behind_a_wall what_is_masked_replaces_what_was_asked;
                erasure: erased_records_go_and_entries_stay a_call_under_way_is_not_erased a_call_is_erased_with_the_calls_that_it_made expired_calls_are_found_by_their_ends erased_events_free_no_position decisions_about_other_actions_expire;
                canaries: findings_add_up_and_the_newest_are_kept;
                mcp: an_mcp_server_reads_back_whole_until_it_is_removed;
                plans: a_plan_reads_back_whole a_stale_change_of_a_plan_changes_nothing events_of_a_plan_are_numbered_without_a_gap plans_are_listed_newest_first plans_of_others_are_never_found an_open_plan_is_claimed_once a_plan_that_is_not_open_is_removed;
                memos: a_remembered_call_reads_back_with_its_entry a_memory_shares_the_commit_of_its_call no_more_is_remembered_than_may_be_and_each_tenant_for_itself;
                budgets: a_budget_reads_back_whole_until_it_is_removed;
                secrets: a_secret_reads_back_whole_until_it_is_removed a_secret_that_changed_is_not_resealed;
                activity: ended_calls_are_counted_by_time_and_end activity_has_a_bounded_past;
                usage: the_end_of_a_call_is_added_up_once usage_is_added_up_as_asked tokens_are_added_up;
                tool_rows: the_state_of_a_tool_reads_back_whole a_stale_change_of_a_tool_changes_nothing changes_of_tools_are_followed_by_revision;
                tool_data: data_of_a_tool_reads_back_whole_until_it_is_removed data_of_a_tool_keeps_to_its_quota of_many_changes_of_data_no_more_are_made_than_fit;
                uploads: an_upload_reads_back_whole_until_it_is_removed a_version_of_a_skill_is_uploaded_once;
                sessions: session_events_are_in_order session_events_of_a_record_share_its_commit sessions_are_listed_by_their_newest_event;
                log: entries_have_indexes_without_a_gap an_entry_shares_its_commit an_entry_about_no_call_of_ours_is_refused entries_are_found_by_what_they_concern entries_of_others_are_never_found a_checkpoint_and_its_tiles_share_the_commit a_ledger_that_is_not_as_its_checkpoint_says_takes_nothing an_entry_without_a_signature_reads_back_without_one;
            }
            stores {
                processes: a_process_finds_itself_as_it_describes_itself unfinished_calls_are_oldest_first a_call_belongs_to_the_process_that_it_is_under_way_in entries_of_another_process_are_handed_to_the_signer uploads_of_another_process_are_found a_call_that_is_left_to_the_workers_is_taken_once a_call_that_is_left_to_one_worker_is_taken_by_it;
            }
        }
    };
}

macro_rules! suite {
    (
        store { $($module:ident: $($sentence:ident)*;)* }
        stores { $($pairs:ident: $($pair:ident)*;)* }
    ) => {
        pub use self::{$($module::{$($sentence),*},)* $($pairs::{$($pair),*},)*};

        /// All of it, on a store and on the same database as a process sees it that was started later.
        /// Panics, with what was expected, where the store breaks its promise.
        pub async fn run(store: Arc<dyn Store>, later: Arc<dyn Store>) {
            log::sign(&store).await;
            log::sign(&later).await;
            $($($sentence(&store).await;)*)*
            $($($pair(&store, &later).await;)*)*
        }
    };
}

contract_sentences!(suite);
