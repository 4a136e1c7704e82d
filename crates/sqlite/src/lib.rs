//! One SQLite file with one writer that groups commits, and readers beside it.
//!
//! Everything that waits to be written goes into one transaction and shares one `fsync`, so a
//! hundred writers at once cost about as much as one. [`Db::write`] answers after that `fsync`.
//!
//! Invariants:
//! - what was answered with success survives `kill -9` and a power cut (`synchronous=FULL`);
//! - a piece of work that fails leaves no trace and does not undo its neighbours;
//! - one process at a time: a lock file is held for as long as the writer lives;
//! - nothing is acknowledged once a file of the database was deleted or replaced;
//! - reads of one lane never keep another lane, or a look-up, waiting (see [`Db::read_for`]);
//! - nothing is unbounded: neither the queues, nor a transaction, nor the write-ahead log.

mod connect;
mod db;
mod error;
mod files;
mod hook;
mod job;
mod lanes;
mod lock;
mod metrics;
mod migrate;
mod queue;
mod reader;
mod writer;

pub use rusqlite::Connection;

pub use self::{
    db::{Db, Options},
    error::Error,
    hook::TransactionHook,
    job::Answer,
};
