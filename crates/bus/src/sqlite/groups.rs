//! Joining a group.

use std::{collections::BTreeSet, sync::Arc};

use ringfence_sqlite::Connection;
use rusqlite::params;

use super::{SqliteBus, lock, member::SqliteMember, place::Slot, state::Share, topics};
use crate::{Error, Group, Member};

/// A partition to be read by the group.
struct Wanted {
    slot: Slot,
    number: usize,
    topic: String,
}

pub(super) async fn join(bus: &SqliteBus, group: Group) -> Result<Box<dyn Member>, Error> {
    let topics: BTreeSet<_> = group.topics.into_iter().collect();
    for topic in &topics {
        topics::ensure(bus, topic).await?;
    }
    let wanted = wanted(bus, &topics);
    let (name, from_oldest) = (group.name, group.from_oldest);
    let (state, joining) = (Arc::clone(&bus.state), name.clone());
    let positions = bus.db.write(move |connection| {
        let mut shares = Vec::new();
        for Wanted { slot, number, topic } in &wanted {
            let position = position(connection, &joining, *slot, from_oldest)?;
            let (number, topic) = (*number, topic.clone());
            shares.push((*slot, Share { topic, number, position, held: None, not_before: None }));
        }
        Ok::<_, Error>(shares)
    });
    let shares = positions.await?;
    let (member, changed) = lock(&state).join(&name, topics.into_iter().collect(), shares);
    Ok(Box::new(SqliteMember::new(bus.clone(), name, member, changed)))
}

fn wanted(bus: &SqliteBus, topics: &BTreeSet<String>) -> Vec<Wanted> {
    let state = bus.state();
    let mut wanted = Vec::new();
    for (name, topic) in topics.iter().filter_map(|name| Some((name, state.topics.get(name)?))) {
        let numbered = topic.partitions.iter().enumerate();
        wanted.extend(numbered.map(|(number, partition)| Wanted {
            slot: partition.slot,
            number,
            topic: name.clone(),
        }));
    }
    wanted
}

/// Where the group is in a partition. A new one is put at one of its ends, durably: from now on
/// what it has not read counts.
fn position(
    connection: &Connection,
    group: &str,
    slot: Slot,
    from_oldest: bool,
) -> Result<i64, Error> {
    connection
        .prepare_cached(
            "INSERT INTO bus_positions (slot, member_group, position, attempts, rejections)
             SELECT slot, ?1, iif(?2, first, next), 0, 0 FROM bus_partitions WHERE slot = ?3
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![group, from_oldest, slot])?;
    let sql = "SELECT position FROM bus_positions WHERE slot = ?1 AND member_group = ?2";
    Ok(connection.prepare_cached(sql)?.query_row(params![slot, group], |row| row.get(0))?)
}

pub(super) async fn is_read(bus: &SqliteBus, topic: &str) -> Result<bool, Error> {
    let topic = topic.to_owned();
    bus.db
        .read(move |connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM bus_topics
                       JOIN bus_partitions ON bus_partitions.topic = bus_topics.id
                       JOIN bus_positions ON bus_positions.slot = bus_partitions.slot
                       WHERE bus_topics.name = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row([&topic], |row| row.get(0))?)
        })
        .await
}
