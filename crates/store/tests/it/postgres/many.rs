//! Several processes that write at once.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_store::{
    Calls as _, Error, Facts as _, PostgresStore, ProcessInfo, Processes as _, Store as _, Version,
    contract::samples::{accepted, finished, in_state, record, tenant},
};
use ringfence_types::{CallId, State};

use super::{cluster, database_on, process, size};

/// Far beyond the time that a busy machine takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

const WRITERS: usize = 8;
/// Calls of each writer.
fn calls() -> usize {
    size(100, 2_000)
}

/// Follows all commits until so many calls were seen; gives them in their order.
async fn follow(store: Arc<PostgresStore>, count: usize) -> Vec<CallId> {
    let (mut newest, mut position) = (store.newest(), 0);
    let mut seen = Vec::new();
    while seen.len() < count {
        newest.wait_for(|newest| *newest > position).await.expect("the store lives");
        for commit in store.commits(position, 50).await.expect("commits") {
            assert!(commit.position > position, "positions grow");
            position = commit.position;
            seen.push(commit.call.asked.id);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_of_two_processes_see_every_commit_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(process(&cluster().url(&name), folder.path()).await);
    }
    let total = stores.len() * WRITERS * calls();
    let began = Instant::now();
    let followers: Vec<_> =
        stores.iter().map(|store| tokio::spawn(follow(store.clone(), total))).collect();
    let mut writers = Vec::new();
    for store in &stores {
        for _ in 0..WRITERS {
            let (store, tenant) = (store.clone(), tenant());
            writers.push(tokio::spawn(async move {
                let mut written = Vec::new();
                for _ in 0..calls() {
                    let call = in_state(&accepted(&tenant), finished());
                    store.record(record(&call, None)).await.expect("a step");
                    written.push(call.asked.id);
                }
                written
            }));
        }
    }
    let mut written = BTreeSet::new();
    for writer in writers {
        written.extend(writer.await.expect("no panic"));
    }
    assert_eq!(written.len(), total);
    let rate = total as f64 / began.elapsed().as_secs_f64();
    println!("two stores, {WRITERS} writers each: {total} records, {rate:.0}/s");
    let mut orders = Vec::new();
    for follower in followers {
        let seen = tokio::time::timeout(TEST_TIMEOUT, follower).await;
        orders.push(seen.expect("it sees all in time").expect("no panic"));
    }
    assert_eq!(orders[0], orders[1], "all processes see one order");
    assert_eq!(orders[0].iter().copied().collect::<BTreeSet<_>>(), written);
    for table in ["records", "ledger"] {
        let sql = format!("SELECT count(*), min(position), max(position) FROM {table}");
        assert_eq!(cluster().sql(&name, &sql).unwrap(), format!("{total}|1|{total}"), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_lost_its_lease_writes_nothing_about_calls_that_were_taken() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let stopped = process(&cluster().url(&name), folder.path()).await;
    let other = process(&cluster().url(&name), folder.path()).await;
    let call = accepted(&tenant());
    stopped.record(record(&call, None)).await.expect("a step");
    assert_eq!(other.unfinished(None, 9).await.expect("calls"), [], "its owner lives");
    let running = in_state(&call, State::Running);
    let stolen = other.record(record(&running, Some(Version(1)))).await;
    assert!(matches!(stolen, Err(Error::Stale)), "{stolen:?}");

    // What the stopped process would have renewed is over.
    let sql = "UPDATE processes SET ends_at = now() - interval '1 second' WHERE id = 1";
    let mut abandoned = other.abandoned();
    cluster().sql(&name, sql).unwrap();
    let taken = other.unfinished(None, 9).await.expect("calls");
    assert_eq!(taken.len(), 1, "it is taken by the process that asks");
    let late = stopped.record(record(&running, Some(Version(1)))).await;
    assert!(matches!(late, Err(Error::Stale)), "{late:?}");
    other.record(record(&running, Some(Version(1)))).await.expect("it owns the call now");
    // The stopped process goes on with calls of its own, under a number of its own.
    let next = accepted(&tenant());
    stopped.record(record(&next, None)).await.expect("a step");
    stopped.leave().await.expect("it is gone");
    tokio::time::timeout(TEST_TIMEOUT, abandoned.changed())
        .await
        .expect("in time")
        .expect("it lives");
    let left = other.unfinished(None, 9).await.expect("calls");
    let left: Vec<_> = left.iter().map(|stored| stored.call.asked.id).collect();
    assert_eq!(left, [next.asked.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_processes_one_publishes_and_another_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let one = process(&cluster().url(&name), folder.path()).await;
    let wait = async |store: &PostgresStore| {
        let mut publishes = store.publishes();
        let found =
            tokio::time::timeout(TEST_TIMEOUT, publishes.wait_for(|is_ours| *is_ours)).await;
        found.expect("in time").expect("it lives");
    };
    wait(&one).await;
    let other = process(&cluster().url(&name), folder.path()).await;
    assert!(!*other.publishes().borrow());
    one.close().await;
    wait(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_finds_the_owner_of_calls_and_sandboxes_until_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let one = process(&cluster().url(&name), folder.path()).await;
    let other = process(&cluster().url(&name), folder.path()).await;
    let address = Some("http://one.internal:7420".to_owned());
    let info = ProcessInfo { address, version: "9".to_owned(), ..ProcessInfo::default() };
    one.describe(info.clone()).await.expect("a description");
    let (foreign, tenant) = (tenant(), tenant());
    let (call, done) = (accepted(&tenant), in_state(&accepted(&tenant), finished()));
    for step in [&call, &done] {
        one.record(record(step, None)).await.expect("a step");
    }
    one.add_sandbox(&tenant, "box").await.expect("a sandbox");
    let found = other.owner_of_call(&tenant, call.asked.id).await.unwrap().expect("an owner");
    assert_eq!((found.is_own, &found.info), (false, &info));
    assert_eq!(other.owner_of_sandbox(&tenant, "box").await.unwrap(), Some(found));
    assert_eq!(other.owner_of_call(&tenant, done.asked.id).await.unwrap(), None, "it has ended");
    assert_eq!(other.owner_of_call(&foreign, call.asked.id).await.unwrap(), None);
    assert_eq!(other.owner_of_sandbox(&foreign, "box").await.unwrap(), None);
    assert_eq!(other.processes().await.unwrap().len(), 2);
    one.close().await;
    assert_eq!(other.owner_of_call(&tenant, call.asked.id).await.unwrap(), None);
    assert_eq!(other.owner_of_sandbox(&tenant, "box").await.unwrap(), None);
    assert_eq!(other.processes().await.unwrap().len(), 1);
}
