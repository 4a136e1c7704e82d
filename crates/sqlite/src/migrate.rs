//! The history of the schema: ordered scripts per component, each applied once and never changed.

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// Applies what is new, inside the caller's transaction.
///
/// A savepoint of its own, because the writer tells by counted rows whether work that failed left
/// a trace, and a change of the schema counts none.
pub(crate) fn migrate(
    connection: &Connection,
    component: &str,
    scripts: &[&str],
) -> Result<(), Error> {
    connection.execute_batch("SAVEPOINT migrate")?;
    let applied = apply(connection, component, scripts);
    if applied.is_err() {
        connection.execute_batch("ROLLBACK TO migrate")?;
    }
    connection.execute_batch("RELEASE migrate")?;
    applied
}

fn apply(connection: &Connection, component: &str, scripts: &[&str]) -> Result<(), Error> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
             component TEXT NOT NULL,
             number INTEGER NOT NULL,
             digest BLOB NOT NULL,
             PRIMARY KEY (component, number)
         ) WITHOUT ROWID, STRICT;",
    )?;
    let seen = history(connection, component)?;
    check(component, scripts, &seen)?;
    for (index, script) in scripts.iter().enumerate().skip(seen.len()) {
        connection.execute_batch(script)?;
        connection.execute(
            "INSERT INTO migrations (component, number, digest) VALUES (?1, ?2, ?3)",
            params![component, index as i64 + 1, digest(script)],
        )?;
    }
    Ok(())
}

/// Digests of what the file has seen, in order.
fn history(connection: &Connection, component: &str) -> Result<Vec<Vec<u8>>, Error> {
    let sql = "SELECT digest FROM migrations WHERE component = ?1 ORDER BY number";
    let mut statement = connection.prepare(sql)?;
    let digests = statement.query_map([component], |row| row.get(0))?;
    Ok(digests.collect::<Result<_, _>>()?)
}

fn check(component: &str, scripts: &[&str], seen: &[Vec<u8>]) -> Result<(), Error> {
    if seen.len() > scripts.len() {
        let (found, known) = (seen.len(), scripts.len());
        return Err(Error::Newer { component: component.to_owned(), found, known });
    }
    match scripts.iter().zip(seen).position(|(script, seen)| digest(script) != seen[..]) {
        Some(index) => Err(Error::Changed { component: component.to_owned(), number: index + 1 }),
        None => Ok(()),
    }
}

fn digest(script: &str) -> [u8; 32] {
    Sha256::digest(script.as_bytes()).into()
}
