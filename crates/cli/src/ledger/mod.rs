//! The ledger of a data directory: opening it, and common parts of the ledger commands.

mod artifacts;
mod audit;
mod entry_summary;
mod export;
mod growth;
mod head;
mod key;
mod log;
mod maintain;
mod manage;
mod records;
mod replay;
mod verify;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ringfence_engine::{Ledger, LogScan, OpenError};
use ringfence_ledger::{Entry, Maintenance, SigningKey};
use ringfence_sqlite::{Db, Options};
use ringfence_store::{PostgresStore, SqliteStore, Store};
use ringfence_types::{Clock as _, TenantId};

use self::head::FoundHeads;
pub(crate) use self::{
    audit::audit,
    export::export,
    head::{HeadKeeper, Heads},
    manage::ledger,
    replay::replay,
    verify::verify,
};
use crate::{cli::DataArgs, config, failure::Failure, serve::SystemClock, settings};

/// Differences listed when they keep a server from starting.
const MAX_LISTED: usize = 50;

/// Condition that an operator accepts although it keeps a server from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    Nothing,
    /// A log that does not continue a head; recorded afterwards.
    Rollback,
    /// Rows that differ from the entries, to repair them.
    DifferingRows,
    /// Heads of the previous log, when a log begins anew.
    OtherLog,
}

/// Opens the ledger with the key of the directory; the first start makes one.
///
/// The log must be complete and continue every head, and the rows of keys and approvals must match
/// its entries.
pub(crate) async fn open(
    data: &Path,
    store: Arc<dyn Store>,
    heads: &Heads,
) -> Result<Ledger, Failure> {
    open_accepting(data, store, heads, Accept::Nothing).await
}

async fn open_accepting(
    data: &Path,
    store: Arc<dyn Store>,
    heads: &Heads,
    accept: Accept,
) -> Result<Ledger, Failure> {
    key::settle(data, store.as_ref()).await?;
    let found = match accept {
        Accept::OtherLog => FoundHeads::default(),
        _ => heads.read(data).await?,
    };
    let scan = LogScan::run(store.as_ref(), &found.sizes()).await.map_err(|e| cannot_open(&e))?;
    scan.check_newest().map_err(|error| cannot_open(&error))?;
    if scan.size() == 0 {
        return begin(data, store, &found, &scan, accept).await;
    }
    let key = key::load(data)?;
    let departed = found.compare(&scan, &key.public())?;
    let abandoned = match departed {
        Some(departed) if accept == Accept::Rollback => Some(departed.note),
        Some(departed) => return Err(departed.failure()),
        None if accept == Accept::Rollback => {
            return Err(Failure::new(
                "nothing to accept: the ledger is a continuation of its heads",
            ));
        }
        None => None,
    };
    check_rows(&scan, store.as_ref(), accept).await?;
    if found.is_missing(data) {
        let path = head::path(data);
        tracing::warn!(path = %path.display(), "there is no newest checkpoint beside the key of the ledger, so an older database would not be noticed; it is written now");
    }
    let ledger = opened(data, store, key).await?;
    if let Some(abandoned) = abandoned {
        let change = Maintenance::RollbackAccepted { abandoned, entries: scan.size() };
        let operator: TenantId =
            ringfence_access::OPERATOR_TENANT.parse().expect("our own name is valid");
        let entry = Entry::maintenance(operator, SystemClock.now(), &change);
        let recorded = ledger.append(vec![entry]).await;
        recorded.map_err(|error| Failure::because("cannot write to the ledger", &error))?;
    }
    Ok(ledger)
}

/// Begins a ledger, unless there was one.
///
/// Invariant: `ledger.key` exists only if a commit that names it is on disk. The first key waits as
/// `ledger.next.key` until then, so a crash at any moment leaves a first start to be repeated, or a
/// key that `key::settle` puts in its place; and a key beside an empty ledger means that entries
/// were lost.
async fn begin(
    data: &Path,
    store: Arc<dyn Store>,
    found: &FoundHeads,
    scan: &LogScan,
    accept: Accept,
) -> Result<Ledger, Failure> {
    if key::path(data).exists() || !found.is_empty() {
        return Err(lost());
    }
    check_rows(scan, store.as_ref(), accept).await?;
    let ledger = opened(data, store, key::first(data)?).await?;
    key::take_over(data)?;
    Ok(ledger)
}

/// Checks that the database exists if its ledger did.
pub(crate) fn check_not_lost(data: &Path) -> Result<(), Failure> {
    let was_there = key::path(data).exists() || head::path(data).exists();
    match was_there && !data.join("ringfence.db").exists() {
        true => Err(lost()),
        false => Ok(()),
    }
}

fn lost() -> Failure {
    let causes = vec![
        "its key, or its newest checkpoint, is there: entries were deleted, or the database was"
            .to_owned(),
        "a second history would be signed under the same name".to_owned(),
    ];
    Failure::listing("the ledger is empty, and it was not before", causes).hint(
        "put the newest database back; or begin a new log under a new key, which keeps what is left \
         in a folder: ringfence ledger begin-anew",
    )
}

async fn opened(data: &Path, store: Arc<dyn Store>, key: SigningKey) -> Result<Ledger, Failure> {
    let opened = Ledger::open(store, key, SystemClock.now()).await;
    let opened = opened.map(|ledger| ledger.with_keys(Arc::new(key::Files(data.to_owned()))));
    opened.map_err(|error| {
        let failure = cannot_open(&error);
        match error {
            OpenError::OtherKey { .. } => {
                failure.hint(format!("put the right key back: {}", key::path(data).display()))
            }
            _ => failure,
        }
    })
}

fn cannot_open(error: &dyn std::error::Error) -> Failure {
    Failure::because("cannot open the ledger", error)
}

/// Checks that every row of a key or an approval matches the entries.
async fn check_rows(scan: &LogScan, store: &dyn Store, accept: Accept) -> Result<(), Failure> {
    if scan.differing.is_empty() || accept == Accept::DifferingRows {
        return Ok(());
    }
    Err(differing(scan, store).await?.hint(
        "to set them to what the ledger says, which is put on record: ringfence ledger repair",
    ))
}

/// The failure that lists the differing rows.
async fn differing(scan: &LogScan, store: &dyn Store) -> Result<Failure, Failure> {
    let all = scan.differences(store).await.map_err(|error| cannot_open(&error))?;
    let mut causes: Vec<_> = all.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = all.len() - causes.len();
    if more > 0 {
        causes.push(format!("and {more} more"));
    }
    let count = scan.differing_count;
    Ok(Failure::listing(
        format!("rows of keys or approvals are not what the ledger says: {count}"),
        causes,
    ))
}

/// The store of a data directory for reading, whether or not a server runs on it.
async fn reading(args: &DataArgs) -> Result<Arc<dyn Store>, Failure> {
    let data = directory(args);
    if let (Some(url), blobs) = settings::store(args)? {
        let store = PostgresStore::read(url.clone(), blobs.to_read()?).await;
        let failed = |error| Failure::because(format!("cannot read the database {url}"), &error);
        return Ok(Arc::new(store.map_err(failed)?));
    }
    let path = data.join("ringfence.db");
    let failed = |error: &dyn std::error::Error| {
        Failure::because(format!("cannot read `{}`", path.display()), error).hint(
            "name the directory of a server with --data; of a copy, ringfence.db-wal is a part",
        )
    };
    let db = Db::open_to_read(&path, &Options::default()).map_err(|error| failed(&error))?;
    let store = SqliteStore::read(db, &data.join("blobs")).await;
    Ok(Arc::new(store.map_err(|error| failed(&error))?))
}

/// Commands that change a ledger without a server have SQLite alone.
fn check_sqlite(args: &DataArgs) -> Result<(), Failure> {
    match settings::store(args)?.0 {
        None => Ok(()),
        Some(url) => Err(Failure::new(format!(
            "the store is the database {url}: this command works on SQLite only"
        ))
        .hint("rotate keys through a running server: ringfence ledger rotate --url URL")),
    }
}

fn directory(args: &DataArgs) -> PathBuf {
    config::data_dir(args.data.clone())
}
