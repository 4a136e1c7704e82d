//! Bounds.

use std::sync::Arc;

use super::{fresh, join, message, publish, take};
use crate::{Bus, Error, MAX_MESSAGE_BYTES, Message};

/// The messages of one `publish` are taken together, or none is.
pub async fn all_messages_are_taken_or_none(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let mut member = join(bus, &group, &[&topic]).await;
    let huge = Message { payload: vec![0; 64 << 20], ..message(&topic, Some("k"), "") };
    let size = topic.len() + 1 + huge.payload.len();
    let refused = bus.publish(vec![message(&topic, Some("k"), "small"), huge]).await;
    assert!(matches!(refused, Err(Error::TooLarge { size: s, .. }) if s == size), "{refused:?}");
    publish(bus, &topic, Some("k"), "after").await;
    assert_eq!(take(&mut member).await, "after", "nothing of what was refused");
    bus.publish(Vec::new()).await.expect("nothing is easily published");
}

/// A message of the size that every bus takes is taken, and arrives whole.
pub async fn a_message_of_the_largest_size_is_taken(bus: &Arc<dyn Bus>) {
    let (topic, group) = (fresh("topic"), fresh("group"));
    let mut member = join(bus, &group, &[&topic]).await;
    let mut largest = message(&topic, Some("k"), "");
    largest.payload = vec![b'x'; MAX_MESSAGE_BYTES - largest.size()];
    assert_eq!(largest.size(), MAX_MESSAGE_BYTES);
    bus.publish(vec![largest.clone()]).await.expect("it is not too large");
    assert_eq!(take(&mut member).await.into_bytes(), largest.payload);
}

/// A topic that is full takes nothing; what every group has committed makes room.
pub async fn a_full_topic_takes_nothing_until_there_is_room(bus: &Arc<dyn Bus>, most: usize) {
    let (topic, other) = (fresh("topic"), fresh("topic"));
    let mut fast = join(bus, &fresh("group"), &[&topic, &other]).await;
    let mut slow = join(bus, &fresh("group"), &[&topic]).await;
    for _ in 0..most {
        publish(bus, &topic, Some("k"), "x").await;
    }
    let is_full = |answer: Result<(), Error>| match answer {
        Err(Error::Full(name)) => assert_eq!(name, topic),
        answer => panic!("expected a full topic, got {answer:?}"),
    };
    is_full(bus.publish(vec![message(&topic, None, "y")]).await);
    is_full(bus.publish(vec![message(&other, None, "z"), message(&topic, None, "y")]).await);
    for _ in 0..most {
        assert_eq!(take(&mut fast).await, "x", "and nothing of what was refused");
    }
    is_full(bus.publish(vec![message(&topic, None, "y")]).await);
    for _ in 0..3 {
        take(&mut slow).await;
    }
    for _ in 0..3 {
        publish(bus, &topic, Some("k"), "y").await;
    }
    is_full(bus.publish(vec![message(&topic, None, "y")]).await);
    assert_eq!(take(&mut fast).await, "y");
}

/// A topic that no group ever read forgets its oldest messages rather than refuse new ones.
pub async fn an_unread_topic_keeps_the_newest(bus: &Arc<dyn Bus>, most: usize) {
    let topic = fresh("topic");
    for number in 0..most * 3 {
        publish(bus, &topic, Some("k"), &number.to_string()).await;
    }
    let mut member = join(bus, &fresh("group"), &[&topic]).await;
    let first: usize = take(&mut member).await.parse().expect("a number");
    assert!(first >= most * 2, "{first} should have made room");
    for number in first + 1..most * 3 {
        assert_eq!(take(&mut member).await, number.to_string(), "none of the rest is missing");
    }
}
