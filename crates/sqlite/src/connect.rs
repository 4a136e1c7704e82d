//! Connections and their settings.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::Error;

/// Marks the file as ours: `RngF` in ASCII.
const APPLICATION: i32 = 0x526e_6746;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Statements kept prepared per connection; more than all that exist.
const STATEMENTS: usize = 128;

/// Time to wait for a lock that only another thread of ours can hold, and only for moments.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection of the writer.
pub(crate) fn writer(path: &Path, cache_kib: u32) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Only a file that is still empty takes it.
    connection.pragma_update(None, "page_size", PAGE.cast_signed())?;
    claim(&connection, path)?;
    common(&connection, cache_kib)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         -- Every commit waits until the log is on disk: what was acknowledged survives.
         PRAGMA synchronous = FULL;
         -- The writer checkpoints between transactions, so that no commit pays for it.
         PRAGMA wal_autocheckpoint = 0;",
    )?;
    Ok(connection)
}

/// A connection that cannot write, whatever it is asked.
pub(crate) fn reader(path: &Path, cache_kib: u32) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    common(&connection, cache_kib)?;
    connection.execute_batch("PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// Makes SQLite open the write-ahead log and its index, which it otherwise does with the first read:
/// whatever is put in their places later is not opened.
pub(crate) fn open_files(connection: &Connection) -> Result<(), Error> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

fn common(connection: &Connection, cache_kib: u32) -> Result<(), Error> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on what is bound. Otherwise a statement that joins two tables is parsed
    // and planned anew whenever it is taken from the cache, which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // No mmap: an I/O error there is a signal that ends the process, here it is an error.
    connection.execute_batch(&format!(
        "PRAGMA cache_size = -{cache_kib};
         PRAGMA mmap_size = 0;
         PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF;"
    ))?;
    Ok(())
}

/// Refuses a database of something else before anything in it is changed.
fn claim(connection: &Connection, path: &Path) -> Result<(), Error> {
    let foreign = || Error::Foreign(path.to_owned());
    let read = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application =
        read("PRAGMA application_id").map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => foreign(),
            _ => error.into(),
        })?;
    if application == APPLICATION {
        return Ok(());
    }
    if application != 0 || read("SELECT count(*) FROM sqlite_schema")? > 0 {
        return Err(foreign());
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// Number of times a cached statement was planned again while different values were bound to it.
    fn plannings(connection: &Connection) -> i32 {
        let tables = "CREATE TABLE calls (seq INTEGER PRIMARY KEY, id BLOB UNIQUE, tenant TEXT);
                      CREATE TABLE asked (seq INTEGER PRIMARY KEY, asked TEXT);";
        connection.execute_batch(tables).unwrap();
        let sql = "SELECT asked.asked FROM calls JOIN asked ON asked.seq = calls.seq
                   WHERE calls.id = ?1 AND calls.tenant = ?2";
        for id in [b"a", b"b", b"c"] {
            assert!(!connection.prepare_cached(sql).unwrap().exists((id, "tenant")).unwrap());
        }
        connection.prepare_cached(sql).unwrap().get_status(StatementStatus::RePrepare)
    }

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.db");
        std::fs::File::create(&path).unwrap();
        assert_eq!(plannings(&writer(&path, 64).unwrap()), 0);
        // Control: SQLite as it comes plans again.
        assert_ne!(plannings(&Connection::open_in_memory().unwrap()), 0);
    }
}
