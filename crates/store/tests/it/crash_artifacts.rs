//! Artifacts and their bytes stay together under `kill -9`: no artifact without its bytes, no bytes without a
//! reference after a collection.
//!
//! The test runs itself again as a child that stores, changes and removes artifacts and collects bytes; the
//! parent kills it after a number of lines from a fixed list and looks at what is there.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use ringfence_sqlite::Db;
use ringfence_store::{
    ArtifactAbout, ArtifactChange, ArtifactQuery, NewArtifact, NewVersion, Store, VersionAbout,
    contract::samples::{accepted, record},
};
use ringfence_types::{ArtifactId, ArtifactKind, CallId, Digest, TenantId, Timestamp};
use uuid::Uuid;

use crate::support::open;

/// Names the folder to write to; its presence makes a child of this test.
const FOLDER: &str = "RINGFENCE_STORE_ARTIFACTS_FOLDER";

/// Lines after which the child is killed.
const KILLS: [usize; 4] = [3, 60, 17, 250];

fn tenant() -> TenantId {
    "crash".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the child learns its role from the environment")]
async fn artifacts_and_their_bytes_stay_together_under_kill_9() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_for_ever(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for lines in KILLS {
        let acknowledged = write_and_kill(folder.path(), lines);
        let (db, store) = open(folder.path()).await;
        seen = check(&store, &acknowledged).await;
        while store.collect_blobs(Duration::ZERO, 1_000).await.unwrap().blobs > 0 {}
        no_bytes_without_a_reference(folder.path(), &db).await;
        check(&store, &acknowledged).await;
    }
    assert!(seen > 50, "too few artifacts were stored to be a test: {seen}");
}

async fn write_for_ever(folder: &Path) {
    let (_db, store) = open(folder).await;
    let writers: Vec<_> =
        (0..6).map(|writer| tokio::spawn(write(Arc::clone(&store), writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Content; every third is large enough for a file, and some are equal.
fn content(number: usize) -> Vec<u8> {
    let length = if number.is_multiple_of(3) { 40_000 } else { 10 };
    format!("{:08}", number % 50).into_bytes().repeat(length)
}

fn version(bytes: &[u8], call: Option<CallId>) -> NewVersion {
    let about = VersionAbout { author: "crash".to_owned(), ..VersionAbout::default() };
    let at = Timestamp::from_micros(0);
    NewVersion { digest: Digest::of(bytes), size: bytes.len() as u64, at, call, about }
}

fn artifact(bytes: &[u8], call: Option<CallId>) -> NewArtifact {
    NewArtifact {
        id: ArtifactId(Uuid::now_v7()),
        kind: ArtifactKind::Data,
        title: "crash".to_owned(),
        about: ArtifactAbout::default(),
        version: version(bytes, call),
    }
}

async fn write(store: Arc<dyn Store>, writer: usize) {
    for number in (writer..).step_by(6) {
        let bytes = content(number);
        // Left by a call, in its commit.
        let call = accepted(&tenant());
        let left = artifact(&bytes, Some(call.asked.id));
        let mut step = record(&call, None);
        step.blobs = vec![bytes.clone()];
        step.artifacts = vec![left.clone()];
        store.record(step).await.unwrap();
        say("kept", left.id);
        // Sent by a client, changed and removed.
        let change = async |change| store.change_artifact(&tenant(), change).await.unwrap();
        let sent = artifact(&bytes, None);
        let id = sent.id;
        change(ArtifactChange::Create { artifact: sent, bytes }).await;
        let next = content(number + 1);
        let (version, bytes) = (version(&next, None), Some(next));
        change(ArtifactChange::AddVersion { id, version, bytes, after: None }).await;
        change(ArtifactChange::Remove { id }).await;
        say("gone", id);
        store.collect_blobs(Duration::ZERO, 100).await.unwrap();
    }
}

/// One line per acknowledgement, written whole.
fn say(what: &str, id: ArtifactId) {
    let line = format!("acknowledged {what} {id}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Artifacts that were acknowledged, and whether they are there.
type Acknowledged = Vec<(ArtifactId, bool)>;

#[expect(clippy::disallowed_methods, reason = "a crash needs a process of its own")]
fn write_and_kill(folder: &Path, lines: usize) -> Acknowledged {
    let name = "crash_artifacts::artifacts_and_their_bytes_stay_together_under_kill_9";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    for line in stdout.lines() {
        let line = line.unwrap();
        let Some(said) = line.strip_prefix("acknowledged ") else { continue };
        let (what, id) = said.split_once(' ').unwrap();
        acknowledged.push((id.parse().unwrap(), what == "kept"));
        // Lines that are still in the pipe were acknowledged too, so reading goes on.
        if acknowledged.len() == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= lines, "the child ended by itself");
    acknowledged
}

/// Acknowledged changes are there, and every version of every artifact has its bytes; gives their number.
async fn check(store: &Arc<dyn Store>, acknowledged: &Acknowledged) -> usize {
    for (id, is_kept) in acknowledged {
        let found = store.artifact(&tenant(), *id).await.unwrap();
        assert_eq!(found.is_some(), *is_kept, "artifact {id}");
    }
    let (mut count, mut before) = (0, None);
    loop {
        let query = ArtifactQuery { before, ..ArtifactQuery::of(tenant()) };
        let page = store.artifacts(query).await.unwrap();
        for artifact in page.artifacts {
            let versions = store.artifact_versions(&tenant(), artifact.id, None, 9).await.unwrap();
            assert_eq!(versions.len(), artifact.newest as usize);
            for version in versions {
                let digest = version.content.digest;
                let bytes = store.blob(digest, 0, u64::MAX).await.unwrap();
                let bytes = bytes.unwrap_or_else(|| panic!("{digest} of {} is gone", artifact.id));
                assert_eq!(Digest::of(&bytes), digest);
                count += 1;
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let totals = store.artifact_totals(&tenant()).await.unwrap();
    assert_eq!(totals.versions, count as u64, "totals are those of what is there");
    count
}

/// After a collection every blob has an owner, and every file has a row.
async fn no_bytes_without_a_reference(folder: &Path, db: &Db) {
    let count = |name: &str| std::fs::read_dir(folder.join("blobs").join(name)).unwrap().count();
    let rows = db.read(|connection| -> Result<(i64, i64), ringfence_sqlite::Error> {
        let sql = "SELECT count(*) FROM blobs WHERE bytes IS NULL";
        let large = connection.query_row(sql, [], |row| row.get(0))?;
        let sql = "SELECT count(*) FROM blobs
            WHERE NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = blobs.digest)";
        Ok((large, connection.query_row(sql, [], |row| row.get(0))?))
    });
    let (large, without_owner) = rows.await.unwrap();
    assert_eq!(without_owner, 0, "blobs without an owner");
    assert_eq!((count("incoming"), count("whole")), (0, large as usize), "files without a row");
}
