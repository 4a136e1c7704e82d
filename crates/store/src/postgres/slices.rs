//! Filters that no index answers alone: a bounded number of rows is visited per read.
//!
//! The rows of an index are visited in the order of a key; those that match are collected. A slice ends when
//! enough was found or enough was visited, and says after which key the next one begins.

use tokio_postgres::Row;

use crate::{Error, encoding::Undecodable};

/// Rows that one read visits at most.
pub(super) const SLICE: usize = 4_096;

/// Keys that match, in their order, and where to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slice<K> {
    pub(super) keys: Vec<K>,
    /// Last key that was visited; `None` if there are no more.
    pub(super) next: Option<K>,
}

/// Rows to ask for, so that a slice can tell whether there are more.
pub(super) fn rows_to_visit(found: usize, has_filters: bool) -> i64 {
    (if has_filters { SLICE } else { found.min(SLICE) }) as i64
}

/// Visits rows whose second column says whether the row matches; `asked` rows were asked for.
pub(super) fn visit<K: Copy>(
    rows: &[Row],
    (found, asked): (usize, i64),
    key: impl Fn(&Row) -> Result<K, Undecodable>,
) -> Result<Slice<K>, Error> {
    let mut slice = Slice { keys: Vec::new(), next: None };
    for (visited, row) in (1..).zip(rows) {
        let undecodable = |source| Error::Backend { doing: "read a row", source };
        let key = key(row).map_err(undecodable)?;
        if row.try_get(1)? {
            slice.keys.push(key);
        }
        if slice.keys.len() >= found || visited >= asked {
            slice.next = Some(key);
            break;
        }
    }
    Ok(slice)
}
