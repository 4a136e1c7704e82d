//! The disk refuses a write in the middle of a commit, in a real process, and later takes it.
//!
//! A child writes without end. The parent forbids its files to grow, waits for refusals, allows it
//! again, waits for acknowledgements, and then looks at what is there.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use ringfence_sqlite::Error;
use ringfence_store::{
    Store,
    contract::samples::{accepted, record},
};
use ringfence_types::{CallId, TenantId};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::open;

/// Names the folder to write to; its presence makes a child of this test.
const FOLDER: &str = "RINGFENCE_STORE_LIMIT_FOLDER";

fn tenant() -> TenantId {
    "limit".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the child learns its role from the environment")]
async fn a_commit_that_the_disk_refuses_is_refused_and_later_ones_work() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_for_ever(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn(folder.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut kept, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let mut hear = |kept: &mut BTreeSet<CallId>, refused: &mut BTreeSet<CallId>| {
        let line = lines.next().expect("the child lives").unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let _new = match words[..] {
            ["acknowledged", id] => kept.insert(id.parse().unwrap()),
            ["refused", id] => refused.insert(id.parse().unwrap()),
            _ => false,
        };
    };
    while kept.len() < 50 {
        hear(&mut kept, &mut refused);
    }
    assert_eq!(refused.len(), 0, "the control: without a limit nothing is refused");
    let before = limit(&child, Rlimit { current: Some(64 << 10), maximum: None });
    while refused.len() < 20 {
        hear(&mut kept, &mut refused);
    }
    limit(&child, before);
    let so_far = kept.len();
    while kept.len() < so_far + 200 {
        hear(&mut kept, &mut refused);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    check(folder.path(), &kept, &refused).await;
}

async fn check(folder: &Path, kept: &BTreeSet<CallId>, refused: &BTreeSet<CallId>) {
    let (db, store) = open(folder).await;
    for id in kept {
        assert!(store.call(&tenant(), *id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    for id in refused {
        assert!(store.call(&tenant(), *id).await.unwrap().is_none(), "{id} was refused");
    }
    let whole = db.read(|connection| -> Result<String, Error> {
        Ok(connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?)
    });
    assert_eq!(whole.await.unwrap(), "ok");
}

/// The child: several writers, each telling what became of its records.
async fn write_for_ever(folder: &Path) {
    let (_db, store) = open(folder).await;
    let writers: Vec<_> = (0..4).map(|_| tokio::spawn(write(Arc::clone(&store)))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn write(store: Arc<dyn Store>) {
    loop {
        let call = accepted(&tenant());
        let answer = store.record(record(&call, None)).await;
        let word = if answer.is_ok() { "acknowledged" } else { "refused" };
        let line = format!("{word} {}\n", call.asked.id);
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

/// Ignores the signal that a file over its limit sends, so that writing fails with an error as it
/// does on a full disk. What is ignored stays so across `exec`.
#[expect(clippy::disallowed_methods, reason = "a limit on files needs a process of its own")]
fn spawn(folder: &Path) -> Child {
    let name = "limit::a_commit_that_the_disk_refuses_is_refused_and_later_ones_work";
    Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sets the largest size of the child's files and says what it was.
fn limit(child: &Child, size: Rlimit) -> Rlimit {
    prlimit(Some(Pid::from_child(child)), Resource::Fsize, size).unwrap()
}
