//! A disk without room: refused, nothing damaged, and all well once there is room.

use std::sync::Arc;

use ringfence_sqlite::{Db, Error};
use ringfence_store::{
    Store,
    contract::samples::{accepted, record, tenant},
};
use ringfence_types::Call;

use crate::support::open;

/// Lets the file grow to so many pages and no further, as a full disk would.
async fn room(db: &Db, pages: i64) {
    let set = db.write(move |connection| -> Result<(), Error> {
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
        Ok(())
    });
    set.await.unwrap();
}

async fn pages(db: &Db) -> i64 {
    let count = db.read(|connection| -> Result<i64, Error> {
        Ok(connection.query_row("PRAGMA page_count", [], |row| row.get(0))?)
    });
    count.await.unwrap()
}

/// Many at once, so that those with room and those without share transactions.
async fn write(store: &Arc<dyn Store>, count: usize) -> (Vec<Call>, Vec<Call>) {
    let tenant = tenant();
    let writes: Vec<_> = (0..count)
        .map(|_| {
            let (store, call) = (Arc::clone(store), accepted(&tenant));
            let mut step = record(&call, None);
            step.blobs = vec![call.asked.id.to_string().into_bytes().repeat(100)];
            tokio::spawn(async move { (store.record(step).await.is_ok(), call) })
        })
        .collect();
    let mut answers = Vec::new();
    for write in writes {
        answers.push(write.await.unwrap());
    }
    let (good, bad): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(good, _)| *good);
    let calls = |answers: Vec<(bool, Call)>| answers.into_iter().map(|(_, call)| call).collect();
    (calls(good), calls(bad))
}

async fn exists(store: &Arc<dyn Store>, call: &Call) -> bool {
    store.call(&call.asked.tenant, call.asked.id).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_damages_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (db, store) = open(folder.path()).await;
    let (mut kept, refused) = write(&store, 50).await;
    assert_eq!(refused.len(), 0, "the control: with room, all are taken");

    room(&db, pages(&db).await + 40).await;
    let mut lost = Vec::new();
    for _ in 0..5 {
        let (good, bad) = write(&store, 50).await;
        kept.extend(good);
        lost.extend(bad);
    }
    assert!(!lost.is_empty(), "forty pages cannot hold that much");

    room(&db, 1 << 30).await;
    let (good, bad) = write(&store, 50).await;
    assert_eq!(bad.len(), 0, "works again once there is room");
    kept.extend(good);

    drop((db, store));
    let (db, store) = open(folder.path()).await;
    for call in &kept {
        assert!(exists(&store, call).await, "{} was acknowledged", call.asked.id);
    }
    for call in &lost {
        assert!(!exists(&store, call).await, "{} was refused", call.asked.id);
    }
    let whole = db.read(|connection| -> Result<String, Error> {
        Ok(connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?)
    });
    assert_eq!(whole.await.unwrap(), "ok");
}
