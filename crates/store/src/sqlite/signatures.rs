//! Signatures that came later than their entries.

use ringfence_sqlite::{Connection, Db};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
use crate::Error;

/// Bytes of each.
const EACH: usize = 64;

/// The signature of an entry, from its own row or from those that came later. Too short if the last
/// of these rows ends before it.
pub(super) const COLUMN: &str = "coalesce(ledger.signature, \
     (SELECT substr(signatures, 64 * (ledger.position - 1 - first) + 1, 64) FROM signatures \
      WHERE first < ledger.position ORDER BY first DESC LIMIT 1))";

/// Keeps signatures of entries from an index on, unless it is not where the last ones ended.
pub(super) async fn save(db: &Db, first: u64, made: Vec<[u8; EACH]>) -> Result<(), Error> {
    let bytes = made.concat();
    db.write(move |connection| {
        if !bytes.is_empty() && newest(connection)? == first {
            connection
                .prepare_cached("INSERT INTO signatures (first, signatures) VALUES (?1, ?2)")?
                .execute(params![rows::position(first), bytes])?;
        }
        Ok(())
    })
    .await
}

/// The index after the last of them.
pub(super) async fn end(db: &Db) -> Result<u64, Error> {
    db.read(newest).await
}

fn newest(connection: &Connection) -> Result<u64, Error> {
    let sql = "SELECT first + length(signatures) / 64 FROM signatures ORDER BY first DESC LIMIT 1";
    let end =
        connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0)).optional()?;
    Ok(end.map_or(0, i64::cast_unsigned))
}
