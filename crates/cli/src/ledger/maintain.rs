//! Maintenance of the ledger while no server runs: begin anew, accept a rollback, repair rows. Each
//! is recorded on the ledger.

use std::{fs, path::Path, sync::Arc};

use ringfence_access::OPERATOR_TENANT;
use ringfence_engine::Ledger;
use ringfence_ledger::{Entry, Maintenance};
use ringfence_sqlite::Db;
use ringfence_store::{Log as _, SqliteStore, Store};
use ringfence_types::{Clock as _, TenantId};
use serde_json::{Value, json};

use super::{Accept, head::Heads, key, open_accepting};
use crate::{
    cli::{DataArgs, MaintenanceArgs, SettingsArgs},
    failure::Failure,
    print,
    serve::{SystemClock, database, open_database},
    settings::Settings,
};

/// Files that are moved aside when a log begins anew: everything of the old one.
const OLD_LOG_FILES: [&str; 8] = [
    "ringfence.db",
    "ringfence.db-wal",
    "ringfence.db-shm",
    "blobs",
    "ledger.head",
    "admin.key",
    "ledger.next.key",
    // Last: while it is there, no start takes the rest for a first start.
    "ledger.key",
];

/// Data directory and heads, as a server would have them.
fn settings(args: &MaintenanceArgs) -> Result<Settings, Failure> {
    let settings = SettingsArgs {
        data: DataArgs { data: args.data.data.clone() },
        config: args.config.clone(),
        ..SettingsArgs::default()
    };
    super::check_sqlite(&args.data)?;
    Settings::load(&settings)
}

fn told(args: &MaintenanceArgs, object: &Value, text: &str) {
    match args.json {
        true => print::line(&object.to_string()),
        false => print::line(text),
    }
}

/// An exclusively opened database.
struct Opened {
    db: Db,
    ledger: Ledger,
    store: Arc<dyn Store>,
}

impl Opened {
    async fn open(data: &Path, heads: &Heads, accept: Accept) -> Result<Self, Failure> {
        let db = database(data)?;
        let store = SqliteStore::open(db.clone(), &data.join("blobs")).await;
        let store = store.map_err(|error| Failure::because("cannot open the store", &error))?;
        let store: Arc<dyn Store> = Arc::new(store);
        let ledger = open_accepting(data, store.clone(), heads, accept).await?;
        Ok(Self { db, ledger, store })
    }

    async fn record(&self, change: &Maintenance) -> Result<(), Failure> {
        let entry = Entry::maintenance(operator(), SystemClock.now(), change);
        let recorded = self.ledger.append(vec![entry]).await;
        recorded.map_err(|error| Failure::because("cannot write to the ledger", &error))
    }

    /// Writes the heads, and closes the database.
    async fn close(self, data: &Path, heads: &Heads) -> Result<(), Failure> {
        let written = heads.write(data, self.store.as_ref()).await;
        drop((self.ledger, self.store));
        self.db.close();
        written
    }
}

fn operator() -> TenantId {
    OPERATOR_TENANT.parse().expect("our own name is valid")
}

/// Begins a log under a new key in place of a lost or erased one.
pub(super) async fn begin_anew(args: &MaintenanceArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    let (data, heads) = (&settings.data, &settings.heads);
    if !key::path(data).exists() {
        return Err(Failure::new(format!("there is no ledger in `{}`", data.display()))
            .hint("start a server: it begins one"));
    }
    // No other process may have it open, and it must be empty, so that a slip destroys no evidence.
    // It is read and not opened as a store, which would remove blobs that no row names.
    let is_there = data.join("ringfence.db").exists();
    let db = open_database(data)?;
    let entries = match is_there {
        true => {
            let store = SqliteStore::read(db.clone(), &data.join("blobs")).await;
            let store = store.map_err(|error| Failure::because("cannot read the store", &error))?;
            *store.grown().borrow()
        }
        false => 0,
    };
    if entries > 0 {
        db.close();
        let message = format!("the ledger in `{}` has {entries} entries", data.display());
        return Err(Failure::new(message).hint(
            "only a ledger without entries begins anew; to give this one up, move the whole \
             directory away and start a server with a new one",
        ));
    }
    // An unusable head says nothing about the old log, and is moved aside with it.
    let before = heads.read(data).await.ok();
    let before = before.and_then(|found| found.newest().map(str::to_owned));
    db.close();
    let folder = data.join(format!("before-{}", SystemClock.now().as_micros()));
    fs::create_dir(&folder).map_err(|error| cannot_move(&folder, &error))?;
    for name in OLD_LOG_FILES {
        match fs::rename(data.join(name), folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot_move(&folder, &error));
            }
            _ => {}
        }
    }
    let opened = Opened::open(data, heads, Accept::OtherLog).await?;
    opened.record(&Maintenance::BeganAnew { before }).await?;
    let origin = opened.ledger.origin().to_owned();
    opened.close(data, heads).await?;
    let kept = folder.display().to_string();
    let text = format!("log {origin} begins; what was there before is in `{kept}`");
    told(args, &json!({"origin": origin, "before": kept}), &text);
    Ok(())
}

fn cannot_move(folder: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot move the old ledger to `{}`", folder.display());
    Failure::because(message, error).hint("run it again: moved files stay moved")
}

/// Continues a log that does not continue its newest checkpoint.
pub(super) async fn accept_rollback(args: &MaintenanceArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    let (data, heads) = (&settings.data, &settings.heads);
    let opened = Opened::open(data, heads, Accept::Rollback).await?;
    let entries = *opened.store.grown().borrow();
    opened.close(data, heads).await?;
    let text = format!("accepted, and on record: the log goes on with {entries} entries");
    told(args, &json!({"entries": entries}), &text);
    Ok(())
}

/// Resets rows of keys and approvals to the ledger's statements.
pub(super) async fn repair(args: &MaintenanceArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    let (data, heads) = (&settings.data, &settings.heads);
    let opened = Opened::open(data, heads, Accept::DifferingRows).await?;
    let repaired = opened.ledger.repair_rows(operator(), SystemClock.now()).await;
    let repaired = repaired.map_err(|error| Failure::because("cannot repair the rows", &error))?;
    opened.close(data, heads).await?;
    let lines: Vec<String> = repaired.iter().map(ToString::to_string).collect();
    let text = match lines.len() {
        0 => "nothing to repair: every row is what the ledger says".to_owned(),
        count => format!("repaired, and on record: {count} differences\n{}", lines.join("\n")),
    };
    told(args, &json!({"differences": lines}), &text);
    Ok(())
}
