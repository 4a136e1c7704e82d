//! Rejections, and what becomes of a message that was rejected too often.

use std::sync::Arc;

use ringfence_sqlite::Connection;
use rusqlite::{OptionalExtension as _, params};

use super::{
    SqliteBus, lock, member,
    place::Slot,
    publish::{Placed, Rules, append, has_room},
    rows,
};
use crate::{ATTEMPTS, Dead, Delivery, Error, Message};

/// Most dead letters in one answer.
const PAGE: usize = 1_000;

/// Most bytes of a cause that are kept.
const CAUSE: usize = 4 << 10;

/// One rejection, ready to be bound.
pub(super) struct Rejection {
    topic: i64,
    group: String,
    slot: Slot,
    offset: i64,
    attempt: u32,
    cause: String,
    key: Option<Vec<u8>>,
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// Most dead letters of the topic.
    keep: i64,
}

impl Rejection {
    pub(super) fn new(
        bus: &SqliteBus,
        group: &str,
        slot: Slot,
        delivery: &Delivery,
        cause: &str,
    ) -> Result<Self, Error> {
        let message = &delivery.message;
        let topic = bus.state().topics.get(&message.topic).map(|topic| topic.id);
        Ok(Self {
            topic: topic.ok_or(Error::NotHeld)?,
            group: group.to_owned(),
            slot,
            offset: delivery.offset.cast_signed(),
            attempt: delivery.attempt,
            cause: cause[..cause.floor_char_boundary(CAUSE)].to_owned(),
            key: message.key.clone(),
            headers: rows::headers(message)?,
            payload: message.payload.clone(),
            keep: i64::try_from(bus.options.dead_letters).unwrap_or(i64::MAX),
        })
    }

    /// Counts it; says whether the message was given up.
    pub(super) fn write(&self, connection: &Connection) -> Result<bool, Error> {
        let rejections: Option<u32> = connection
            .prepare_cached(
                "UPDATE bus_positions SET rejections = rejections + 1
                 WHERE slot = ?1 AND member_group = ?2 AND position = ?3 RETURNING rejections",
            )?
            .query_row(params![self.slot, self.group, self.offset], |row| row.get(0))
            .optional()?;
        let given_up = rejections.is_some_and(|rejections| rejections >= ATTEMPTS);
        if given_up {
            self.bury(connection)?;
            member::advance(connection, &self.group, self.slot, self.offset)?;
        }
        Ok(given_up)
    }

    fn bury(&self, connection: &Connection) -> Result<(), Error> {
        connection
            .prepare_cached(
                "INSERT INTO bus_dead (topic, member_group, cause, attempts, key, headers, payload)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.topic,
                self.group,
                self.cause,
                self.attempt,
                self.key,
                self.headers,
                self.payload
            ])?;
        let dropped = connection
            .prepare_cached(
                "DELETE FROM bus_dead WHERE topic = ?1 AND id <= (SELECT id FROM bus_dead
                 WHERE topic = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![self.topic, self.keep])?;
        if dropped > 0 {
            tracing::warn!(dropped, group = self.group, "too many dead letters: the oldest went");
        }
        Ok(())
    }
}

pub(super) async fn list(
    bus: &SqliteBus,
    topic: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Dead>, Error> {
    let Some(id) = bus.state().topics.get(topic).map(|topic| topic.id) else {
        return Ok(Vec::new());
    };
    let topic = topic.to_owned();
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    bus.db
        .read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, member_group, cause, attempts, key, headers, payload FROM bus_dead
                 WHERE topic = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            )?;
            let found = statement.query_map(params![id, after, limit.min(PAGE) as i64], |row| {
                Ok(Dead {
                    id: row.get::<_, i64>(0)?.cast_unsigned(),
                    message: rows::message(row, 4, &topic)?,
                    group: row.get(1)?,
                    cause: row.get(2)?,
                    attempts: row.get(3)?,
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
}

/// What came of an attempt to revive.
enum Revived {
    Published((Slot, i64)),
    Unknown,
    Full,
}

pub(super) async fn revive(bus: &SqliteBus, topic: &str, id: u64) -> Result<bool, Error> {
    let known = bus.state().topics.get(topic).cloned();
    let Some(known) = known else { return Ok(false) };
    let rules = Rules::of(bus, 1);
    let (name, id) = (topic.to_owned(), i64::try_from(id).unwrap_or(i64::MAX));
    let state = Arc::clone(&bus.state);
    let revived = bus.db.write_then(
        move |connection| -> Result<Revived, Error> {
            let Some(message) = letter(connection, known.id, id, &name)? else {
                return Ok(Revived::Unknown);
            };
            if !has_room(connection, known.id, 1, rules)? {
                return Ok(Revived::Full);
            }
            // Its key decides, as it did before; without one any partition will do.
            let count = known.partitions.len();
            let number = super::place::partition(message.key.as_deref().unwrap_or(&[]), count);
            let (slot, placed) = (known.partitions[number].slot, Placed::try_from(message)?);
            connection.prepare_cached("DELETE FROM bus_dead WHERE id = ?1")?.execute([id])?;
            append(connection, slot, &[placed], rules).map(Revived::Published)
        },
        move |revived: &Revived| {
            if let Revived::Published(end) = revived {
                lock(&state).grown(&[*end]);
            }
        },
    );
    match revived.await? {
        Revived::Published(_) => Ok(true),
        Revived::Unknown => Ok(false),
        Revived::Full => Err(Error::Full(topic.to_owned())),
    }
}

fn letter(
    connection: &Connection,
    topic: i64,
    id: i64,
    name: &str,
) -> Result<Option<Message>, Error> {
    let sql = "SELECT key, headers, payload FROM bus_dead WHERE id = ?1 AND topic = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([id, topic], |row| rows::message(row, 0, name));
    Ok(found.optional()?)
}
