//! The PostgreSQL backend: the contract, with one process and with two; and what it survives.

mod contract;
mod faults;
mod many;
mod pair;
mod s3;
mod schema;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use ringfence_store::{PostgresStore, PostgresUrl};
use ringfence_testkit::Postgres;

/// The cluster of this test run.
fn cluster() -> &'static Postgres {
    static CLUSTER: OnceLock<Postgres> = OnceLock::new();
    CLUSTER.get_or_init(|| Postgres::start().expect("a PostgreSQL cluster"))
}

/// A size in the default suite, and in the whole run of `cargo xtask bench cluster`.
#[expect(clippy::disallowed_methods, reason = "the whole of it is asked for by a variable")]
fn size(short: usize, whole: usize) -> usize {
    if std::env::var("RINGFENCE_CLUSTER").is_ok_and(|size| size == "whole") { whole } else { short }
}

/// A database with tables, on a cluster.
async fn database_on(cluster: &Postgres) -> String {
    let name = cluster.database().unwrap();
    PostgresStore::migrate(&url(&cluster.url(&name))).await.expect("a migration");
    name
}

fn url(text: &str) -> PostgresUrl {
    text.parse().expect("an address")
}

/// A process that uses a database.
async fn process(address: &str, folder: &Path) -> Arc<PostgresStore> {
    let store = PostgresStore::open(url(address), &folder.join("blobs")).await;
    Arc::new(store.expect("a store"))
}
