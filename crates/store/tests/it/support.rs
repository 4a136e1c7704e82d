//! A store in a folder of its own.

use std::{path::Path, sync::Arc};

use ringfence_sqlite::{Db, Options};
use ringfence_store::{SqliteStore, Store};

/// Opens the store of a folder, or makes it.
pub(crate) async fn open(folder: &Path) -> (Db, Arc<dyn Store>) {
    open_with(folder, &Options::default()).await
}

/// The same database as another process sees it that is started later. It has one writer all the same:
/// two processes never have the file open at once.
pub(crate) async fn later(db: &Db, folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(db.clone(), &folder.join("blobs")).await.unwrap())
}

pub(crate) async fn open_with(folder: &Path, options: &Options) -> (Db, Arc<dyn Store>) {
    let db = Db::open(&folder.join("data.db"), options).unwrap();
    let store = SqliteStore::open(db.clone(), &folder.join("blobs")).await.unwrap();
    (db, Arc::new(store))
}
