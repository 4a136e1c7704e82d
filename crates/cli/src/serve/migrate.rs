//! `ringfence migrate`: tables, first entry of the ledger and first key of an installation on PostgreSQL.

use std::{process::ExitCode, sync::Arc};

use ringfence_access::Access;
use ringfence_store::{Keys as _, Log as _, PostgresStore, Store};
use ringfence_types::Clock;
use serde_json::json;

use super::{
    SystemClock, admin, data,
    parts::{cannot_open, postgres},
    runtime, secret_keys,
};
use crate::{cli::MigrateArgs, exit, failure::Failure, ledger, print, settings::Settings};

pub(crate) fn migrate(args: &MigrateArgs) -> Result<ExitCode, Failure> {
    let migrated = Settings::load(&args.settings).and_then(|settings| {
        data::prepare(&settings.data)?;
        runtime(2)?.block_on(run(&settings))
    });
    let Migrated { before, has_begun } = migrated.map_err(|failure| failure.in_json(args.json))?;
    match (args.json, has_begun) {
        (true, _) => {
            print::line(&json!({ "version_before": before, "new": has_begun }).to_string());
        }
        (false, true) => print::line(
            "the database is ready; admin.key, ledger.key and secrets.key are in the data directory: \
             copy ledger.key and secrets.key to the data directory of every other server",
        ),
        (false, false) => print::line("the database is up to date"),
    }
    Ok(ExitCode::from(exit::DONE))
}

/// Outcome of a migration.
struct Migrated {
    /// Version of the tables before; 0 if there were none.
    before: u32,
    /// Whether the ledger and the first key were made.
    has_begun: bool,
}

async fn run(settings: &Settings) -> Result<Migrated, Failure> {
    let Some(url) = &settings.store else {
        return Err(Failure::new(
            "no database is named: the store is SQLite, which needs no migration",
        )
        .hint("ringfence migrate --store postgres://USER@HOST/NAME, or set RINGFENCE_STORE"));
    };
    let failed = |error| cannot_open(url, &error);
    // One process at a time, until the first entry and the first key are there.
    let lock = PostgresStore::lock_installation(url).await.map_err(failed)?;
    let before = PostgresStore::migrate(url).await.map_err(failed)?;
    let store = postgres(url, settings).await?;
    let is_new = *store.grown().borrow() == 0;
    let has_keys = store.keys(None).await.is_ok_and(|keys| !keys.is_empty());
    let has_begun = is_new || !has_keys;
    if has_begun {
        let begun = begin(settings, store.clone()).await;
        store.close().await;
        begun?;
    } else {
        store.close().await;
    }
    lock.release().await;
    Ok(Migrated { before, has_begun })
}

async fn begin(settings: &Settings, store: Arc<dyn Store>) -> Result<(), Failure> {
    let ledger = ledger::open(&settings.data, store.clone(), &settings.heads).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let access = Access::new(store, Arc::new(ledger), clock);
    let made = secret_keys::make(&settings.data);
    made.map_err(|error| Failure::because("cannot make the key for secrets", &error))?;
    admin::ensure(&access, &settings.data).await.map(drop)
}
