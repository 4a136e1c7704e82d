//! Between values and columns.

use std::str::FromStr;

use ringfence_types::{Digest, Timestamp};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    Error, Stored, Unreadable, Version,
    encoding::{self, RecordTexts, Undecodable},
};

/// Columns of every query for calls, in the order that [`stored`] reads: the newest record, and the one
/// that has what was asked, if that is another.
pub(super) const STORED: &str = "SELECT newest.body, newest.large, asked.body, asked.large, \
    calls.version, calls.id FROM calls \
    JOIN records AS newest ON newest.call = calls.seq AND newest.version = calls.version \
    LEFT JOIN records AS asked ON asked.call = calls.seq AND asked.version = calls.asked_in \
    AND calls.asked_in <> calls.version";

/// Number of columns of [`STORED`].
pub(super) const STORED_COLUMNS: usize = 6;

/// Call from the columns of [`STORED`].
pub(super) fn stored(row: &Row) -> Result<Stored, Undecodable> {
    let newest = texts(row, 0)?;
    let asked = match row.try_get::<_, Option<&[u8]>>(2)? {
        None => None,
        Some(_) => Some(texts(row, 2)?),
    };
    let call = encoding::call(&newest, asked.as_ref())?;
    Ok(Stored { call, version: Version(unsigned(row, 4)?) })
}

/// Texts of a record, from a column `body` and the column `large` after it.
pub(super) fn texts(row: &Row, index: usize) -> Result<RecordTexts, Undecodable> {
    Ok(RecordTexts::of(row.try_get(index)?, row.try_get(index + 1)?)?)
}

/// A row, or that it cannot be read, by its table and its name.
pub(super) fn read<T>(
    row: &Row,
    (table, id): (&'static str, usize),
    read: impl FnOnce(&Row) -> Result<T, Undecodable>,
) -> Result<T, Unreadable> {
    read(row).map_err(|error| {
        let uuid = row.try_get::<_, Uuid>(id).map(|uuid| uuid.to_string());
        let id = uuid.or_else(|_| row.try_get::<_, i64>(id).map(|number| number.to_string()));
        let id = id.unwrap_or_else(|_| "without a valid id".to_owned());
        Unreadable { table, id, why: error.to_string() }
    })
}

/// Rows that can be read. Each of the others is logged and left out: one damaged row must not hide all
/// others.
pub(super) fn readable<T>(
    found: &[Row],
    name: (&'static str, usize),
    mut parse: impl FnMut(&Row) -> Result<T, Undecodable>,
) -> Vec<T> {
    let mut all = Vec::new();
    for row in found {
        match read(row, name, &mut parse) {
            Ok(value) => all.push(value),
            Err(error) => tracing::error!("{error}; it is left out"),
        }
    }
    all
}

/// Value of a row that must be readable.
pub(super) fn whole<T>(
    row: &Row,
    name: (&'static str, usize),
    parse: impl FnOnce(&Row) -> Result<T, Undecodable>,
) -> Result<T, Error> {
    Ok(read(row, name, parse)?)
}

/// Column of JSON as a value.
pub(super) fn parsed<T: DeserializeOwned>(row: &Row, index: usize) -> Result<T, Undecodable> {
    Ok(serde_json::from_str(row.try_get(index)?)?)
}

/// Column of text as a name.
pub(super) fn name<T>(row: &Row, index: usize) -> Result<T, Undecodable>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    Ok(row.try_get::<_, &str>(index)?.parse()?)
}

/// Column of text as a name, or nothing.
pub(super) fn name_or_none<T>(row: &Row, index: usize) -> Result<Option<T>, Undecodable>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = row.try_get::<_, Option<&str>>(index)?;
    Ok(text.map(str::parse).transpose()?)
}

/// Column of 32 bytes.
pub(super) fn digest(row: &Row, index: usize) -> Result<Digest, Undecodable> {
    Ok(Digest::from_bytes(row.try_get::<_, &[u8]>(index)?.try_into()?))
}

/// Column of microseconds.
pub(super) fn timestamp(row: &Row, index: usize) -> Result<Timestamp, Undecodable> {
    Ok(Timestamp::from_micros(row.try_get(index)?))
}

/// Column of microseconds, or nothing.
pub(super) fn timestamp_or_none(row: &Row, index: usize) -> Result<Option<Timestamp>, Undecodable> {
    Ok(row.try_get::<_, Option<i64>>(index)?.map(Timestamp::from_micros))
}

/// Column of a number that is never negative.
pub(super) fn unsigned(row: &Row, index: usize) -> Result<u64, Undecodable> {
    Ok(row.try_get::<_, i64>(index)?.cast_unsigned())
}

/// PostgreSQL keeps no text with this character.
#[derive(Debug, thiserror::Error)]
#[error("the text has a NUL character, which PostgreSQL cannot keep")]
struct Nul;

/// Refuses texts that PostgreSQL would refuse: its error would abort the steps of others.
pub(super) fn check_text(text: &str) -> Result<(), Error> {
    match text.contains('\0') {
        true => Err(Error::backend("write a text")(Nul)),
        false => Ok(()),
    }
}
