//! The tables, brought up to date by one process at a time.

use super::{
    PostgresUrl,
    connect::{DbError, Link},
};
use crate::Error;

/// History of the tables. A script adds; it never takes away what an older program that still runs uses.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("blob_uses.sql"),
    include_str!("activity.sql"),
    include_str!("processes.sql"),
    include_str!("erasure.sql"),
    include_str!("tool_rows.sql"),
    include_str!("secrets.sql"),
    include_str!("artifacts.sql"),
    include_str!("mcp.sql"),
    include_str!("tool_data.sql"),
    include_str!("tokens.sql"),
    include_str!("plans.sql"),
    include_str!("uploads.sql"),
    include_str!("queue.sql"),
];

/// Version that this program needs.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// First number of all advisory locks of this program.
pub(super) const LOCKS: i32 = 0x526e_6746;

/// Lock of the log: see `batch`.
pub(super) const LOG_LOCK: i32 = 1;

/// Lock of migrations.
const MIGRATION_LOCK: i32 = 2;

/// Lock of the first start of an installation.
const INSTALLATION_LOCK: i32 = 3;

/// Keeps other processes from preparing the installation until it is released or dropped.
#[derive(Debug)]
pub struct InstallationLock(Link);

impl InstallationLock {
    /// Lets others prepare it.
    pub async fn release(self) {
        // The end of the session releases it too.
        let sql = format!("SELECT pg_advisory_unlock({LOCKS}, {INSTALLATION_LOCK})");
        let _ = self.0.batch(&sql).await;
    }
}

pub(super) async fn lock(url: &PostgresUrl) -> Result<InstallationLock, Error> {
    let link = Link::open(url).await?;
    let sql = format!(
        "SET statement_timeout = 0; SET lock_timeout = 0;
         SELECT pg_advisory_lock({LOCKS}, {INSTALLATION_LOCK})"
    );
    link.batch(&sql).await?;
    Ok(InstallationLock(link))
}

/// Brings the tables up to date; gives the version that they had.
pub(super) async fn migrate(url: &PostgresUrl) -> Result<u32, Error> {
    let link = Link::open(url).await?;
    let done = steps(&link).await;
    done.map_err(|error| match error {
        Stopped::Newer(found) => Error::Schema { found, needed: VERSION },
        Stopped::Failed(error) => Error::backend("migrate the database")(error),
    })
}

enum Stopped {
    Newer(u32),
    Failed(DbError),
}

impl From<DbError> for Stopped {
    fn from(error: DbError) -> Self {
        Stopped::Failed(error)
    }
}

async fn steps(link: &Link) -> Result<u32, Stopped> {
    link.batch(&format!(
        "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
         SELECT pg_advisory_xact_lock({LOCKS}, {MIGRATION_LOCK});"
    ))
    .await?;
    link.batch("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)").await?;
    let found = version(link).await?.unwrap_or(0);
    if found > VERSION {
        return Err(Stopped::Newer(found));
    }
    for script in &MIGRATIONS[found as usize..] {
        link.batch(script).await?;
    }
    let sql = format!("DELETE FROM schema_version; INSERT INTO schema_version VALUES ({VERSION})");
    link.batch(&sql).await?;
    link.batch("COMMIT").await?;
    Ok(found)
}

async fn version(link: &Link) -> Result<Option<u32>, DbError> {
    let row = link.client().query_opt("SELECT version FROM schema_version", &[]).await?;
    Ok(row.map(|row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX)))
}

/// Refuses tables that are older or newer than this program.
pub(super) async fn check(link: &Link) -> Result<(), Error> {
    let sql = "SELECT to_regclass('schema_version') IS NOT NULL";
    let has_table: bool = link.client().query_one(sql, &[]).await?.get(0);
    let found = if has_table { version(link).await?.unwrap_or(0) } else { 0 };
    match found == VERSION {
        true => Ok(()),
        false => Err(Error::Schema { found, needed: VERSION }),
    }
}
