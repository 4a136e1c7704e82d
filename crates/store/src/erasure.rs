//! Erasure of records: data that goes in and out of [`Retention`](crate::Retention).

use ringfence_types::{CallId, SessionId, Timestamp};

use crate::BlobCount;

/// Calls of a tenant whose records are to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureScope {
    /// A call, and the calls that it made, and so on.
    Call(CallId),
    /// Calls of a session.
    Session(SessionId),
}

/// Calls that a scope covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasableCalls {
    /// Ended calls whose records are kept, oldest first.
    pub ended: Vec<CallId>,
    /// Number of calls that have not ended; their records cannot be erased.
    pub under_way: u64,
}

/// Calls that ended before a moment, among a number of entries of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpiredCalls {
    /// Calls whose records are kept, in the order of their ends.
    pub calls: Vec<CallId>,
    /// Index of the first entry that was not visited.
    pub next: u64,
    /// Index of the first entry that is not older, or `next` if all are.
    pub first_kept: u64,
    /// Whether no visited entry is older: the entries after them are taken for newer ones.
    pub is_end: bool,
}

impl ExpiredCalls {
    /// From the entries that were visited: position, whether it is older, and the call that it is the end of, if
    /// its records are kept.
    pub(crate) fn of(from: u64, visited: Vec<(u64, bool, Option<CallId>)>) -> Self {
        // A position is the index of the entry after it.
        let next = visited.last().map_or(from, |(position, ..)| *position);
        let first_kept = visited.iter().find(|(_, is_older, _)| !is_older);
        let first_kept = first_kept.map_or(next, |(position, ..)| position - 1);
        let is_end = !visited.iter().any(|(_, is_older, _)| *is_older);
        let older = visited.into_iter().filter(|(_, is_older, _)| *is_older);
        Self { calls: older.filter_map(|(.., call)| call).collect(), next, first_kept, is_end }
    }
}

/// Session events to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasedEvents {
    /// Events of a session of a tenant.
    Session(ringfence_types::TenantId, SessionId),
    /// Events before a moment, of all tenants.
    Before(Timestamp),
}

/// Erased records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasedCalls {
    /// Number of calls.
    pub calls: u64,
    /// Blobs that have no owner any more.
    pub blobs: BlobCount,
}
