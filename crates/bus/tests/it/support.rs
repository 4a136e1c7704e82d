//! A queue in a folder of its own.

use std::{path::Path, sync::Arc};

use ringfence_bus::{Bus, Delivery, Group, Member, Message, Options, SqliteBus};
use ringfence_sqlite::Db;
use ringfence_testkit::TestClock;

pub(crate) async fn open(folder: &Path, options: Options, clock: Arc<TestClock>) -> SqliteBus {
    let db = Db::open(&folder.join("data.db"), &ringfence_sqlite::Options::default()).unwrap();
    SqliteBus::open(db, options, clock).await.unwrap()
}

pub(crate) fn message(topic: &str, key: &str, payload: &str) -> Message {
    Message {
        topic: topic.to_owned(),
        key: Some(key.as_bytes().to_vec()),
        headers: Vec::new(),
        payload: payload.as_bytes().to_vec(),
    }
}

pub(crate) async fn join(bus: &SqliteBus, group: &str, topic: &str) -> Box<dyn Member> {
    let topics = vec![topic.to_owned()];
    bus.join(Group { name: group.to_owned(), topics, from_oldest: true }).await.unwrap()
}

pub(crate) fn text(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.message.payload).unwrap()
}
