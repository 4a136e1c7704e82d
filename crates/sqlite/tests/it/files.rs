//! Files that are deleted or replaced under an open database.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ringfence_sqlite::{Db, Error, Options};

use crate::support::{insert, numbers, open};

/// Faults of a file.
#[derive(Debug, Clone, Copy)]
enum Change {
    Delete,
    /// By one with the same bytes.
    Replace,
}

impl Change {
    fn apply(self, path: &Path) {
        if let Change::Replace = self {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(&copy, path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn word(self) -> &'static str {
        match self {
            Change::Delete => "deleted",
            Change::Replace => "replaced",
        }
    }
}

/// A database with the numbers 1 to 3, of which `name` was changed.
async fn changed(folder: &Path, name: &str, change: Change) -> (Db, PathBuf) {
    let db = open(folder, &Options::default()).await;
    for n in 1..=3 {
        db.write(move |connection| insert(connection, n)).await.unwrap();
    }
    let path = folder.join(name);
    change.apply(&path);
    (db, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_once_a_file_is_deleted_or_replaced() {
    for name in ["data.db", "data.db-wal", "data.db-shm", "data.db.lock"] {
        for change in [Change::Delete, Change::Replace] {
            let folder = tempfile::tempdir().unwrap();
            let (db, path) = changed(folder.path(), name, change).await;
            let refused = db.write(|connection| insert(connection, 4)).await.unwrap_err();
            let is_named = matches!(&refused, Error::Gone { path: found, what }
                if *found == path && *what == change.word());
            assert!(is_named, "{name} {change:?}: {refused:?}");
            assert!(matches!(db.check_files(), Err(Error::Gone { .. })), "{name} {change:?}");
            // Also after it was put back: another process may have used it meanwhile.
            fs::write(&path, "").unwrap();
            let again = db.write(|connection| insert(connection, 5)).await;
            assert!(matches!(again, Err(Error::Gone { .. })), "{name} {change:?}: {again:?}");
            assert_eq!(numbers(&db).await, [1, 2, 3], "what was read can still be read");
        }
    }
    // Control: with all files in their places.
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    db.write(|connection| insert(connection, 4)).await.unwrap();
    assert!(db.check_files().is_ok());
}

/// Acknowledged work is in the log, which has no name any more; the database file still has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_brought_from_a_deleted_log_into_the_database() {
    for name in ["data.db-wal", "data.db-shm", "data.db.lock"] {
        let folder = tempfile::tempdir().unwrap();
        let (db, _) = changed(folder.path(), name, Change::Delete).await;
        let refused = db.write(|connection| insert(connection, 4)).await;
        assert!(matches!(refused, Err(Error::Gone { .. })), "{name}: {refused:?}");
        // As after a kill: a copy of the database file alone, while the first server still runs.
        let other = tempfile::tempdir().unwrap();
        fs::copy(folder.path().join("data.db"), other.path().join("data.db")).unwrap();
        let copied = open(other.path(), &Options::default()).await;
        assert_eq!(numbers(&copied).await, [1, 2, 3], "{name}");
    }
}

/// A link to the database is followed as SQLite follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_behind_a_link_is_watched_in_its_place() {
    let (folder, linked) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = folder.path().join("data.db");
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, linked.path().join("data.db")).unwrap();
    let db = open(linked.path(), &Options::default()).await;
    db.write(|connection| insert(connection, 1)).await.unwrap();
    fs::remove_file(folder.path().join("data.db-wal")).unwrap();
    let refused = db.write(|connection| insert(connection, 2)).await;
    assert!(matches!(refused, Err(Error::Gone { .. })), "{refused:?}");
}
