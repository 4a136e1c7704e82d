//! A database in a folder of its own, with one table of numbers.

use std::path::Path;

use ringfence_sqlite::{Connection, Db, Error, Options};

pub(crate) const TABLE: &[&str] = &["CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT;"];

pub(crate) async fn open(folder: &Path, options: &Options) -> Db {
    let db = Db::open(&folder.join("data.db"), options).unwrap();
    db.migrate("numbers", TABLE).await.unwrap();
    db
}

/// Errors of a test's own work.
#[derive(Debug)]
pub(crate) enum Failed {
    Unwanted,
    Db(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Db(error)
    }
}

pub(crate) fn insert(connection: &Connection, n: i64) -> Result<(), Error> {
    connection.prepare_cached("INSERT INTO numbers (n) VALUES (?1)")?.execute([n])?;
    Ok(())
}

pub(crate) async fn numbers(db: &Db) -> Vec<i64> {
    let read = db.read(|connection| -> Result<Vec<i64>, Error> {
        let mut statement = connection.prepare_cached("SELECT n FROM numbers ORDER BY n")?;
        let numbers = statement.query_map([], |row| row.get(0))?;
        Ok(numbers.collect::<Result<_, _>>()?)
    });
    read.await.unwrap()
}
