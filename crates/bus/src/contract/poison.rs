//! Messages that nobody can handle.

use std::{sync::Arc, time::Duration};

use super::{fresh, join, message, next, publish, take, text};
use crate::{ATTEMPTS, Bus, Dead};

/// A message that was rejected too often goes to the dead letters with its cause, for the group
/// that gave up, and those behind it go on.
pub async fn poison_goes_to_the_dead_letters(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "poison").await;
    publish(bus, &topic, Some("k"), "good").await;
    let mut member = join(bus, &group, &[&topic]).await;
    for attempt in 1..=ATTEMPTS {
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
        cause: format!("attempt {ATTEMPTS} failed"),
        attempts: ATTEMPTS,
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
    for _ in 0..ATTEMPTS {
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
