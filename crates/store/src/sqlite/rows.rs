//! Between values and columns.

use ringfence_types::{Digest, Timestamp};
use rusqlite::{
    Row, Rows,
    types::{Type, ValueRef},
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub(super) use crate::encoding::{json, page, position};
use crate::{
    Error, Stored, Unreadable, Version,
    encoding::{self, RecordTexts, Undecodable},
    packed::{Damaged, Unpacked},
};

/// Columns of every query for calls, in the order that [`stored`] reads: the newest record, and the one
/// that has what was asked, if that is another.
pub(super) const STORED: &str = "SELECT newest.body, newest.large, asked.body, asked.large, \
    calls.version, calls.id FROM calls \
    JOIN records AS newest ON newest.call = calls.seq AND newest.version = calls.version \
    LEFT JOIN records AS asked ON asked.call = calls.seq AND asked.version = calls.asked_in \
    AND calls.asked_in <> calls.version";

/// Where [`STORED`] has the table and the name of a row.
pub(super) const CALL: (&str, usize) = ("calls", 5);

/// Number of columns of [`STORED`].
pub(super) const STORED_COLUMNS: usize = 6;

/// A call from the columns of [`STORED`].
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let newest = texts(row, 0)?;
    let asked = match row.get_ref(2)? {
        ValueRef::Null => None,
        _ => Some(texts(row, 2)?),
    };
    let call = encoding::call(&newest, asked.as_ref()).map_err(|error| undecodable(0, error))?;
    Ok(Stored { call, version: Version(row.get::<_, i64>(4)?.cast_unsigned()) })
}

/// The texts of a record, from a column `body` and the column `large` after it.
pub(super) fn texts(row: &Row<'_>, index: usize) -> rusqlite::Result<RecordTexts> {
    let (body, large) = (row.get_ref(index)?.as_blob()?, row.get_ref(index + 1)?);
    RecordTexts::of(body, large.as_blob_or_null()?).map_err(|error| damaged(index, error))
}

/// A column whose content cannot be decoded.
pub(super) fn undecodable(index: usize, error: Undecodable) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Blob, error)
}

/// The column `body` of a record.
pub(super) fn body(row: &Row<'_>, index: usize) -> rusqlite::Result<Unpacked> {
    Unpacked::of(row.get_ref(index)?.as_blob()?).map_err(|error| damaged(index, error))
}

/// A column that does not hold what was packed into it.
pub(super) fn damaged(index: usize, error: Damaged) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Blob, Box::new(error))
}

/// A row, or that it cannot be read, by its table and its name.
pub(super) fn read<T>(
    row: &Row<'_>,
    (table, id): (&'static str, usize),
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T, Unreadable> {
    read(row).map_err(|error| {
        let id = match row.get_ref(id) {
            Ok(ValueRef::Blob(bytes)) => Uuid::from_slice(bytes).map(|uuid| uuid.to_string()).ok(),
            Ok(ValueRef::Integer(number)) => Some(number.to_string()),
            _ => None,
        };
        let id = id.unwrap_or_else(|| "without a valid id".to_owned());
        Unreadable { table, id, why: error.to_string() }
    })
}

/// Rows that can be read. Each of the others is told and left out: one damaged row must not hide
/// all others.
pub(super) fn readable<T>(
    mut found: Rows<'_>,
    name: (&'static str, usize),
    mut parse: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        match read(row, name, &mut parse) {
            Ok(value) => all.push(value),
            Err(error) => tracing::error!("{error}; it is left out"),
        }
    }
    Ok(all)
}

/// A column of JSON as a value of ours.
pub(super) fn parsed<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unreadable(index, error))
}

/// A column of text as a name.
pub(super) fn name<T>(row: &Row<'_>, index: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get_ref(index)?.as_str()?.parse().map_err(|error| unreadable(index, error))
}

/// A column of 32 bytes.
pub(super) fn digest(row: &Row<'_>, index: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; 32]>(index).map(Digest::from_bytes)
}

/// A column of 16 bytes.
pub(super) fn uuid(row: &Row<'_>, index: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(index).map(Uuid::from_bytes)
}

/// A column of microseconds.
pub(super) fn timestamp(row: &Row<'_>, index: usize) -> rusqlite::Result<Timestamp> {
    row.get(index).map(Timestamp::from_micros)
}

/// A column whose text is not what it should be.
pub(super) fn unreadable(
    index: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
}

impl From<ringfence_sqlite::Error> for Error {
    fn from(error: ringfence_sqlite::Error) -> Self {
        match error {
            ringfence_sqlite::Error::Busy => Error::Busy,
            gone @ ringfence_sqlite::Error::Gone { .. } => Error::Gone(Box::new(gone)),
            other => Error::Backend { doing: "use the database", source: Box::new(other) },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Backend { doing: "query the database", source: Box::new(error) }
    }
}
