//! Making room: messages go that every group has committed, that are too old, or that no group reads.

use ringfence_sqlite::Connection;
use rusqlite::{OptionalExtension as _, params};

use super::place::{end, offset, place};
use crate::Error;

/// Most messages of one partition that go at once, so that no transaction is long.
const MAX_REMOVED: i64 = 1024;

/// A partition and the offsets it holds.
struct Span {
    slot: i64,
    first: i64,
    next: i64,
}

/// Number of messages that a topic holds.
pub(super) fn held(connection: &Connection, topic: i64) -> Result<u64, Error> {
    let sql = "SELECT coalesce(sum(next - first), 0) FROM bus_partitions WHERE topic = ?1";
    let held: i64 = connection.prepare_cached(sql)?.query_row([topic], |row| row.get(0))?;
    Ok(held.cast_unsigned())
}

/// Removes what may go from the front of each partition; `horizon` is the youngest too old.
pub(super) fn reclaim(connection: &Connection, topic: i64, horizon: i64) -> Result<(), Error> {
    for span in spans(connection, topic)? {
        let done = span.reached(connection)?.unwrap_or(span.first);
        span.begin_at(connection, done.max(span.young(connection, horizon)?))?;
    }
    Ok(())
}

/// Removes the oldest part of what no group has ever asked for. A group that comes may still ask
/// for the rest; but publishers must not be held up for a group that never comes.
pub(super) fn forget_unread(connection: &Connection, topic: i64) -> Result<(), Error> {
    for span in spans(connection, topic)? {
        if span.reached(connection)?.is_none() {
            span.begin_at(connection, span.first + (span.next - span.first).div_euclid(4).max(1))?;
        }
    }
    Ok(())
}

/// The partitions of a topic that hold something.
fn spans(connection: &Connection, topic: i64) -> Result<Vec<Span>, Error> {
    let sql = "SELECT slot, first, next FROM bus_partitions WHERE topic = ?1 AND first < next";
    let mut statement = connection.prepare_cached(sql)?;
    let spans = statement.query_map([topic], |row| {
        Ok(Span { slot: row.get(0)?, first: row.get(1)?, next: row.get(2)? })
    })?;
    Ok(spans.collect::<Result<_, _>>()?)
}

impl Span {
    /// Removes what is before an offset.
    fn begin_at(&self, connection: &Connection, offset: i64) -> Result<(), Error> {
        let first = offset.min(self.first + MAX_REMOVED);
        if first <= self.first {
            return Ok(());
        }
        connection
            .prepare_cached("DELETE FROM bus_messages WHERE place >= ?1 AND place < ?2")?
            .execute([place(self.slot, self.first), place(self.slot, first)])?;
        connection
            .prepare_cached("UPDATE bus_partitions SET first = ?1 WHERE slot = ?2")?
            .execute([first, self.slot])?;
        // Groups that were too slow go on with what is left.
        connection
            .prepare_cached(
                "UPDATE bus_positions SET position = ?1, attempts = 0, rejections = 0
                 WHERE slot = ?2 AND position < ?1",
            )?
            .execute([first, self.slot])?;
        Ok(())
    }

    /// The offset that every group has reached; none if there is no group.
    fn reached(&self, connection: &Connection) -> Result<Option<i64>, Error> {
        let sql = "SELECT min(position) FROM bus_positions WHERE slot = ?1";
        Ok(connection.prepare_cached(sql)?.query_row([self.slot], |row| row.get(0))?)
    }

    /// The offset of the first message that is young enough.
    fn young(&self, connection: &Connection, horizon: i64) -> Result<i64, Error> {
        let sql = "SELECT place FROM bus_messages WHERE place >= ?1 AND place < ?2 AND at > ?3
                   ORDER BY place LIMIT 1";
        let young = connection
            .prepare_cached(sql)?
            .query_row(params![place(self.slot, self.first), end(self.slot), horizon], |row| {
                row.get(0).map(offset)
            })
            .optional()?;
        Ok(young.unwrap_or(self.next))
    }
}
