//! Contents of a transaction, and the reach of a failure.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use ringfence_sqlite::{Db, Error, Options};

use crate::support::{Failed, insert, numbers, open};

/// Keeps the writer busy until the returned sender is used, so that work piles up behind it.
async fn hold(db: &Db) -> mpsc::Sender<()> {
    let (go, wait) = mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let (wait, begun) = (Mutex::new(wait), Mutex::new(Some(begun)));
    drop(db.write(move |_| -> Result<(), Error> {
        if let Some(begun) = begun.lock().unwrap().take() {
            let _ = begun.send(());
        }
        let _ = wait.lock().unwrap().recv();
        Ok(())
    }));
    began.await.unwrap();
    go
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_fails_undoes_itself_and_no_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let go = hold(&db).await;
    let mut answers = Vec::new();
    for n in 0..40 {
        answers.push(db.write(move |connection| -> Result<(), Failed> {
            insert(connection, n)?;
            // After it has changed something; others fail before, or with an error of SQLite's.
            if n % 5 == 1 { Err(Failed::Unwanted) } else { Ok(()) }
        }));
        answers.push(db.write(|_| -> Result<(), Failed> { Err(Failed::Unwanted) }));
        answers.push(db.write(|connection| Ok(insert(connection, 0)?)));
    }
    go.send(()).unwrap();
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.push(match answer.await {
            Ok(()) => "done",
            Err(Failed::Unwanted) => "unwanted",
            Err(Failed::Db(Error::Query(_))) => "query",
            Err(Failed::Db(other)) => panic!("{other:?}"),
        });
    }
    let expected =
        (0..40).flat_map(|n| [if n % 5 == 1 { "unwanted" } else { "done" }, "unwanted", "query"]);
    assert_eq!(outcomes, expected.collect::<Vec<_>>());
    let kept: Vec<i64> = (0..40).filter(|n| n % 5 != 1).collect();
    assert_eq!(numbers(&db).await, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_waits_shares_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let go = hold(&db).await;
    // Within one transaction each sees that no reader outside has seen the others yet.
    let log = folder.path().join("data.db-wal");
    let before = std::fs::metadata(&log).unwrap().len();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let answers: Vec<_> = (0..100)
        .map(|n| {
            let (log, sizes) = (log.clone(), Arc::clone(&sizes));
            db.write(move |connection| {
                sizes.lock().unwrap().push(std::fs::metadata(&log).unwrap().len());
                insert(connection, n)
            })
        })
        .collect();
    go.send(()).unwrap();
    for answer in answers {
        answer.await.unwrap();
    }
    // Nothing was written to the log between the first and the last of them.
    let distinct: std::collections::BTreeSet<_> = sizes.lock().unwrap().iter().copied().collect();
    assert_eq!(distinct.len(), 1, "one transaction, from {before}: {distinct:?}");
    assert_eq!(numbers(&db).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_busy_and_loses_nothing_that_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { queue: 10, ..Options::default() };
    let db = open(folder.path(), &options).await;
    let go = hold(&db).await;
    let answers: Vec<_> =
        (0..15).map(|n| db.write(move |connection| insert(connection, n))).collect();
    go.send(()).unwrap();
    let mut busy = 0;
    for answer in answers {
        match answer.await {
            Ok(()) => {}
            Err(Error::Busy) => busy += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(busy, 5);
    assert_eq!(numbers(&db).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_commit_happens_though_no_caller_waits() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let count = Arc::new(AtomicUsize::new(0));
    for n in 0..20 {
        let counted = Arc::clone(&count);
        drop(db.write_then(
            move |connection| insert(connection, n),
            move |()| {
                counted.fetch_add(1, Ordering::SeqCst);
            },
        ));
    }
    // Work is answered in order, so all of the above came before this.
    db.write(|connection| insert(connection, 99)).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_fails_is_answered_as_such_and_the_next_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let pages = |db: &Db, pages: i64| {
        db.write(move |connection| -> Result<(), Error> {
            connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
            Ok(())
        })
    };
    pages(&db, 1).await.unwrap();
    let go = hold(&db).await;
    let answers: Vec<_> = (0..5)
        .map(|_| {
            db.write(|connection| -> Result<(), Error> {
                (0..5_000).try_for_each(|n| insert(connection, n))
            })
        })
        .collect();
    go.send(()).unwrap();
    for answer in answers {
        answer.await.expect_err("there is no room");
    }
    assert_eq!(numbers(&db).await, [0_i64; 0]);
    pages(&db, 1 << 30).await.unwrap();
    db.write(|connection| insert(connection, 1)).await.unwrap();
    assert_eq!(numbers(&db).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_panics_leaves_no_caller_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let go = hold(&db).await;
    let panics = db.write(|_| -> Result<(), Error> { panic!("on purpose") });
    let behind = db.write(|connection| insert(connection, 1));
    go.send(()).unwrap();
    for answer in [panics.await, behind.await] {
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
    let later = db.write(|connection| insert(connection, 2)).await;
    assert!(matches!(later, Err(Error::Closed)), "{later:?}");
    drop(db);
    let db = open(folder.path(), &Options::default()).await;
    assert_eq!(numbers(&db).await, [0_i64; 0], "nothing of that transaction");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    db.read(|connection| insert(connection, 1)).await.expect_err("a reader only reads");
    assert_eq!(numbers(&db).await, [0_i64; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_small_however_much_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { log_bytes: 256 << 10, ..Options::default() };
    let db = open(folder.path(), &options).await;
    let mut largest = 0;
    for batch in 0..60 {
        let first = batch * 1_000;
        db.write(move |connection| (first..first + 1_000).try_for_each(|n| insert(connection, n)))
            .await
            .unwrap();
        largest = largest.max(std::fs::metadata(folder.path().join("data.db-wal")).unwrap().len());
    }
    assert_eq!(numbers(&db).await.len(), 60_000);
    assert!(largest < 512 << 10, "the log grew to {largest} bytes");
}
