//! Filters that no index answers alone: scanned in slices of a bounded number of rows.
//!
//! The rows of an index are visited in the order of a key; those that match are collected. A slice
//! ends when enough was found or enough was visited, and says after which key the next one begins.
//! A key is visited in one slice only, so a reader of the slices misses nothing and finds
//! nothing twice.

use rusqlite::{Row, Rows};

use crate::Error;

/// Rows that one read visits at most: some milliseconds.
pub(super) const SLICE: usize = 4_096;

/// Bounds of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most keys that are found.
    pub(super) found: usize,
    /// Most rows that are visited.
    pub(super) visited: usize,
}

/// Keys that match, in their order, and where to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slice<K> {
    pub(super) keys: Vec<K>,
    /// The last key that was visited; `None` if there are no more.
    pub(super) next: Option<K>,
    /// Rows that were visited.
    pub(super) visited: usize,
}

/// Visits rows whose first column is the key and whose second says whether the row matches.
pub(super) fn visit<K: Copy>(
    mut rows: Rows<'_>,
    bounds: Bounds,
    key: impl Fn(&Row<'_>) -> rusqlite::Result<K>,
) -> Result<Slice<K>, Error> {
    let mut slice = Slice { keys: Vec::new(), next: None, visited: 0 };
    if bounds.found == 0 {
        return Ok(slice);
    }
    while let Some(row) = rows.next()? {
        let key = key(row)?;
        slice.visited += 1;
        if row.get(1)? {
            slice.keys.push(key);
        }
        if slice.keys.len() >= bounds.found || slice.visited >= bounds.visited {
            slice.next = Some(key);
            break;
        }
    }
    Ok(slice)
}
