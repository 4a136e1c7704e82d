//! A queue in a folder of its own.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use ringfence_bus::{Bus, Delivery, Group, Member, Message, Options, SqliteBus};
use ringfence_sqlite::Db;
use ringfence_types::{Clock, Timestamp};

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
pub(crate) struct Hands(AtomicI64);

impl Hands {
    pub(crate) fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) async fn open(folder: &Path, options: Options, clock: Arc<Hands>) -> SqliteBus {
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
