//! Making room: what every group has committed goes, and what is too old.

use ringfence_sqlite::Connection;
use rusqlite::{OptionalExtension as _, params};

use super::place::{end, offset, place};
use crate::Error;

/// Most messages of one partition that go at once, so that no transaction is long.
const MOST: i64 = 1024;

/// A partition and the offsets it holds.
struct Span {
    slot: i64,
    first: i64,
    next: i64,
}

/// How many messages a topic holds.
pub(super) fn held(connection: &Connection, topic: i64) -> Result<u64, Error> {
    let sql = "SELECT coalesce(sum(next - first), 0) FROM bus_partitions WHERE topic = ?1";
    let held: i64 = connection.prepare_cached(sql)?.query_row([topic], |row| row.get(0))?;
    Ok(held.cast_unsigned())
}

/// Removes what may go from the front of each partition; `horizon` is the youngest too old.
pub(super) fn reclaim(connection: &Connection, topic: i64, horizon: i64) -> Result<(), Error> {
    let sql = "SELECT slot, first, next FROM bus_partitions WHERE topic = ?1 AND first < next";
    let mut statement = connection.prepare_cached(sql)?;
    let spans = statement.query_map([topic], |row| {
        Ok(Span { slot: row.get(0)?, first: row.get(1)?, next: row.get(2)? })
    })?;
    let spans: Vec<_> = spans.collect::<Result<_, _>>()?;
    spans.iter().try_for_each(|span| span.shorten(connection, horizon))
}

impl Span {
    fn shorten(&self, connection: &Connection, horizon: i64) -> Result<(), Error> {
        let done = self.committed(connection)?.max(self.young(connection, horizon)?);
        let first = done.min(self.first + MOST);
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

    /// The offset that every group has reached. Without groups nobody has: a first one may come.
    fn committed(&self, connection: &Connection) -> Result<i64, Error> {
        let sql = "SELECT min(position) FROM bus_positions WHERE slot = ?1";
        let reached: Option<i64> =
            connection.prepare_cached(sql)?.query_row([self.slot], |row| row.get(0))?;
        Ok(reached.unwrap_or(self.first))
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
