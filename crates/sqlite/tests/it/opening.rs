//! Opening a file, and the state in which closing leaves it.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use ringfence_sqlite::{Db, Error, Options};

use crate::support::{TABLE, insert, numbers, open};

fn refusal(path: &Path) -> String {
    Db::open(path, &Options::default()).expect_err("refused").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_is_told_about_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let db = open(folder.path(), &Options::default()).await;
    let refused = refusal(&path);
    assert!(refused.starts_with("another server uses this data directory"), "{refused}");
    drop(db);
    open(folder.path(), &Options::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_written_before_the_file_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let answers: Vec<_> =
        (0..500).map(|n| db.write(move |connection| insert(connection, n))).collect();
    db.close();
    for answer in answers {
        answer.await.unwrap();
    }
    let late = db.write(|connection| insert(connection, 500)).await;
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    let log = std::fs::metadata(folder.path().join("data.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "the log is empty after a clean end");
    assert_eq!(numbers(&open(folder.path(), &Options::default()).await).await.len(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made/by/us");
    let db = open(&inner, &Options::default()).await;
    db.write(|connection| insert(connection, 1)).await.unwrap();
    for entry in std::fs::read_dir(&inner).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
    let mode = std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused_and_so_is_a_changed_one() {
    static MORE: &[&str] = &[TABLE[0], "CREATE TABLE more (n INTEGER) STRICT;"];
    static OTHER: &[&str] = &["CREATE TABLE numbers (n INTEGER, m INTEGER) STRICT;"];
    static BROKEN: &[&str] = &[TABLE[0], MORE[1], "CREATE TABLE x (n INTEGER); CREATE nonsense;"];
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let changed = db.migrate("numbers", OTHER).await.unwrap_err();
    assert_eq!(
        changed.to_string(),
        "schema change 1 of `numbers` is not the one the database was made with: use the build that \
         made it, or another data directory"
    );
    db.migrate("numbers", MORE).await.unwrap();
    db.migrate("numbers", MORE).await.unwrap();
    let newer = db.migrate("numbers", TABLE).await.unwrap_err();
    assert_eq!(
        newer.to_string(),
        "the database has 2 schema changes of `numbers` and this version knows 1: use the version \
         that wrote it, or a newer one"
    );
    db.migrate("numbers", BROKEN).await.expect_err("not SQL");
    let tables = db.read(|connection| -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'x'";
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    });
    assert_eq!(tables.await.unwrap(), 0, "half of a change is none");
    db.migrate("numbers", MORE).await.unwrap();
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(&text, "not a database, but long enough to look like one ".repeat(40)).unwrap();
    let before = std::fs::read(&text).unwrap();
    assert!(refusal(&text).ends_with("is not a database of this program"), "{}", refusal(&text));
    assert_eq!(std::fs::read(&text).unwrap(), before);

    let other = folder.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(connection);
    assert!(refusal(&other).ends_with("is not a database of this program"));
}
