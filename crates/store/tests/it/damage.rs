//! A blob that is not what its digest says is never handed out as if it were.

use std::fs;

use ringfence_store::contract::samples::{accepted, record, tenant};
use ringfence_types::Digest;

use crate::support::open;

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
    db.write(|connection| -> Result<(), ringfence_sqlite::Error> {
        let sql = "UPDATE calls SET now = 'no JSON' WHERE seq = (SELECT min(seq) FROM calls)";
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
