//! Groups and their members.

use std::{collections::BTreeSet, sync::Arc};

use super::{fresh, join, next, publish, take, text};
use crate::{Bus, Error, Group};

/// Each group gets every message.
pub async fn every_group_gets_every_message(bus: &Arc<dyn Bus>) {
    let topic = fresh("topic");
    let expected: BTreeSet<_> = (0..20).map(|n| n.to_string()).collect();
    for payload in &expected {
        publish(bus, &topic, None, payload).await;
    }
    for group in [fresh("group"), fresh("group")] {
        let mut member = join(bus, &group, &[&topic]).await;
        let mut found = BTreeSet::new();
        for _ in &expected {
            found.insert(take(&mut member).await);
        }
        assert_eq!(found, expected);
    }
}

/// A group that is new begins with what is published from now on, unless it asks for the oldest;
/// one that existed goes on where it was.
pub async fn a_new_group_begins_with_what_is_new(bus: &Arc<dyn Bus>) {
    let (topic, name) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "old").await;
    let group = Group { name: name.clone(), topics: vec![topic.clone()], from_oldest: false };
    let mut member = bus.join(group.clone()).await.expect("joined");
    publish(bus, &topic, Some("k"), "new").await;
    assert_eq!(take(&mut member).await, "new");
    drop(member);
    publish(bus, &topic, Some("k"), "newer").await;
    let mut member = bus.join(group).await.expect("joined");
    assert_eq!(take(&mut member).await, "newer");
    let mut oldest = join(bus, &fresh("group"), &[&topic]).await;
    assert_eq!(take(&mut oldest).await, "old");
}

/// A topic is read from the moment that a group has joined, also while the group has no member.
pub async fn a_topic_that_a_group_joined_is_read(bus: &Arc<dyn Bus>) {
    let topic = fresh("topic");
    let is_read = async || bus.is_read(&topic).await.expect("an answer");
    let member = join(bus, &fresh("group"), &[&topic]).await;
    assert!(is_read().await);
    drop(member);
    assert!(is_read().await);
}

/// Within a group each message goes to one member.
pub async fn within_a_group_each_goes_to_one_member(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let (count, members) = (60, 3);
    let (sender, mut receiver) = tokio::sync::mpsc::channel(count);
    let mut tasks = Vec::new();
    for _ in 0..members {
        let (mut member, sender) = (join(bus, &group, &[&topic]).await, sender.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let payload = take(&mut member).await;
                if sender.send(payload).await.is_err() {
                    return;
                }
            }
        }));
    }
    for n in 0..count {
        publish(bus, &topic, Some(&n.to_string()), &n.to_string()).await;
    }
    let mut found = BTreeSet::new();
    for _ in 0..count {
        let payload = receiver.recv().await.expect("members are there");
        assert!(found.insert(payload.clone()), "`{payload}` went to two members");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A member that goes away leaves its share to the others, and what it held.
pub async fn who_goes_leaves_its_share_to_the_others(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let mut stays = join(bus, &group, &[&topic]).await;
    let mut goes = join(bus, &group, &[&topic]).await;
    let expected: BTreeSet<_> = (0..40).map(|n| n.to_string()).collect();
    for n in &expected {
        publish(bus, &topic, Some(n), n).await;
    }
    let held = next(&mut goes).await;
    assert_eq!(held.attempt, 1);
    drop(goes);
    let mut found = BTreeSet::new();
    while found.len() < expected.len() {
        let delivery = next(&mut stays).await;
        let again = text(&delivery) == text(&held);
        assert_eq!(delivery.attempt, 1 + u32::from(again), "{delivery:?}");
        stays.commit(&delivery).await.expect("committed");
        assert!(found.insert(text(&delivery)), "`{}` came twice", text(&delivery));
    }
    assert_eq!(found, expected);
    let stranger = stays.commit(&crate::Delivery { offset: 1 << 30, ..held }).await;
    assert!(matches!(stranger, Err(Error::NotHeld)), "expected a refusal, got {stranger:?}");
}

/// A paused topic delivers nothing until it is resumed; what was delivered before can still be
/// committed.
pub async fn a_paused_topic_delivers_nothing_until_resumed(bus: &Arc<dyn Bus>) {
    let (one, other, group) = (fresh("topic"), fresh("topic"), fresh("group"));
    let mut member = join(bus, &group, &[&one, &other]).await;
    publish(bus, &one, Some("k"), "before").await;
    let before = next(&mut member).await;
    member.pause(&one).await.expect("paused");
    member.commit(&before).await.expect("committed");
    publish(bus, &one, Some("k"), "held back").await;
    for n in 0..5 {
        publish(bus, &other, Some("k"), &n.to_string()).await;
        assert_eq!(take(&mut member).await, n.to_string(), "only the other topic delivers");
    }
    member.resume(&one).await.expect("resumed");
    assert_eq!(take(&mut member).await, "held back");
}

/// Cancelling a wait loses nothing, at whatever moment.
pub async fn a_cancelled_wait_loses_nothing(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let mut member = join(bus, &group, &[&topic]).await;
    for n in 0..30 {
        publish(bus, &topic, Some("k"), &n.to_string()).await;
        let delivery = cancelling(&mut member, n % 4).await;
        assert_eq!((text(&delivery), delivery.attempt), (n.to_string(), 1));
        member.commit(&delivery).await.expect("committed");
    }
}

/// Waits for a message, giving up after so many polls and beginning anew.
async fn cancelling(member: &mut Box<dyn crate::Member>, polls: usize) -> crate::Delivery {
    for _ in 0..polls {
        let mut wait = member.next();
        let once =
            std::future::poll_fn(|context| std::task::Poll::Ready(wait.as_mut().poll(context)));
        if let std::task::Poll::Ready(delivery) = once.await {
            return delivery.expect("a message");
        }
        drop(wait);
        tokio::task::yield_now().await;
    }
    next(member).await
}
