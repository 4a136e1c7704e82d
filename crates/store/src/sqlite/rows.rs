//! Between values and columns.

use ringfence_types::{Asked, Call, Decision, Digest, Edited, State, Timestamp};
use rusqlite::{
    Row, Rows,
    types::{Type, ValueRef},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    Error, PAGE, Stored, Unreadable, Version,
    packed::{Damaged, Rest, Unpacked},
};

/// The part of a call that changes.
#[derive(Serialize)]
struct Now<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: &'a Option<Edited>,
    decision: &'a Option<Decision>,
    state: &'a State,
    changed_at: Timestamp,
}

#[derive(Deserialize)]
struct OwnedNow {
    #[serde(default)]
    edited: Option<Edited>,
    decision: Option<Decision>,
    state: State,
    changed_at: Timestamp,
}

/// The text of the part that changes.
pub(super) fn now(call: &Call) -> Result<String, Error> {
    let Call { edited, decision, state, changed_at, .. } = call;
    json(&Now { edited, decision, state, changed_at: *changed_at })
}

/// The text of a value of ours.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Error> {
    let failed = Error::backend("write a value as JSON");
    // Room for most values, so that the text is not moved while it grows.
    let mut text = Vec::with_capacity(1_024);
    serde_json::to_writer(&mut text, value).map_err(failed)?;
    String::from_utf8(text).map_err(Error::backend("write a value as JSON"))
}

/// Columns of every query for calls, in the order that [`stored`] reads: the newest record, and the one
/// that has what was asked, if that is another.
pub(super) const STORED: &str = "SELECT newest.body, newest.large, asked.body, asked.large, \
    calls.version, calls.id FROM calls \
    JOIN records AS newest ON newest.call = calls.seq AND newest.version = calls.version \
    LEFT JOIN records AS asked ON asked.call = calls.seq AND asked.version = calls.asked_in \
    AND calls.asked_in <> calls.version";

/// Where [`STORED`] has the table and the name of a row.
pub(super) const CALL: (&str, usize) = ("calls", 5);

/// How many columns [`STORED`] has.
pub(super) const STORED_COLUMNS: usize = 6;

/// A call from the columns of [`STORED`].
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let newest = Texts::of(row, 0)?;
    let OwnedNow { edited, decision, state, changed_at } = text(newest.rest()?.now, 0)?;
    let asked: Asked = match row.get_ref(2)? {
        ValueRef::Null => text(newest.rest()?.asked, 0)?,
        _ => text(Texts::of(row, 2)?.rest()?.asked, 2)?,
    };
    let version = Version(row.get::<_, i64>(4)?.cast_unsigned());
    Ok(Stored { call: Call { asked, edited, decision, state, changed_at }, version })
}

/// A text that a record must have, as a value of ours.
pub(super) fn text<T: DeserializeOwned>(text: Option<&str>, index: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text.unwrap_or("")).map_err(|error| unreadable(index, error))
}

/// The texts of a record, from its columns `body` and `large`.
pub(super) struct Texts {
    /// Of the column of this index.
    index: usize,
    body: Unpacked,
    large: Option<Unpacked>,
}

impl Texts {
    /// From a column `body` and the column `large` after it.
    pub(super) fn of(row: &Row<'_>, index: usize) -> rusqlite::Result<Self> {
        let unpacked = |at: usize, bytes: &[u8]| Unpacked::of(bytes).map_err(|e| damaged(at, e));
        let body = unpacked(index, row.get_ref(index)?.as_blob()?)?;
        let large = row.get_ref(index + 1)?.as_blob_or_null()?;
        let large = large.map(|bytes| unpacked(index + 1, bytes)).transpose()?;
        Ok(Self { index, body, large })
    }

    /// Those of any size.
    pub(super) fn rest(&self) -> rusqlite::Result<Rest<'_>> {
        match &self.large {
            Some(large) => large.rest().map_err(|error| damaged(self.index + 1, error)),
            None => {
                let texts = self.body.texts().map_err(|error| damaged(self.index, error))?;
                Ok(texts.rest.unwrap_or_default())
            }
        }
    }
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

/// A limit as SQL takes it, never above [`PAGE`].
pub(super) fn page(limit: usize) -> i64 {
    limit.min(PAGE) as i64
}

/// A position as SQL keeps it. One beyond what can exist finds nothing, as it should.
pub(super) fn position(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

impl Error {
    /// For `map_err` on a failure of the backend.
    pub(crate) fn backend<E>(doing: &'static str) -> impl Fn(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Error::Backend { doing, source: Box::new(source) }
    }
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

impl From<Damaged> for Error {
    fn from(error: Damaged) -> Self {
        Error::Backend { doing: "pack or unpack a record", source: Box::new(error) }
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Error::Backend { doing: "read a row", source: Box::new(error) }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Backend { doing: "query the database", source: Box::new(error) }
    }
}
