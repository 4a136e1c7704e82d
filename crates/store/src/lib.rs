//! Durable state: calls, facts, the ledger, keys, session events, and the bytes they refer to.
//!
//! The ports (`ports`) know what a call is, never why it changes. Backends pass one contract suite
//! (`contract`), which is the documentation of the ports made executable.

pub mod contract;
mod data;
mod error;
mod ports;
mod room;
mod sqlite;

use std::fmt::Debug;

use ringfence_types::Digest;

pub use self::{
    data::{
        ApprovalPage, ApprovalQuery, ApprovalRow, CallPage, CallQuery, Commit, Commitment,
        DecisionQuery, EntryPage, EntryQuery, FactQuery, Findings, KeptDecision, Key, Logged,
        NewDecision, NewFindings, NewMemo, Placed, Record, Remembered, Repair, Scanned,
        SessionEvent, SessionQuery, Spend, Standing, Stored, Unreadable, Usable, Version,
    },
    error::Error,
    ports::{
        Approvals, Blobs, Calls, Canaries, Decisions, Facts, Keys, Log, Memos, Sessions, Store,
    },
    room::{NoRoom, Room, RoomLimits},
    sqlite::SqliteStore,
};

/// Signs for the ledger. All of it is called on the one thread that writes, in this order.
pub trait Notary: Debug + Send + Sync {
    /// Entries that it has signed for.
    fn size(&self) -> u64;

    /// The checkpoint over those and these.
    fn commit(&self, leaves: &[Digest]) -> Commitment;

    /// Whether the commit is on disk. If not, the checkpoint never was.
    fn ended(&self, is_kept: bool);
}

/// Is shown what a store holds, row by row; see [`Log::scan`].
pub trait Visitor: Send + Sync {
    /// Takes the next row.
    fn visit(&self, row: Scanned<'_>);
}

/// Most items in one answer.
pub const PAGE: usize = 1_000;

/// Bytes of documents after which an answer of decisions ends.
pub const DECISION_BYTES: usize = 8 << 20;

/// How long an idempotency key is remembered: one day.
pub const IDEMPOTENCY_SECS: u64 = 86_400;
