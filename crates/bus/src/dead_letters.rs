//! List of dead letters: rows in the file that the store uses, for every backend.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::Timestamp;
use rusqlite::{OptionalExtension as _, params};

use crate::{Dead, Delivery, Error, Message, sqlite};

/// Dead letters in one answer.
const MAX_PAGE: usize = 1_000;

/// Bytes of a cause that are kept.
const MAX_CAUSE_BYTES: usize = 4 << 10;

/// The list. Clones share it.
#[derive(Clone)]
pub(crate) struct DeadLetters {
    db: Db,
    /// Letters kept per topic.
    keep: i64,
}

/// Dead letter to be written.
pub(crate) struct Letter {
    topic: String,
    group: String,
    cause: String,
    attempts: u32,
    died_at: Timestamp,
    key: Option<Vec<u8>>,
    headers: Vec<u8>,
    payload: Vec<u8>,
    keep: i64,
}

impl DeadLetters {
    /// Brings the tables of the bus up to date.
    pub(crate) async fn open(db: Db, keep: u64) -> Result<Self, Error> {
        db.migrate("bus", sqlite::MIGRATIONS).await?;
        Ok(Self { db, keep: i64::try_from(keep).unwrap_or(i64::MAX) })
    }

    /// Letter for a delivery that was given up.
    pub(crate) fn letter(
        &self,
        group: &str,
        delivery: &Delivery,
        cause: &str,
        died_at: Timestamp,
    ) -> Result<Letter, Error> {
        let message = &delivery.message;
        Ok(Letter {
            topic: message.topic.clone(),
            group: group.to_owned(),
            cause: cause[..cause.floor_char_boundary(MAX_CAUSE_BYTES)].to_owned(),
            attempts: delivery.attempt,
            died_at,
            key: message.key.clone(),
            headers: sqlite::rows::headers(message)?,
            payload: message.payload.clone(),
            keep: self.keep,
        })
    }

    /// Adds a letter.
    pub(crate) async fn add(
        &self,
        group: &str,
        delivery: &Delivery,
        cause: &str,
        died_at: Timestamp,
    ) -> Result<(), Error> {
        let letter = self.letter(group, delivery, cause, died_at)?;
        self.db.write(move |connection| letter.write(connection)).await
    }

    /// Topics with the number of their letters.
    pub(crate) async fn topics(&self) -> Result<Vec<(String, u64)>, Error> {
        self.db
            .read(|connection| {
                let sql = "SELECT topic, count(*) FROM bus_dead_letters GROUP BY topic";
                let mut statement = connection.prepare_cached(sql)?;
                let rows = statement.query_map([], |row| {
                    Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Letters of a topic behind an id, oldest first.
    pub(crate) async fn list(
        &self,
        topic: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Dead>, Error> {
        let topic = topic.to_owned();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.db
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, member_group, cause, attempts, died_at, key, headers, payload
                     FROM bus_dead_letters WHERE topic = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
                )?;
                let limit = limit.min(MAX_PAGE) as i64;
                let found = statement.query_map(params![topic, after, limit], |row| {
                    Ok(Dead {
                        id: row.get::<_, i64>(0)?.cast_unsigned(),
                        message: sqlite::rows::message(row, 5, &topic)?,
                        group: row.get(1)?,
                        cause: row.get(2)?,
                        attempts: row.get(3)?,
                        died_at: Timestamp::from_micros(row.get(4)?),
                    })
                })?;
                Ok(found.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Message of a letter.
    pub(crate) async fn find(&self, topic: &str, id: u64) -> Result<Option<Message>, Error> {
        let topic = topic.to_owned();
        self.db.read(move |connection| find(connection, &topic, id)).await
    }

    /// Takes a letter off the list; `false` if there is no such one.
    pub(crate) async fn remove(&self, topic: &str, id: u64) -> Result<bool, Error> {
        let topic = topic.to_owned();
        self.db.write(move |connection| remove(connection, &topic, id)).await
    }
}

impl Letter {
    /// Writes the letter; beyond the number that is kept, the oldest goes.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Error> {
        connection
            .prepare_cached(
                "INSERT INTO bus_dead_letters
                 (topic, member_group, cause, attempts, died_at, key, headers, payload)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.topic,
                self.group,
                self.cause,
                self.attempts,
                self.died_at.as_micros(),
                self.key,
                self.headers,
                self.payload
            ])?;
        let dropped = connection
            .prepare_cached(
                "DELETE FROM bus_dead_letters WHERE topic = ?1 AND id <= (
                 SELECT id FROM bus_dead_letters
                 WHERE topic = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![self.topic, self.keep])?;
        if dropped > 0 {
            tracing::warn!(dropped, group = self.group, "too many dead letters: the oldest went");
        }
        Ok(())
    }
}

/// Message of a letter.
pub(crate) fn find(
    connection: &Connection,
    topic: &str,
    id: u64,
) -> Result<Option<Message>, Error> {
    let sql = "SELECT key, headers, payload FROM bus_dead_letters WHERE id = ?1 AND topic = ?2";
    let id = i64::try_from(id).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![id, topic], |row| sqlite::rows::message(row, 0, topic));
    Ok(found.optional()?)
}

/// Takes a letter off the list; `false` if there is no such one.
pub(crate) fn remove(connection: &Connection, topic: &str, id: u64) -> Result<bool, Error> {
    let sql = "DELETE FROM bus_dead_letters WHERE id = ?1 AND topic = ?2";
    let id = i64::try_from(id).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![id, topic])? > 0)
}
