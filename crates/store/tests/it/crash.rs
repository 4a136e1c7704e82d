//! Acknowledged records survive `kill -9`, at whatever moment it comes.
//!
//! The test runs itself again as a child that writes and prints what was acknowledged; the parent
//! kills it after a number of lines from a fixed list and looks at what is there.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use ringfence_sqlite::Db;
use ringfence_store::{
    FactQuery, Store, Version,
    contract::samples::{accepted, finished, in_state, record},
};
use ringfence_types::{CallId, Digest, FactKind, Receipt, ReceiptDetails, TenantId};

use crate::support::open;

/// Names the folder to write to; its presence makes a child of this test.
const FOLDER: &str = "RINGFENCE_STORE_CRASH_FOLDER";

/// Lines after which the child is killed; more by `RINGFENCE_STORE_KILLS`.
const KILLS: [usize; 4] = [1, 40, 333, 7];

fn tenant() -> TenantId {
    "crash".parse().unwrap()
}

/// Large enough for a file every seventh time.
fn output(id: CallId) -> Vec<u8> {
    let large = id.0.as_bytes()[15].is_multiple_of(7);
    id.to_string().into_bytes().repeat(if large { 1000 } else { 1 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the child learns its role from the environment")]
async fn every_acknowledged_record_survives_kill_9() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_for_ever(Path::new(&folder)).await;
    }
    let extra = std::env::var("RINGFENCE_STORE_KILLS").map_or(0, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    // Any fixed sequence will do; this one spreads kills over the first thousand lines.
    let more = (0..extra).map(|round: usize| round * 7919 % 997);
    for lines in KILLS.into_iter().chain(more) {
        write_and_kill(folder.path(), lines, &mut acknowledged);
        let (db, store) = open(folder.path()).await;
        check(&store, &acknowledged).await;
        every_file_has_a_row(folder.path(), &db).await;
    }
}

/// The child: calls from beginning to end, several at once, until it is killed.
async fn write_for_ever(folder: &Path) {
    let (_db, store) = open(folder).await;
    let writers: Vec<_> = (0..8).map(|_| tokio::spawn(write(Arc::clone(&store)))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn write(store: Arc<dyn Store>) {
    loop {
        let call = accepted(&tenant());
        store.record(record(&call, None)).await.unwrap();
        say(call.asked.id, 1);
        let mut last = record(&in_state(&call, finished()), Some(Version(1)));
        last.blobs = vec![output(call.asked.id)];
        store.record(last).await.unwrap();
        say(call.asked.id, 2);
    }
}

/// One line per acknowledgement, written whole.
fn say(id: CallId, version: u64) {
    let line = format!("acknowledged {id} {version}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a crash needs a process of its own")]
fn write_and_kill(folder: &Path, lines: usize, acknowledged: &mut BTreeMap<CallId, u64>) {
    let name = "crash::every_acknowledged_record_survives_kill_9";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut heard = 0;
    for line in stdout.lines() {
        let line = line.unwrap();
        let Some(said) = line.strip_prefix("acknowledged ") else { continue };
        let (id, version) = said.split_once(' ').unwrap();
        acknowledged.insert(id.parse().unwrap(), version.parse().unwrap());
        heard += 1;
        // Lines that are still in the pipe were acknowledged too, so reading goes on.
        if heard == lines.max(1) {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= lines, "the child ended by itself after {heard} lines");
}

/// All that was acknowledged is there: complete, and once.
async fn check(store: &Arc<dyn Store>, acknowledged: &BTreeMap<CallId, u64>) {
    for (id, version) in acknowledged {
        let stored = store.call(&tenant(), *id).await.unwrap();
        let stored = stored.unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
        assert!(stored.version.0 >= *version, "{id} was at {version}, is at {:?}", stored.version);
        let query = FactQuery { tenant: None, call: Some(*id), after: 0, limit: 99 };
        let kinds: Vec<_> =
            store.facts(query).await.unwrap().into_iter().map(|l| l.fact.kind).collect();
        let all = [FactKind::Accepted, FactKind::Finished];
        assert_eq!(kinds, all[..stored.version.0 as usize], "facts of {id}");
        assert_eq!(
            store.receipt(&tenant(), *id).await.unwrap(),
            Receipt::of(&stored.call, ReceiptDetails::default())
        );
        if stored.version.0 == 2 {
            let bytes = output(*id);
            let found = store.blob(Digest::of(&bytes), 0, u64::MAX).await.unwrap();
            assert_eq!(found, Some(bytes), "output of {id}");
        }
    }
}

async fn every_file_has_a_row(folder: &Path, db: &Db) {
    let count = |name: &str| std::fs::read_dir(folder.join("blobs").join(name)).unwrap().count();
    let rows = db.read(|connection| -> Result<usize, ringfence_sqlite::Error> {
        let sql = "SELECT count(*) FROM blobs WHERE bytes IS NULL";
        Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))? as usize)
    });
    assert_eq!((count("incoming"), count("whole")), (0, rows.await.unwrap()));
}
