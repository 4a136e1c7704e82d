//! Topics and their partitions.

use std::collections::HashMap;

use ringfence_sqlite::{Connection, Db};
use rusqlite::{OptionalExtension as _, params};

use super::{SqliteBus, lock, place::Slot};
use crate::Error;

/// A topic as memory knows it.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) id: i64,
    /// By number of the partition.
    pub(super) partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    pub(super) slot: Slot,
    /// The offset that the next message gets.
    pub(super) next: i64,
}

/// All topics.
pub(super) async fn load(db: &Db) -> Result<HashMap<String, Topic>, Error> {
    db.read(|connection| {
        let mut statement = connection.prepare("SELECT name FROM bus_topics")?;
        let names = statement.query_map([], |row| row.get(0))?;
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let found = names.into_iter().map(|name| Ok((find(connection, &name)?, name)));
        let topics = found.collect::<Result<Vec<_>, Error>>()?;
        Ok(topics.into_iter().filter_map(|(topic, name)| Some((name, topic?))).collect())
    })
    .await
}

/// Makes a topic unless it exists.
pub(super) async fn ensure(bus: &SqliteBus, name: &str) -> Result<(), Error> {
    if bus.state().topics.contains_key(name) {
        return Ok(());
    }
    let (name, partitions) = (name.to_owned(), bus.options.partitions.max(1));
    let (state, known_as) = (std::sync::Arc::clone(&bus.state), name.clone());
    let ensured = bus.db.write_then(
        move |connection| match find(connection, &name)? {
            Some(topic) => Ok(topic),
            None => create(connection, &name, partitions),
        },
        // Another may have made it and published there; what is known then is newer.
        move |topic: &Topic| {
            lock(&state).topics.entry(known_as).or_insert_with(|| topic.clone());
        },
    );
    ensured.await.map(drop)
}

fn find(connection: &Connection, name: &str) -> Result<Option<Topic>, Error> {
    let id = connection
        .prepare_cached("SELECT id FROM bus_topics WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    id.map(|id| Ok(Topic { id, partitions: partitions(connection, id)? })).transpose()
}

fn create(connection: &Connection, name: &str, count: u32) -> Result<Topic, Error> {
    let id =
        connection.prepare_cached("INSERT INTO bus_topics (name) VALUES (?1)")?.insert([name])?;
    for number in 0..count {
        connection
            .prepare_cached(
                "INSERT INTO bus_partitions (topic, number, first, next) VALUES (?1, ?2, 0, 0)",
            )?
            .execute(params![id, number])?;
    }
    Ok(Topic { id, partitions: partitions(connection, id)? })
}

fn partitions(connection: &Connection, topic: i64) -> Result<Vec<Partition>, Error> {
    let sql = "SELECT slot, next FROM bus_partitions WHERE topic = ?1 ORDER BY number";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_map([topic], |row| Ok(Partition { slot: row.get(0)?, next: row.get(1)? }))?;
    Ok(found.collect::<Result<_, _>>()?)
}
