//! Each sentence of the contract, on a bus of its own.

use std::sync::Arc;

use ringfence_bus::{Bus, Options, contract};

use crate::support::open;

const TOPIC_MESSAGES: u64 = 120;

async fn bus(folder: &std::path::Path) -> Arc<dyn Bus> {
    let options = Options { topic_messages: TOPIC_MESSAGES, ..Options::default() };
    Arc::new(open(folder, options, Arc::default()).await)
}

macro_rules! sentences {
    ($($sentence:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $sentence() {
            let folder = tempfile::tempdir().unwrap();
            contract::$sentence(&bus(folder.path()).await).await;
        }
    )*};
}

sentences! {
    every_group_gets_every_message
    a_new_group_begins_with_what_is_new
    a_topic_that_a_group_joined_is_read
    within_a_group_each_goes_to_one_member
    who_goes_leaves_its_share_to_the_others
    a_paused_topic_delivers_nothing_until_resumed
    a_cancelled_wait_loses_nothing
    headers_keys_and_payloads_arrive_as_they_were
    equal_keys_stay_in_order
    a_rejected_message_comes_before_those_behind_it
    the_delay_of_a_rejection_is_kept
    what_was_not_committed_comes_again_with_a_higher_attempt
    poison_goes_to_the_dead_letters
    what_cannot_be_handled_goes_to_the_dead_letters_at_once
    a_postponed_message_comes_again_however_often
    a_dead_letter_can_be_revived
    a_dead_letter_can_be_discarded
    all_messages_are_taken_or_none
    a_message_of_the_largest_size_is_taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_topic_takes_nothing_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus(folder.path()).await;
    contract::a_full_topic_takes_nothing_until_there_is_room(&bus, TOPIC_MESSAGES as usize).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_topic_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus(folder.path()).await;
    contract::an_unread_topic_keeps_the_newest(&bus, TOPIC_MESSAGES as usize).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_contract_holds_twice_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let bus = bus(folder.path()).await;
        contract::core(&bus).await;
        contract::bounded(&bus, TOPIC_MESSAGES as usize).await;
    }
}
