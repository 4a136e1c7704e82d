//! One member of a group.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_sqlite::{Answer, Connection};
use rusqlite::{OptionalExtension as _, params};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    SqliteBus, dead, lock,
    place::{Slot, end, offset, place},
    rows,
    state::{Hold, MemberId, Next},
};
use crate::{Delivery, Error, Member, Message};

/// Longest delay: instants have a bound.
const MAX_DELAY: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) struct SqliteMember {
    bus: SqliteBus,
    group: String,
    id: MemberId,
    changed: watch::Receiver<u64>,
    paused: HashSet<String>,
    /// The slot that was served last.
    last: Slot,
    /// Kept here, not in the future of `next`: a wait that is cancelled loses nothing.
    fetching: Option<(Slot, Answer<Fetched, Error>)>,
}

/// Result of looking into a slot.
enum Fetched {
    Message(Delivery),
    /// Nothing: what was there has become too old. Where the slot ends.
    Nothing(i64),
}

impl SqliteMember {
    pub(super) fn new(
        bus: SqliteBus,
        group: String,
        id: MemberId,
        changed: watch::Receiver<u64>,
    ) -> Self {
        let paused = HashSet::new();
        Self { bus, group, id, changed, paused, last: 0, fetching: None }
    }

    fn choose(&self) -> Next {
        let is_paused = |topic: &str| self.paused.contains(topic);
        self.bus.state().next(&self.group, self.id, self.last, is_paused)
    }

    /// Reads the next message. The delivery is counted in the same transaction, so that the count survives.
    fn fetch(&self, slot: Slot, number: usize, topic: String) -> Answer<Fetched, Error> {
        let group = self.group.clone();
        self.bus.db.write(move |connection| fetch(connection, &group, slot, number, &topic))
    }

    fn arrived(
        &self,
        slot: Slot,
        fetched: Result<Fetched, Error>,
    ) -> Result<Option<Delivery>, Error> {
        let mut state = self.bus.state();
        let mut settle = |held: Option<Hold>, position: i64| {
            state.change(&self.group, slot, |share| {
                share.held = held;
                share.advance(position);
                share.not_before = None;
            });
        };
        match fetched {
            Ok(Fetched::Message(delivery)) => {
                let offset = delivery.offset.cast_signed();
                settle(Some(Hold { member: self.id, offset: Some(offset) }), offset);
                Ok(Some(delivery))
            }
            Ok(Fetched::Nothing(end)) => {
                settle(None, end);
                Ok(None)
            }
            Err(error) => {
                settle(None, 0);
                Err(error)
            }
        }
    }

    /// The slot of a delivery, if it is for this member to answer; `None` if it was answered.
    fn answerable(&self, delivery: &Delivery) -> Result<Option<Slot>, Error> {
        let mut state = self.bus.state();
        let topic = state.topics.get(&delivery.message.topic).ok_or(Error::NotHeld)?;
        let number = delivery.partition as usize;
        let slot = topic.partitions.get(number).ok_or(Error::NotHeld)?.slot;
        let offset = delivery.offset.cast_signed();
        let share = state.share(&self.group, slot).ok_or(Error::NotHeld)?;
        if share.position > offset {
            state.change(&self.group, slot, |share| share.release(self.id, offset));
            return Ok(None);
        }
        let held = share.held == Some(Hold { member: self.id, offset: Some(offset) });
        if held { Ok(Some(slot)) } else { Err(Error::NotHeld) }
    }
}

impl SqliteMember {
    /// Rejects a delivery; a final rejection gives the message up at once.
    async fn refuse(
        &self,
        delivery: &Delivery,
        cause: &str,
        delay: Duration,
        is_final: bool,
    ) -> Result<(), Error> {
        let Some(slot) = self.answerable(delivery)? else { return Ok(()) };
        let offset = delivery.offset.cast_signed();
        let until = Instant::now() + delay.min(MAX_DELAY);
        let (state, told, id) = (Arc::clone(&self.bus.state), self.group.clone(), self.id);
        let rejection =
            dead::Rejection::new(&self.bus, &self.group, slot, delivery, cause, is_final)?;
        let rejected = self.bus.db.write_then(
            move |connection| rejection.write(connection),
            move |given_up: &bool| {
                lock(&state).change(&told, slot, |share| {
                    share.advance(offset + i64::from(*given_up));
                    share.not_before = (!given_up).then_some(until);
                    share.release(id, offset);
                });
            },
        );
        rejected.await.map(drop)
    }
}

#[async_trait]
impl Member for SqliteMember {
    async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            if let Some((slot, answer)) = &mut self.fetching {
                let (slot, fetched) = (*slot, answer.await);
                self.fetching = None;
                self.last = slot;
                if let Some(delivery) = self.arrived(slot, fetched)? {
                    return Ok(delivery);
                }
            }
            // Seen before the look, so that a change during the look is not missed.
            self.changed.borrow_and_update();
            match self.choose() {
                Next::Fetch { slot, number, topic } => {
                    self.fetching = Some((slot, self.fetch(slot, number, topic)));
                }
                Next::Wait(None) => self.changed.changed().await.map_err(|_| Error::Closed)?,
                Next::Wait(Some(until)) => {
                    // Either is a reason to look again.
                    let _ = timeout_at(until, self.changed.changed()).await;
                }
                Next::Closed => return Err(Error::Closed),
            }
        }
    }

    async fn commit(&mut self, delivery: &Delivery) -> Result<(), Error> {
        let Some(slot) = self.answerable(delivery)? else { return Ok(()) };
        let offset = delivery.offset.cast_signed();
        let (group, state, id) = (self.group.clone(), Arc::clone(&self.bus.state), self.id);
        let told = group.clone();
        let committed = self.bus.db.write_then(
            move |connection| advance(connection, &group, slot, offset),
            // Here and not below: a caller that cancels the wait has committed all the same.
            move |()| {
                lock(&state).change(&told, slot, |share| {
                    share.advance(offset + 1);
                    share.release(id, offset);
                });
            },
        );
        committed.await
    }

    async fn reject(
        &mut self,
        delivery: &Delivery,
        cause: &str,
        delay: Duration,
    ) -> Result<(), Error> {
        self.refuse(delivery, cause, delay, false).await
    }

    async fn postpone(&mut self, delivery: &Delivery, delay: Duration) -> Result<(), Error> {
        let Some(slot) = self.answerable(delivery)? else { return Ok(()) };
        let (id, offset) = (self.id, delivery.offset.cast_signed());
        let until = Instant::now() + delay.min(MAX_DELAY);
        self.bus.state().change(&self.group, slot, |share| {
            share.not_before = Some(until);
            share.release(id, offset);
        });
        Ok(())
    }

    async fn dead_letter(&mut self, delivery: &Delivery, cause: &str) -> Result<(), Error> {
        self.refuse(delivery, cause, Duration::ZERO, true).await
    }

    async fn pause(&mut self, topic: &str) -> Result<(), Error> {
        self.paused.insert(topic.to_owned());
        Ok(())
    }

    async fn resume(&mut self, topic: &str) -> Result<(), Error> {
        self.paused.remove(topic);
        Ok(())
    }
}

impl Drop for SqliteMember {
    fn drop(&mut self) {
        self.bus.state().leave(&self.group, self.id);
    }
}

impl fmt::Debug for SqliteMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, id, .. } = self;
        f.debug_struct("SqliteMember").field("group", group).field("id", id).finish_non_exhaustive()
    }
}

fn fetch(
    connection: &Connection,
    group: &str,
    slot: Slot,
    number: usize,
    topic: &str,
) -> Result<Fetched, Error> {
    let (position, attempts): (i64, u32) = connection
        .prepare_cached(
            "SELECT position, attempts FROM bus_positions WHERE slot = ?1 AND member_group = ?2",
        )?
        .query_row(params![slot, group], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((offset, message)) = message(connection, slot, position, topic)? else {
        let sql = "SELECT next FROM bus_partitions WHERE slot = ?1";
        let next = connection.prepare_cached(sql)?.query_row([slot], |row| row.get(0))?;
        return Ok(Fetched::Nothing(next));
    };
    let attempt = if offset == position { attempts.saturating_add(1) } else { 1 };
    connection
        .prepare_cached(
            "UPDATE bus_positions SET position = ?1, attempts = ?2
             WHERE slot = ?3 AND member_group = ?4",
        )?
        .execute(params![offset, attempt, slot, group])?;
    let (partition, offset) = (number as u32, offset.cast_unsigned());
    Ok(Fetched::Message(Delivery { message, partition, offset, attempt }))
}

/// The first message that is there from a position on.
fn message(
    connection: &Connection,
    slot: Slot,
    position: i64,
    topic: &str,
) -> Result<Option<(i64, Message)>, Error> {
    let found = connection
        .prepare_cached(
            "SELECT place, key, headers, payload FROM bus_messages
             WHERE place >= ?1 AND place < ?2 ORDER BY place LIMIT 1",
        )?
        .query_row(params![place(slot, position), end(slot)], |row| {
            Ok((offset(row.get(0)?), rows::message(row, 1, topic)?))
        });
    Ok(found.optional()?)
}

/// Moves a group past an offset, unless it has moved already.
pub(super) fn advance(
    connection: &Connection,
    group: &str,
    slot: Slot,
    offset: i64,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "UPDATE bus_positions SET position = ?1 + 1, attempts = 0, rejections = 0
             WHERE slot = ?2 AND member_group = ?3 AND position = ?1",
        )?
        .execute(params![offset, slot, group])?;
    Ok(())
}
