//! A hook into every transaction of the writer.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;

use crate::Error;

/// Is called in every transaction of the writer, on the writer's thread. If it fails, nothing of the
/// transaction is kept. Whether a transaction was kept, the next one finds in the database.
pub trait TransactionHook: Debug + Send + Sync {
    /// It has begun, and nothing was done in it yet. From here on nothing else can write.
    fn begun(&self, connection: &Connection) -> Result<(), Error>;

    /// All work is done, and the commit is next. What is written here is part of it.
    fn closing(&self, connection: &Connection) -> Result<(), Error>;
}

/// The hook of a database, if it has one.
#[derive(Debug, Default)]
pub(crate) struct HookSlot(Mutex<Option<Arc<dyn TransactionHook>>>);

impl HookSlot {
    pub(crate) fn set(&self, hook: Arc<dyn TransactionHook>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn TransactionHook>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
