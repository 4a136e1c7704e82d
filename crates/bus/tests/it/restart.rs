//! State that survives a restart, and the effect of age.

use std::{sync::Arc, time::Duration};

use ringfence_bus::{Bus, Error, MAX_ATTEMPTS, Options};
use ringfence_testkit::TestClock;

use crate::support::{join, message, open, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_attempts_and_rejections_survive() {
    let folder = tempfile::tempdir().unwrap();
    for attempt in 1..=MAX_ATTEMPTS {
        let bus = open(folder.path(), Options::default(), Arc::default()).await;
        if attempt == 1 {
            for payload in ["done", "poison", "good"] {
                bus.publish(vec![message("t", "k", payload)]).await.unwrap();
            }
        }
        let mut member = join(&bus, "g", "t").await;
        if attempt == 1 {
            let done = member.next().await.unwrap();
            member.commit(&done).await.unwrap();
        }
        let delivery = member.next().await.unwrap();
        assert_eq!((text(&delivery), delivery.attempt), ("poison", attempt));
        member.reject(&delivery, "no", Duration::from_secs(3600)).await.unwrap();
    }
    let bus = open(folder.path(), Options::default(), Arc::default()).await;
    let delivery = join(&bus, "g", "t").await.next().await.unwrap();
    assert_eq!((text(&delivery), delivery.attempt), ("good", 1));
    assert_eq!(bus.dead("t", 0, 9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_keeps_its_partitions_when_new_ones_get_others() {
    let folder = tempfile::tempdir().unwrap();
    let with = |partitions| Options { partitions, ..Options::default() };
    let keys: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let publish = async |partitions| {
        let bus = open(folder.path(), with(partitions), Arc::default()).await;
        for key in &keys {
            bus.publish(vec![message("t", key, key)]).await.unwrap();
        }
    };
    publish(3).await;
    publish(7).await;
    let bus = open(folder.path(), with(7), Arc::default()).await;
    let mut member = join(&bus, "g", "t").await;
    let mut partitions = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..100 {
        let delivery = member.next().await.unwrap();
        member.commit(&delivery).await.unwrap();
        assert!(delivery.partition < 3);
        let before = partitions.insert(text(&delivery).to_owned(), delivery.partition);
        assert!(before.is_none_or(|before| before == delivery.partition), "a key has one place");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn age_makes_room_and_slow_groups_go_on_with_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::fixed(0));
    let options = Options {
        topic_messages: 10,
        partitions: 1,
        retention: Duration::from_secs(60),
        ..Options::default()
    };
    let bus = open(folder.path(), options, Arc::clone(&clock)).await;
    let mut member = join(&bus, "slow", "t").await;
    for n in 0..10 {
        bus.publish(vec![message("t", "k", &format!("old {n}"))]).await.unwrap();
    }
    let held = member.next().await.unwrap();
    clock.advance(Duration::from_secs(59));
    let full = bus.publish(vec![message("t", "k", "young")]).await;
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    clock.advance(Duration::from_secs(1));
    bus.publish(vec![message("t", "k", "young")]).await.unwrap();
    member.commit(&held).await.unwrap();
    let delivery = member.next().await.unwrap();
    assert_eq!((text(&delivery), delivery.attempt), ("young", 1));
    member.commit(&delivery).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_bounded_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { dead_letters: 3, ..Options::default() };
    let bus = open(folder.path(), options, Arc::default()).await;
    let mut member = join(&bus, "g", "t").await;
    for n in 0..5 {
        bus.publish(vec![message("t", "k", &n.to_string())]).await.unwrap();
        for _ in 0..MAX_ATTEMPTS {
            let delivery = member.next().await.unwrap();
            let cause = "é".repeat(9_000);
            member.reject(&delivery, &cause, Duration::ZERO).await.unwrap();
        }
    }
    let dead = bus.dead("t", 0, 9).await.unwrap();
    let payloads: Vec<_> = dead.iter().map(|dead| dead.message.payload.clone()).collect();
    assert_eq!(payloads, [b"2", b"3", b"4"]);
    assert_eq!(dead[0].cause.len(), 4 << 10, "and so is a cause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_bus_ends_all_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let bus = open(folder.path(), Options::default(), Arc::default()).await;
    let mut member = join(&bus, "g", "t").await;
    let waiting = tokio::spawn(async move { member.next().await });
    bus.close();
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
