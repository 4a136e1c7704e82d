//! The transaction hook writes in every commit, or stops it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use ringfence_sqlite::{Connection, Db, Error, Options, TransactionHook};

use crate::support::{Failed, insert, numbers, open};

/// Puts the sum of all numbers below zero, in their own commit.
#[derive(Debug, Default)]
struct Summing {
    refuses: AtomicBool,
    /// Transactions that it saw.
    seen: Mutex<Vec<String>>,
}

impl Summing {
    fn saw(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }

    fn sum(connection: &Connection) -> Result<i64, Error> {
        let sql = "SELECT coalesce(sum(n), 0) FROM numbers WHERE n > 0";
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }
}

impl TransactionHook for Summing {
    fn begun(&self, connection: &Connection) -> Result<(), Error> {
        self.saw(format!("begun at {}", Self::sum(connection)?));
        Ok(())
    }

    fn closing(&self, connection: &Connection) -> Result<(), Error> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Error::Refused(Arc::new(std::io::Error::other("not this one"))));
        }
        let sum = Self::sum(connection)?;
        if sum == 0 {
            return Ok(());
        }
        connection.execute("DELETE FROM numbers WHERE n < 0", [])?;
        insert(connection, -sum)?;
        self.saw(format!("closing at {sum}"));
        Ok(())
    }
}

async fn watched() -> (tempfile::TempDir, Db, Arc<Summing>) {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let hook = Arc::new(Summing::default());
    db.set_hook(hook.clone());
    (folder, db, hook)
}

async fn add(db: &Db, n: i64) -> Result<(), Failed> {
    db.write(move |connection| Ok(insert(connection, n)?)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hook_writes_is_in_the_same_commit() {
    let (_folder, db, hook) = watched().await;
    add(&db, 1).await.unwrap();
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-3, 1, 2]);
    assert_eq!(
        *hook.seen.lock().unwrap(),
        ["begun at 0", "closing at 1", "begun at 1", "closing at 3"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_the_hook_refuses_never_was() {
    let (_folder, db, hook) = watched().await;
    hook.refuses.store(true, Ordering::SeqCst);
    let refused = add(&db, 1).await;
    assert!(matches!(refused, Err(Failed::Db(Error::Refused(_)))), "{refused:?}");
    assert_eq!(numbers(&db).await, [0_i64; 0]);
    hook.refuses.store(false, Ordering::SeqCst);
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-2, 2], "the control");
    assert_eq!(*hook.seen.lock().unwrap(), ["begun at 0", "begun at 0", "closing at 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_sees_nothing_of_work_that_undid_itself() {
    let (_folder, db, hook) = watched().await;
    let spoiled = db.write(|connection| -> Result<(), Failed> {
        insert(connection, 5)?;
        Err(Failed::Unwanted)
    });
    assert!(matches!(spoiled.await, Err(Failed::Unwanted)));
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-2, 2]);
    let seen = hook.seen.lock().unwrap();
    assert!(seen.iter().all(|what| !what.contains('5')), "{seen:?}");
}
