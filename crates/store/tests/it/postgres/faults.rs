//! Lines that break, servers that crash, processes that stall.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_store::{
    Calls as _, PostgresStore, Version,
    contract::samples::{accepted, finished, in_state, record, tenant},
};
use ringfence_testkit::{Fault, Postgres, Proxy};
use ringfence_types::{CallId, TenantId};
use tokio::task::JoinHandle;

use super::{cluster, database_on, process, size};

/// Far beyond the time that a busy machine takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Writers that go on until they are told to stop; each gives the calls that were acknowledged.
struct Load {
    stop: Arc<AtomicBool>,
    tenant: TenantId,
    writers: Vec<JoinHandle<Vec<CallId>>>,
}

impl Load {
    fn start(store: &Arc<PostgresStore>) -> Self {
        let (stop, tenant) = (Arc::new(AtomicBool::new(false)), tenant());
        let writers = (0..4).map(|_| {
            let (store, stop, tenant) = (store.clone(), stop.clone(), tenant.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let call = accepted(&tenant);
                    let version = store.record(record(&call, None)).await.expect("a step");
                    let last = in_state(&call, finished());
                    let next = store.record(record(&last, Some(version))).await.expect("a step");
                    assert_eq!((version, next), (Version(1), Version(2)));
                    acknowledged.push(call.asked.id);
                }
                acknowledged
            })
        });
        let writers = writers.collect();
        Self { stop, tenant, writers }
    }

    /// Each acknowledged call is there as it was recorded, once, and nothing else is.
    async fn check(self, cluster: &Postgres, name: &str) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut acknowledged = 0;
        for writer in self.writers {
            let ended = tokio::time::timeout(TEST_TIMEOUT, writer).await;
            acknowledged += ended.expect("it ends in time").expect("no panic").len();
        }
        let tenant = self.tenant;
        let sql = format!(
            "SELECT count(*), count(DISTINCT calls.id), sum(version), bool_and(NOT open)
             FROM calls WHERE tenant = '{tenant}'"
        );
        let expected = format!("{acknowledged}|{acknowledged}|{}|t", 2 * acknowledged);
        assert_eq!(cluster.sql(name, &sql).unwrap(), expected);
        for (table, count) in [("records", 2 * acknowledged), ("ledger", acknowledged)] {
            let sql = format!("SELECT count(*), max(position) FROM {table}");
            assert_eq!(cluster.sql(name, &sql).unwrap(), format!("{count}|{count}"), "{table}");
        }
        acknowledged
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_killed_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let store = process(&cluster().url(&name), folder.path()).await;
    let load = Load::start(&store);
    let mut killed = 0;
    while killed < 12 {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = '{name}' AND application_name = 'ringfence'"
        );
        let found = tokio::task::spawn_blocking(move || cluster().sql("postgres", &sql));
        killed += found.await.unwrap().unwrap().parse::<u32>().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(load.check(cluster(), &name).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let own = Arc::new(Postgres::start().expect("a cluster of its own"));
    let name = database_on(&own).await;
    let store = process(&own.url(&name), folder.path()).await;
    let load = Load::start(&store);
    for _ in 0..size(2, 3) {
        let crashing = own.clone();
        let restarted = tokio::task::spawn_blocking(move || crashing.restart_immediately());
        restarted.await.unwrap().expect("it serves again");
    }
    assert!(load.check(&own, &name).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_during_a_commit_is_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let proxy = Proxy::start(cluster().address()).unwrap();
    let store = process(&Postgres::url_at(proxy.address(), &name), folder.path()).await;
    let load = Load::start(&store);
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        proxy.set(Fault::Cut);
        tokio::time::sleep(Duration::from_millis(3)).await;
        proxy.set(Fault::None);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (kept, lost) = store.resolved_commits();
        if kept >= 2 && kept + lost >= size(5, 20) as u64 {
            println!("line cut in COMMIT: {kept} kept, {lost} not, all looked up");
            break;
        }
        assert!(Instant::now() < deadline, "{kept} kept and {lost} lost commits were looked up");
    }
    assert!(load.check(cluster(), &name).await > 0);
}

/// A process that is stopped while it holds the lock of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stalls_inside_the_lock_does_not_hold_up_others_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let name = database_on(cluster()).await;
    let url = Postgres::url_at(cluster().address(), &name);
    let config = format!("{url}&options=-c%20idle_in_transaction_session_timeout%3D2000");
    let (stalled, line) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    let line = tokio::spawn(line);
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(1382967110, 1)";
    stalled.batch_execute(lock).await.unwrap();
    let store = process(&url, folder.path()).await;
    let recorded = store.record(record(&accepted(&tenant()), None));
    let recorded = tokio::time::timeout(TEST_TIMEOUT, recorded).await;
    assert_eq!(recorded.expect("in time").expect("a step"), Version(1));
    let ended = tokio::time::timeout(TEST_TIMEOUT, line).await.expect("in time");
    assert!(ended.unwrap().is_err(), "the server ended the session that stalled");
}
