//! Whoever must see every transaction of the writer.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;

use crate::Error;

/// Sees every transaction of the writer from its beginning to its end, on the writer's thread. If it
/// fails, nothing of the transaction is kept.
pub trait Witness: Debug + Send + Sync {
    /// It has begun, and nothing was done in it yet. From here on nobody else can write.
    fn begun(&self, connection: &Connection) -> Result<(), Error>;

    /// All work is done, and the commit is next. What is written here is part of it.
    fn closing(&self, connection: &Connection) -> Result<(), Error>;

    /// All of it is on disk, or none of it is kept. Follows every `closing`, whatever that said.
    fn ended(&self, is_kept: bool);
}

/// The place of the witness, which may be empty.
#[derive(Debug, Default)]
pub(crate) struct Stand(Mutex<Option<Arc<dyn Witness>>>);

impl Stand {
    pub(crate) fn take(&self, witness: Arc<dyn Witness>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(witness);
    }

    pub(crate) fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
