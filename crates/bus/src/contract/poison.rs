//! Messages that cannot be handled.

use std::{sync::Arc, time::Duration};

use super::{fresh, join, message, next, publish, take, text};
use crate::{Bus, Dead, MAX_ATTEMPTS};

/// A message that was rejected too often goes to the dead letters with its cause, for the group
/// that gave up, and those behind it go on.
pub async fn poison_goes_to_the_dead_letters(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "poison").await;
    publish(bus, &topic, Some("k"), "good").await;
    let mut member = join(bus, &group, &[&topic]).await;
    for attempt in 1..=MAX_ATTEMPTS {
        assert_eq!(bus.dead(&topic, 0, 9).await.expect("dead letters"), [], "not before");
        let delivery = next(&mut member).await;
        assert_eq!((text(&delivery).as_str(), delivery.attempt), ("poison", attempt));
        let cause = format!("attempt {attempt} failed");
        member.reject(&delivery, &cause, Duration::ZERO).await.expect("rejected");
    }
    assert_eq!(take(&mut member).await, "good");
    let dead = bus.dead(&topic, 0, 9).await.expect("dead letters");
    let expected = Dead {
        id: dead[0].id,
        message: message(&topic, Some("k"), "poison"),
        group,
        cause: format!("attempt {MAX_ATTEMPTS} failed"),
        attempts: MAX_ATTEMPTS,
        died_at: dead[0].died_at,
    };
    assert_eq!(dead, [expected]);
    assert_eq!(bus.dead(&topic, dead[0].id, 9).await.expect("dead letters"), []);
    assert_eq!(bus.dead(&topic, 0, 0).await.expect("dead letters"), []);
    assert_eq!(bus.dead(&fresh("topic"), 0, 9).await.expect("dead letters"), []);
    let mut other = join(bus, &fresh("group"), &[&topic]).await;
    assert_eq!(take(&mut other).await, "poison", "another group may fare better");
}

/// A dead letter can be published again, once, and is then off the list.
pub async fn a_dead_letter_can_be_revived(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "again").await;
    let mut member = join(bus, &group, &[&topic]).await;
    for _ in 0..MAX_ATTEMPTS {
        let delivery = next(&mut member).await;
        member.reject(&delivery, "no", Duration::ZERO).await.expect("rejected");
    }
    let id = bus.dead(&topic, 0, 9).await.expect("dead letters")[0].id;
    assert!(!bus.revive(&topic, id + 1).await.expect("an answer"));
    assert!(!bus.revive(&fresh("topic"), id).await.expect("an answer"));
    assert!(bus.revive(&topic, id).await.expect("revived"));
    assert!(!bus.revive(&topic, id).await.expect("an answer"), "only once");
    assert_eq!(bus.dead(&topic, 0, 9).await.expect("dead letters"), []);
    let delivery = next(&mut member).await;
    assert_eq!((text(&delivery).as_str(), delivery.attempt), ("again", 1));
}

/// A message that cannot be handled goes to the dead letters at the first attempt, if the member says so.
pub async fn what_cannot_be_handled_goes_to_the_dead_letters_at_once(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "garbage").await;
    publish(bus, &topic, Some("k"), "good").await;
    let mut member = join(bus, &group, &[&topic]).await;
    let delivery = next(&mut member).await;
    member.dead_letter(&delivery, "not JSON").await.expect("on the dead letters");
    member.dead_letter(&delivery, "not JSON").await.expect("twice is harmless");
    assert_eq!(take(&mut member).await, "good");
    let dead = bus.dead(&topic, 0, 9).await.expect("dead letters");
    let found: Vec<_> = dead.iter().map(|dead| (dead.cause.as_str(), dead.attempts)).collect();
    assert_eq!(found, [("not JSON", 1)]);
    assert_eq!(dead[0].message, message(&topic, Some("k"), "garbage"));
}

/// A postponed message comes again, before those behind it, and never counts as poison.
pub async fn a_postponed_message_comes_again_however_often(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "first").await;
    publish(bus, &topic, Some("k"), "second").await;
    let mut member = join(bus, &group, &[&topic]).await;
    for _ in 0..MAX_ATTEMPTS * 2 {
        let delivery = next(&mut member).await;
        assert_eq!(text(&delivery), "first");
        member.postpone(&delivery, Duration::from_millis(1)).await.expect("postponed");
    }
    assert_eq!(take(&mut member).await, "first");
    assert_eq!(take(&mut member).await, "second");
    assert_eq!(bus.dead(&topic, 0, 9).await.expect("dead letters"), []);
}

/// A dead letter can be taken off the list, and is then gone.
pub async fn a_dead_letter_can_be_discarded(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "garbage").await;
    let mut member = join(bus, &group, &[&topic]).await;
    let delivery = next(&mut member).await;
    member.dead_letter(&delivery, "not JSON").await.expect("on the dead letters");
    let topics = bus.dead_topics().await.expect("topics");
    assert!(topics.contains(&(topic.clone(), 1)), "{topics:?}");
    let id = bus.dead(&topic, 0, 9).await.expect("dead letters")[0].id;
    assert!(!bus.discard(&fresh("topic"), id).await.expect("an answer"));
    assert!(bus.discard(&topic, id).await.expect("an answer"));
    assert!(!bus.discard(&topic, id).await.expect("an answer"), "only once");
    assert_eq!(bus.dead(&topic, 0, 9).await.expect("dead letters"), []);
    assert!(!bus.revive(&topic, id).await.expect("an answer"));
}
