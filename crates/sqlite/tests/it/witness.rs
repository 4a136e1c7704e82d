//! Whoever watches the transactions writes with them, or stops them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use ringfence_sqlite::{Connection, Db, Error, Options, Witness};

use crate::support::{Failed, insert, numbers, open};

/// Puts the sum of all numbers below zero, in their own commit.
#[derive(Debug, Default)]
struct Summing {
    refuses: AtomicBool,
    /// What it saw of the transactions.
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

impl Witness for Summing {
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
        insert(connection, -sum)
    }

    fn ended(&self, is_kept: bool) {
        self.saw(if is_kept { "kept" } else { "lost" });
    }
}

async fn watched() -> (tempfile::TempDir, Db, Arc<Summing>) {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let witness = Arc::new(Summing::default());
    db.watch(witness.clone());
    (folder, db, witness)
}

async fn add(db: &Db, n: i64) -> Result<(), Failed> {
    db.write(move |connection| Ok(insert(connection, n)?)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_witness_writes_is_in_the_same_commit() {
    let (_folder, db, witness) = watched().await;
    add(&db, 1).await.unwrap();
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-3, 1, 2]);
    assert_eq!(*witness.seen.lock().unwrap(), ["begun at 0", "kept", "begun at 1", "kept"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_the_witness_refuses_never_was() {
    let (_folder, db, witness) = watched().await;
    witness.refuses.store(true, Ordering::SeqCst);
    let refused = add(&db, 1).await;
    assert!(matches!(refused, Err(Failed::Db(Error::Refused(_)))), "{refused:?}");
    assert_eq!(numbers(&db).await, [0_i64; 0]);
    witness.refuses.store(false, Ordering::SeqCst);
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-2, 2], "the control");
    assert_eq!(*witness.seen.lock().unwrap(), ["begun at 0", "lost", "begun at 0", "kept"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_sees_nothing_of_work_that_undid_itself() {
    let (_folder, db, witness) = watched().await;
    let spoiled = db.write(|connection| -> Result<(), Failed> {
        insert(connection, 5)?;
        Err(Failed::Unwanted)
    });
    assert!(matches!(spoiled.await, Err(Failed::Unwanted)));
    add(&db, 2).await.unwrap();
    assert_eq!(numbers(&db).await, [-2, 2]);
    let seen = witness.seen.lock().unwrap();
    assert!(seen.iter().all(|what| what != "lost" && !what.contains('5')), "{seen:?}");
}
