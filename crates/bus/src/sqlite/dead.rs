//! Rejections, and dead letters that are published again.

use std::sync::Arc;

use ringfence_sqlite::Connection;
use rusqlite::{OptionalExtension as _, params};

use super::{
    SqliteBus, lock, member,
    place::Slot,
    publish::{Placed, Rules, append, has_room},
};
use crate::{Delivery, Error, MAX_ATTEMPTS, dead_letters};

/// One rejection, ready to be bound.
pub(super) struct Rejection {
    group: String,
    slot: Slot,
    offset: i64,
    /// Whether the message is given up, however often it was rejected.
    is_final: bool,
    letter: dead_letters::Letter,
}

impl Rejection {
    pub(super) fn new(
        bus: &SqliteBus,
        group: &str,
        slot: Slot,
        delivery: &Delivery,
        cause: &str,
        is_final: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            group: group.to_owned(),
            slot,
            offset: delivery.offset.cast_signed(),
            is_final,
            letter: bus.dead.letter(group, delivery, cause, bus.clock.now())?,
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
        let is_given_up = |rejections| self.is_final || rejections >= MAX_ATTEMPTS;
        let is_given_up = rejections.is_some_and(is_given_up);
        if is_given_up {
            self.letter.write(connection)?;
            member::advance(connection, &self.group, self.slot, self.offset)?;
        }
        Ok(is_given_up)
    }
}

/// Result of an attempt to publish a dead letter again.
enum Revived {
    Published((Slot, i64)),
    Unknown,
    Full,
}

pub(super) async fn revive(bus: &SqliteBus, topic: &str, id: u64) -> Result<bool, Error> {
    super::topics::ensure(bus, topic).await?;
    let known = bus.state().topics.get(topic).cloned();
    let Some(known) = known else { return Ok(false) };
    let rules = Rules::of(bus, 1);
    let (name, state) = (topic.to_owned(), Arc::clone(&bus.state));
    let revived = bus.db.write_then(
        move |connection| -> Result<Revived, Error> {
            let Some(message) = dead_letters::find(connection, &name, id)? else {
                return Ok(Revived::Unknown);
            };
            if !has_room(connection, known.id, 1, rules)? {
                return Ok(Revived::Full);
            }
            // Its key decides, as it did before; without one any partition will do.
            let count = known.partitions.len();
            let number = super::place::partition(message.key.as_deref().unwrap_or(&[]), count);
            let (slot, placed) = (known.partitions[number].slot, Placed::try_from(message)?);
            dead_letters::remove(connection, &name, id)?;
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
