//! Order, and delivery again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{fresh, join, message, next, publish, take, text};
use crate::Bus;

/// A message arrives as it was published, byte for byte.
pub async fn headers_keys_and_payloads_arrive_as_they_were(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let mut member = join(bus, &group, &[&topic]).await;
    for (key, length) in [(None, 0), (Some(vec![0, 255]), 1), (Some(Vec::new()), 100_000)] {
        let mut sent = message(&topic, None, "");
        sent.key = key;
        sent.headers = vec![("a".into(), vec![1, 0]), ("a".into(), Vec::new())];
        sent.payload = (0..length).map(|index| (index % 256) as u8).collect();
        bus.publish(vec![sent.clone()]).await.expect("published");
        let delivery = next(&mut member).await;
        assert_eq!(delivery.message, sent);
        member.commit(&delivery).await.expect("committed");
    }
}

/// Messages with equal keys arrive in the order in which they were published.
pub async fn equal_keys_stay_in_order(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let keys = ["a", "b", "c", "d", "e"];
    for n in 0..20 {
        let together = keys.map(|key| message(&topic, Some(key), &format!("{key}{n:02}")));
        bus.publish(together.to_vec()).await.expect("published");
    }
    let mut member = join(bus, &group, &[&topic]).await;
    let mut found = Vec::new();
    for _ in 0..keys.len() * 20 {
        found.push(take(&mut member).await);
    }
    for key in keys {
        let of_key: Vec<_> = found.iter().filter(|payload| payload.starts_with(key)).collect();
        let mut sorted = of_key.clone();
        sorted.sort_unstable();
        assert_eq!(of_key, sorted);
        assert_eq!(of_key.len(), 20);
    }
}

/// A rejected message comes again before those behind it.
pub async fn a_rejected_message_comes_before_those_behind_it(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    for payload in ["first", "second"] {
        publish(bus, &topic, Some("k"), payload).await;
    }
    let mut member = join(bus, &group, &[&topic]).await;
    for attempt in 1..=3 {
        let delivery = next(&mut member).await;
        assert_eq!((text(&delivery).as_str(), delivery.attempt), ("first", attempt));
        member.reject(&delivery, "not yet", Duration::ZERO).await.expect("rejected");
    }
    assert_eq!(take(&mut member).await, "first");
    assert_eq!(take(&mut member).await, "second");
}

/// A rejected message does not come again before its delay is over, and then it does.
pub async fn the_delay_of_a_rejection_is_kept(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    publish(bus, &topic, Some("k"), "later").await;
    let mut member = join(bus, &group, &[&topic]).await;
    let delivery = next(&mut member).await;
    let (began, delay) = (Instant::now(), Duration::from_millis(50));
    member.reject(&delivery, "not yet", delay).await.expect("rejected");
    assert_eq!(take(&mut member).await, "later");
    assert!(began.elapsed() >= delay, "after {:?}", began.elapsed());
}

/// A delivery that was neither committed nor rejected comes again, with a higher attempt, when
/// its member goes away.
pub async fn what_was_not_committed_comes_again_with_a_higher_attempt(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    for payload in ["first", "second"] {
        publish(bus, &topic, Some("k"), payload).await;
    }
    let mut seen = 0;
    for _ in 0..8 {
        let mut member = join(bus, &group, &[&topic]).await;
        let delivery = next(&mut member).await;
        assert_eq!(text(&delivery), "first", "going away is no rejection, however often");
        assert!(delivery.attempt > seen, "{} after {seen}", delivery.attempt);
        seen = delivery.attempt;
    }
    let mut member = join(bus, &group, &[&topic]).await;
    let delivery = next(&mut member).await;
    member.commit(&delivery).await.expect("committed");
    member.commit(&delivery).await.expect("twice is harmless");
    assert_eq!(take(&mut member).await, "second");
}
