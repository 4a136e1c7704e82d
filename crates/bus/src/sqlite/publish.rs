//! Publishing: all messages of a call in one transaction, or none.

use std::{collections::BTreeMap, sync::Arc};

use ringfence_sqlite::Connection;
use rusqlite::params;

use super::{
    SqliteBus, lock,
    place::{Slot, partition, place},
    reclaim, rows,
    state::State,
    topics,
};
use crate::{Error, Message};

/// Every so many messages without need, what may go is removed.
const TIDY: usize = 256;

/// A message, ready to be bound.
pub(super) struct Placed {
    key: Option<Vec<u8>>,
    headers: Vec<u8>,
    payload: Vec<u8>,
}

/// Messages of one topic.
struct Batch {
    topic: i64,
    /// In the order given within each slot, which is all the order there is.
    by_slot: BTreeMap<Slot, Vec<Placed>>,
}

/// Clock and bounds, as the transaction needs them.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    topic_messages: u64,
    now: i64,
    horizon: i64,
    tidy: bool,
}

/// Where the next message of a slot goes, after a commit.
type Ends = Vec<(Slot, i64)>;

pub(super) async fn publish(bus: &SqliteBus, messages: Vec<Message>) -> Result<(), Error> {
    for message in &messages {
        check_size(message, bus.options.message_bytes)?;
        topics::ensure(bus, &message.topic).await?;
    }
    let count = messages.len();
    let batches = sort(&mut bus.state(), messages)?;
    let rules = Rules::of(bus, count);
    let state = Arc::clone(&bus.state);
    let published = bus.db.write_then(
        move |connection| -> Result<Result<Ends, String>, Error> {
            for (name, batch) in &batches {
                let count = batch.by_slot.values().map(Vec::len).sum::<usize>() as u64;
                if !has_room(connection, batch.topic, count, rules)? {
                    // Not an error of the transaction: what was removed to make room stays so.
                    return Ok(Err(name.clone()));
                }
            }
            let by_slot = batches.values().flat_map(|batch| &batch.by_slot);
            let ends = by_slot.map(|(slot, messages)| append(connection, *slot, messages, rules));
            ends.collect::<Result<_, _>>().map(Ok)
        },
        move |published: &Result<Ends, String>| {
            if let Ok(ends) = published {
                lock(&state).grown(ends);
            }
        },
    );
    published.await?.map(drop).map_err(Error::Full)
}

fn check_size(message: &Message, most: usize) -> Result<(), Error> {
    let size = message.size();
    if size > most { Err(Error::TooLarge { size, most }) } else { Ok(()) }
}

/// By topic and slot, in the order given within each.
fn sort(state: &mut State, messages: Vec<Message>) -> Result<BTreeMap<String, Batch>, Error> {
    let mut batches = BTreeMap::new();
    for message in messages {
        let (topic, slot) = state.slot_for(&message).ok_or(Error::Closed)?;
        let empty = || Batch { topic, by_slot: BTreeMap::new() };
        let batch = batches.entry(message.topic.clone()).or_insert_with(empty);
        batch.by_slot.entry(slot).or_default().push(message.try_into()?);
    }
    Ok(batches)
}

impl State {
    /// The topic and the slot that a message belongs to; those without a key take turns.
    fn slot_for(&mut self, message: &Message) -> Option<(i64, Slot)> {
        self.turn = self.turn.wrapping_add(1);
        let topic = self.topics.get(&message.topic)?;
        let count = topic.partitions.len();
        let number = message.key.as_ref().map_or(self.turn % count, |key| partition(key, count));
        Some((topic.id, topic.partitions[number].slot))
    }
}

impl Rules {
    pub(super) fn of(bus: &SqliteBus, count: usize) -> Self {
        let now = bus.clock.now().as_micros();
        let retention = i64::try_from(bus.options.retention.as_micros()).unwrap_or(i64::MAX);
        let mut state = bus.state();
        state.untidy += count;
        let tidy = state.untidy >= TIDY;
        if tidy {
            state.untidy = 0;
        }
        let horizon = now.saturating_sub(retention);
        Self { topic_messages: bus.options.topic_messages, now, horizon, tidy }
    }
}

/// Whether a topic can take so many more, after making room if need be.
pub(super) fn has_room(
    connection: &Connection,
    topic: i64,
    count: u64,
    rules: Rules,
) -> Result<bool, Error> {
    let fits = || Ok::<_, Error>(reclaim::held(connection, topic)? + count <= rules.topic_messages);
    if !rules.tidy && fits()? {
        return Ok(true);
    }
    reclaim::reclaim(connection, topic, rules.horizon)?;
    if !fits()? {
        reclaim::forget_unread(connection, topic)?;
    }
    fits()
}

impl TryFrom<Message> for Placed {
    type Error = Error;

    fn try_from(message: Message) -> Result<Self, Error> {
        let headers = rows::headers(&message)?;
        Ok(Self { key: message.key, headers, payload: message.payload })
    }
}

/// Puts messages at the end of their partition and says where that end is now.
pub(super) fn append(
    connection: &Connection,
    slot: Slot,
    messages: &[Placed],
    rules: Rules,
) -> Result<(Slot, i64), Error> {
    let count = messages.len() as i64;
    let next: i64 = connection
        .prepare_cached(
            "UPDATE bus_partitions SET next = next + ?2 WHERE slot = ?1 RETURNING next",
        )?
        .query_row([slot, count], |row| row.get(0))?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO bus_messages (place, at, key, headers, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (message, offset) in messages.iter().zip(next - count..) {
        let Placed { key, headers, payload } = message;
        insert.execute(params![place(slot, offset), rules.now, key, headers, payload])?;
    }
    Ok((slot, next))
}
