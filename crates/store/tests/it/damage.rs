//! A blob that is not what its digest says is never handed out as if it were.

use std::fs;

use ringfence_store::{
    CheckpointSigner, Commitment, Error, Record, Signed, Version,
    contract::samples::{accepted, record, sealed, tenant},
    packed::Unpacked,
};
use ringfence_types::{About, Digest, EntryKind, Json, Timestamp};

use crate::support::{later, open};

#[tokio::test]
async fn a_damaged_blob_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (_db, store) = open(folder.path()).await;
    let bytes = vec![7; 50_000];
    let digest = Digest::of(&bytes);
    let mut step = record(&accepted(&tenant()), None);
    step.blobs = vec![bytes.clone()];
    store.record(step).await.unwrap();
    let file = folder.path().join("blobs/whole").join(digest.hex());
    assert_eq!(fs::read(&file).unwrap(), bytes, "the control: it is where we damage it");

    let mut damaged = bytes.clone();
    damaged[25_000] ^= 1;
    fs::write(&file, &damaged).unwrap();
    store.blob(digest, 0, u64::MAX).await.expect_err("the bytes have another digest");
    fs::write(&file, &bytes[..100]).unwrap();
    store.blob(digest, 0, 200).await.expect_err("the file is too short");
    fs::remove_file(&file).unwrap();
    store.blob(digest, 0, 1).await.expect_err("the row says that it exists");
}

#[tokio::test]
async fn files_of_transactions_that_never_were_are_swept_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let kept = vec![1; 20_000];
    {
        let (_db, store) = open(folder.path()).await;
        let mut step = record(&accepted(&tenant()), None);
        step.blobs = vec![kept.clone()];
        store.record(step).await.unwrap();
    }
    // As a crash between file and commit leaves it; the kept one is named there too.
    let (whole, incoming) =
        (folder.path().join("blobs/whole"), folder.path().join("blobs/incoming"));
    let orphan = Digest::of(b"orphan").hex();
    fs::write(whole.join(&orphan), b"orphan").unwrap();
    fs::write(incoming.join(format!("{orphan}-0")), b"orphan").unwrap();
    fs::write(incoming.join(format!("{}-1", Digest::of(&kept).hex())), b"").unwrap();

    let (_db, store) = open(folder.path()).await;
    assert!(!whole.join(&orphan).exists());
    assert_eq!(fs::read_dir(&incoming).unwrap().count(), 0);
    assert_eq!(store.blob(Digest::of(&kept), 0, u64::MAX).await.unwrap(), Some(kept));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (db, store) = open(folder.path()).await;
    let (broken, whole) = (accepted(&tenant()), accepted(&tenant()));
    for call in [&broken, &whole] {
        store.record(record(call, None)).await.unwrap();
    }
    let store = later(&db, folder.path()).await;
    db.write(|connection| -> Result<(), ringfence_sqlite::Error> {
        let sql = "UPDATE records SET body = x'01' WHERE call = (SELECT min(seq) FROM calls)";
        Ok(connection.execute_batch(sql)?)
    })
    .await
    .unwrap();
    let left = store.unfinished(None, 10).await.unwrap();
    assert_eq!(
        left.iter().map(|stored| stored.call.asked.id).collect::<Vec<_>>(),
        [whole.asked.id]
    );
    let error = store.call(&broken.asked.tenant, broken.asked.id).await.unwrap_err();
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    let named = format!("row {} of table `calls` cannot be read", broken.asked.id);
    assert!(cause.starts_with(&named), "{cause}");
}

/// A search of the files finds nothing that policy had masked: neither in the newest record nor in those
/// before it.
#[tokio::test]
async fn what_was_masked_is_in_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (db, store) = open(folder.path()).await;
    let mut call = accepted(&tenant());
    store.record(record(&call, None)).await.unwrap();
    store.record(record(&call, Some(Version(1)))).await.unwrap();
    let kept = async || {
        let read = db.read(|connection| -> Result<Vec<Vec<u8>>, ringfence_sqlite::Error> {
            let mut statement = connection.prepare("SELECT body FROM records")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        });
        let bodies = read.await.unwrap();
        let texts = bodies.iter().map(|body| format!("{:?}", Unpacked::of(body).unwrap().texts()));
        texts.collect::<Vec<_>>()
    };
    let secret = "What is kept must be found.";
    assert!(kept().await[0].contains(secret), "the control");
    call.asked.args = Json::parse(br#"{"text":"[redacted]"}"#).unwrap();
    let step = Record { rewrite: true, ..record(&call, Some(Version(2))) };
    store.record(step).await.unwrap();
    let kept = kept().await;
    assert!(kept.iter().all(|texts| !texts.contains(secret)), "{kept:?}");
    assert!(kept.iter().all(|texts| texts.contains("call.accepted")), "facts stay: {kept:?}");
    let stored = store.call(&call.asked.tenant, call.asked.id).await.unwrap().unwrap();
    assert_eq!(stored.call.asked, call.asked);
}

/// An entry that was put there by another program is not signed for, and nothing follows it.
#[tokio::test]
async fn a_ledger_that_was_changed_outside_takes_nothing() {
    for (sql, found) in [
        (
            "INSERT INTO ledger (kind, tenant, at, leaf, signer, payload)
             SELECT kind, tenant, at, leaf, signer, payload FROM ledger",
            "it has 2 entries, 1 of them",
        ),
        ("DELETE FROM ledger", "it has 0 entries, 1 of them"),
        ("DELETE FROM ledger; DELETE FROM checkpoints", "and this server has seen 1"),
        ("DELETE FROM checkpoints", "it has 1 entries, 0 of them"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (db, store) = open(folder.path()).await;
        let entry = || {
            let about = About::server(Timestamp::from_micros(0));
            sealed(EntryKind::Tool, about, &1)
        };
        store.set_checkpoint_signer(std::sync::Arc::new(Numbering::default()));
        store.append(vec![entry()]).await.expect("the control");
        // Beside the store: its own writer would refuse.
        let other = ringfence_sqlite::Connection::open(folder.path().join("data.db")).unwrap();
        other.execute_batch(sql).unwrap();
        let refused = store.append(vec![entry()]).await.expect_err("it was changed");
        let mut causes =
            std::iter::successors(Some(&refused as &dyn std::error::Error), |e| e.source());
        assert!(causes.any(|cause| cause.to_string().contains(found)), "{sql}: {refused:?}");
        db.close();
    }
}

/// Signs by counting.
#[derive(Debug, Default)]
struct Numbering(std::sync::Mutex<u64>);

impl CheckpointSigner for Numbering {
    fn seen(&self, at: Option<&Signed>) -> u64 {
        let mut seen = self.0.lock().unwrap();
        *seen = at.map_or(*seen, |at| at.size.max(*seen));
        *seen
    }

    fn commit(
        &self,
        at: Option<&Signed>,
        _: &[Digest],
        leaves: &[Digest],
    ) -> Result<Commitment, Error> {
        let size = self.seen(at) + leaves.len() as u64;
        *self.0.lock().unwrap() = size;
        Ok(Commitment { size, note: size.to_string(), tiles: Vec::new(), replaces: None })
    }
}
