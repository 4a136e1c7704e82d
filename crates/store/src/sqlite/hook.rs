//! A checkpoint in every commit in which the ledger grows.
//!
//! The writer holds the database for itself from the beginning of a transaction to its end. So if the
//! newest checkpoint is over all entries at the beginning, then what is beyond it at the end was written
//! by the transaction; and the signer accepts a newest checkpoint only if it is its own, or if it is
//! signed with the same key and over the entries that are there. Nothing else is ever signed for.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use ringfence_sqlite::{Connection, Error as DbError, TransactionHook};
use ringfence_types::{Digest, Sealed};

use super::{SqliteStore, checkpoints, rows};
use crate::{
    CheckpointSigner, Error, Signed,
    covered::{check_ledger, check_signed},
};

#[derive(Debug)]
struct Checkpoints {
    signer: Arc<dyn CheckpointSigner>,
    /// The newest, as the transaction found it.
    newest: Mutex<Option<Signed>>,
}

pub(super) fn set(store: &SqliteStore, signer: Arc<dyn CheckpointSigner>) {
    store.db.set_hook(Arc::new(Checkpoints { signer, newest: Mutex::default() }));
    store.has_signer.store(true, Ordering::Release);
}

/// Refuses what could be changed later without notice.
pub(super) fn check(store: &SqliteStore, entries: &[Sealed]) -> Result<(), Error> {
    check_signed(store.has_signer.load(Ordering::Acquire), entries)
}

impl TransactionHook for Checkpoints {
    fn begun(&self, connection: &Connection) -> Result<(), DbError> {
        let newest = checkpoints::newest_of(connection)?;
        let sql = "SELECT coalesce(max(position), 0) FROM ledger";
        let found: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        check_ledger(self.signer.as_ref(), newest.as_ref(), found.cast_unsigned())
            .map_err(|error| DbError::Refused(Arc::new(error)))?;
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = newest;
        Ok(())
    }

    fn closing(&self, connection: &Connection) -> Result<(), DbError> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let size = newest.as_ref().map_or(0, |signed| signed.size);
        let leaves = leaves(connection, size, i64::MAX)?;
        if leaves.is_empty() {
            return Ok(());
        }
        let seen = self.signer.seen(newest.as_ref());
        let missing = match seen < size {
            true => self::leaves(connection, seen, rows::position(size))?,
            false => Vec::new(),
        };
        let signed = self.signer.commit(newest.as_ref(), &missing, &leaves);
        let signed = signed.map_err(|error| DbError::Refused(Arc::new(error)))?;
        checkpoints::put(connection, &signed)?;
        Ok(())
    }
}

/// Leaves of the entries after so many, up to a position.
fn leaves(connection: &Connection, after: u64, last: i64) -> Result<Vec<Digest>, DbError> {
    let sql = "SELECT leaf FROM ledger WHERE position > ?1 AND position <= ?2 ORDER BY position";
    let mut statement = connection.prepare_cached(sql)?;
    let leaves = statement.query_map([rows::position(after), last], |row| rows::digest(row, 0))?;
    Ok(leaves.collect::<Result<_, _>>()?)
}
