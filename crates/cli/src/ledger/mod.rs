//! The ledger of a data directory: its key, and what the commands about it share.

mod artifacts;
mod audit;
mod export;
mod growth;
mod key;
mod log;
mod manage;
mod replay;
mod verify;
mod what;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ringfence_engine::{Ledger, OpenError};
use ringfence_sqlite::{Db, Options};
use ringfence_store::{SqliteStore, Store};
use ringfence_types::Clock as _;

pub(crate) use self::{
    audit::audit, export::export, manage::ledger, replay::replay, verify::verify,
};
use crate::{cli::DataArgs, config, failure::Failure, serve::SystemClock};

/// Opens the ledger with the key of the directory; on the first start there is a new one.
pub(crate) async fn open(data: &Path, store: Arc<dyn Store>) -> Result<Ledger, Failure> {
    key::settle(data, store.as_ref()).await?;
    let is_new = *store.grown().borrow() == 0;
    let key = key::load(data, is_new)?;
    let opened = Ledger::open(store, key, SystemClock.now()).await;
    let opened = opened.map(|ledger| ledger.with_keys(Arc::new(key::Files(data.to_owned()))));
    opened.map_err(|error| {
        let failure = Failure::because("cannot open the ledger", &error);
        match error {
            OpenError::OtherKey { .. } => {
                failure.hint(format!("put the right key back: {}", key::path(data).display()))
            }
            _ => failure,
        }
    })
}

/// What a data directory holds, to be read, whether or not a server runs on it.
async fn reading(args: &DataArgs) -> Result<SqliteStore, Failure> {
    let data = directory(args);
    let path = data.join("ringfence.db");
    let failed = |error: &dyn std::error::Error| {
        Failure::because(format!("cannot read `{}`", path.display()), error).hint(
            "name the directory of a server with --data; of a copy, ringfence.db-wal is a part",
        )
    };
    let db = Db::open_to_read(&path, &Options::default()).map_err(|error| failed(&error))?;
    SqliteStore::read(db, &data.join("blobs")).await.map_err(|error| failed(&error))
}

fn directory(args: &DataArgs) -> PathBuf {
    config::data_dir(args.data.clone())
}
