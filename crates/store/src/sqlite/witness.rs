//! A checkpoint in every commit in which the ledger grows.
//!
//! The writer holds the database for itself from the beginning of a transaction to its end. So if the
//! ledger is as long at the beginning as whoever signs has seen it, then what is beyond it at the end
//! was written by the transaction, and nothing that somebody else put there is ever signed for.

use std::sync::{Arc, atomic::Ordering};

use ringfence_sqlite::{Connection, Error as DbError, Witness};
use ringfence_types::{Digest, Sealed};

use super::{SqliteStore, checkpoints, rows};
use crate::{Error, Notary};

/// The ledger has entries that nobody here has written, or has lost some.
#[derive(Debug, thiserror::Error)]
#[error("the ledger has {found} entries and was left with another number: somebody changed it")]
struct Foreign {
    found: u64,
}

/// An entry without a signature that no checkpoint would cover.
#[derive(Debug, thiserror::Error)]
#[error("an entry without a signature needs a checkpoint in its commit")]
struct Uncovered;

#[derive(Debug)]
struct Ledger(Arc<dyn Notary>);

pub(super) fn appoint(store: &SqliteStore, notary: Arc<dyn Notary>) {
    store.db.watch(Arc::new(Ledger(notary)));
    store.is_witnessed.store(true, Ordering::Release);
}

/// Refuses what could be changed later without notice.
pub(super) fn check(store: &SqliteStore, entries: &[Sealed]) -> Result<(), Error> {
    let is_unsigned = |entry: &Sealed| entry.signature.is_none();
    if store.is_witnessed.load(Ordering::Acquire) || !entries.iter().any(is_unsigned) {
        return Ok(());
    }
    Err(Error::backend("write an entry of the ledger")(Uncovered))
}

impl Witness for Ledger {
    fn begun(&self, connection: &Connection) -> Result<(), DbError> {
        let sql = "SELECT coalesce(max(position), 0) FROM ledger";
        let found: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        let found = found.cast_unsigned();
        match self.0.size() == found {
            true => Ok(()),
            false => Err(DbError::Refused(Arc::new(Foreign { found }))),
        }
    }

    fn closing(&self, connection: &Connection) -> Result<(), DbError> {
        let leaves = added(connection, self.0.size())?;
        if !leaves.is_empty() {
            checkpoints::put(connection, &self.0.commit(&leaves))?;
        }
        Ok(())
    }

    fn ended(&self, is_kept: bool) {
        self.0.ended(is_kept);
    }
}

fn added(connection: &Connection, size: u64) -> Result<Vec<Digest>, DbError> {
    let sql = "SELECT leaf FROM ledger WHERE position > ?1 ORDER BY position";
    let mut statement = connection.prepare_cached(sql)?;
    let leaves = statement.query_map([rows::position(size)], |row| rows::digest(row, 0))?;
    Ok(leaves.collect::<Result<_, _>>()?)
}
