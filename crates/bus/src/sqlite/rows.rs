//! Between messages and columns, and between errors.

use rusqlite::{Row, types::Type};

use crate::{Error, Message};

/// Names and values beside the payload, as one column.
pub(crate) fn headers(message: &Message) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(&message.headers)
        .map_err(|error| Error::Backend { doing: "write headers", source: Box::new(error) })
}

/// A message from three columns: key, headers, payload.
pub(crate) fn message(row: &Row<'_>, from: usize, topic: &str) -> rusqlite::Result<Message> {
    let headers = postcard::from_bytes(row.get_ref(from + 1)?.as_blob()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(from + 1, Type::Blob, Box::new(error))
    })?;
    Ok(Message {
        topic: topic.to_owned(),
        key: row.get(from)?,
        headers,
        payload: row.get(from + 2)?,
    })
}

impl From<ringfence_sqlite::Error> for Error {
    fn from(error: ringfence_sqlite::Error) -> Self {
        match error {
            ringfence_sqlite::Error::Busy => Error::Busy,
            ringfence_sqlite::Error::Closed => Error::Closed,
            other => Error::Backend { doing: "use the database", source: Box::new(other) },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Backend { doing: "query the database", source: Box::new(error) }
    }
}
