//! The contract of [`Bus`], executable: one function per sentence.
//!
//! Each works on topics and groups of its own. Surviving a crash is not here: it takes a process
//! to kill, so each backend has its own test.

mod groups;
mod order;
mod poison;
mod room;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use self::{
    groups::{
        a_cancelled_wait_loses_nothing, a_new_group_begins_with_what_is_new,
        a_paused_topic_delivers_nothing_until_resumed, a_topic_that_a_group_joined_is_read,
        every_group_gets_every_message, who_goes_leaves_its_share_to_the_others,
        within_a_group_each_goes_to_one_member,
    },
    order::{
        a_rejected_message_comes_before_those_behind_it, equal_keys_stay_in_order,
        headers_keys_and_payloads_arrive_as_they_were, the_delay_of_a_rejection_is_kept,
        what_was_not_committed_comes_again_with_a_higher_attempt,
    },
    poison::{
        a_dead_letter_can_be_discarded, a_dead_letter_can_be_revived,
        a_postponed_message_comes_again_however_often, poison_goes_to_the_dead_letters,
        what_cannot_be_handled_goes_to_the_dead_letters_at_once,
    },
    room::{
        a_full_topic_takes_nothing_until_there_is_room, a_message_of_the_largest_size_is_taken,
        all_messages_are_taken_or_none, an_unread_topic_keeps_the_newest,
    },
};
use crate::{Bus, Delivery, Group, Member, Message};

/// Time limit for a message that must come.
const NEXT_TIMEOUT: Duration = Duration::from_secs(60);

/// Promises of every backend. Panics, with what was expected, where the bus breaks one.
pub async fn core(bus: &Arc<dyn Bus>) {
    every_group_gets_every_message(bus).await;
    a_new_group_begins_with_what_is_new(bus).await;
    a_topic_that_a_group_joined_is_read(bus).await;
    within_a_group_each_goes_to_one_member(bus).await;
    who_goes_leaves_its_share_to_the_others(bus).await;
    a_paused_topic_delivers_nothing_until_resumed(bus).await;
    a_cancelled_wait_loses_nothing(bus).await;
    headers_keys_and_payloads_arrive_as_they_were(bus).await;
    equal_keys_stay_in_order(bus).await;
    a_rejected_message_comes_before_those_behind_it(bus).await;
    the_delay_of_a_rejection_is_kept(bus).await;
    what_was_not_committed_comes_again_with_a_higher_attempt(bus).await;
    poison_goes_to_the_dead_letters(bus).await;
    what_cannot_be_handled_goes_to_the_dead_letters_at_once(bus).await;
    a_postponed_message_comes_again_however_often(bus).await;
    a_dead_letter_can_be_revived(bus).await;
    a_dead_letter_can_be_discarded(bus).await;
    all_messages_are_taken_or_none(bus).await;
    a_message_of_the_largest_size_is_taken(bus).await;
}

/// Promises of a backend whose topics hold at most `topic_messages`.
pub async fn bounded(bus: &Arc<dyn Bus>, topic_messages: usize) {
    a_full_topic_takes_nothing_until_there_is_room(bus, topic_messages).await;
    an_unread_topic_keeps_the_newest(bus, topic_messages).await;
}

/// Name that is used once in this process.
fn fresh(kind: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = std::process::id();
    format!("contract-{kind}-{id}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn message(topic: &str, key: Option<&str>, payload: &str) -> Message {
    Message {
        topic: topic.to_owned(),
        key: key.map(|key| key.as_bytes().to_vec()),
        headers: Vec::new(),
        payload: payload.as_bytes().to_vec(),
    }
}

async fn publish(bus: &Arc<dyn Bus>, topic: &str, key: Option<&str>, payload: &str) {
    bus.publish(vec![message(topic, key, payload)]).await.expect("published");
}

async fn join(bus: &Arc<dyn Bus>, group: &str, topics: &[&str]) -> Box<dyn Member> {
    let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let group = Group { name: group.to_owned(), topics, from_oldest: true };
    bus.join(group).await.expect("joined")
}

/// The next message, which must come.
async fn next(member: &mut Box<dyn Member>) -> Delivery {
    let next = tokio::time::timeout(NEXT_TIMEOUT, member.next()).await;
    next.expect("a message is due").expect("a message")
}

/// The next message's payload, committed.
async fn take(member: &mut Box<dyn Member>) -> String {
    let delivery = next(member).await;
    member.commit(&delivery).await.expect("committed");
    text(&delivery)
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.payload.clone()).expect("text")
}
