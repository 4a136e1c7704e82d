//! Time of lineage queries on many edges, on SQLite and PostgreSQL.
//!
//! `cargo run --release -p ringfence-store --example lineage [edges]`
//!
//! The graph is that of calls which each use one to four artifacts of earlier calls and leave one, all of one
//! tool and under one policy. Each row is the distribution over 200 nodes of it: causes and effects at a depth
//! of 10 with 500 nodes at most, and causes without a bound of depth with 2000 nodes at most.
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_sqlite::{Db, Options};
use ringfence_store::{
    LineageDirection, LineageEdge, LineageNode, LineageQuery, LineageRelation, PostgresStore,
    SqliteStore, Store,
    contract::samples::{accepted, record},
};
use ringfence_testkit::Postgres;
use ringfence_types::{ArtifactId, CallId, Digest, TenantId};
use uuid::Uuid;

/// Edges in one record.
const BATCH: usize = 2_000;

/// Queries per row.
const QUERIES: usize = 200;

fn main() {
    let edges = std::env::args().nth(1).map_or(1_000_000, |edges| edges.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&folder.path().join("state.db"), &Options::default()).unwrap();
        let sqlite = SqliteStore::open(db, &folder.path().join("blobs")).await.unwrap();
        measure("SQLite", Arc::new(sqlite), edges).await;
        let cluster = Postgres::start().unwrap();
        let url = cluster.url(&cluster.database().unwrap());
        let url = || url.parse().unwrap();
        PostgresStore::migrate(&url()).await.unwrap();
        let postgres = PostgresStore::open(url(), &folder.path().join("large")).await.unwrap();
        measure("PostgreSQL", Arc::new(postgres), edges).await;
    });
}

async fn measure(name: &str, store: Arc<dyn Store>, edges: usize) {
    let tenant: TenantId = "acme".parse().unwrap();
    let begun = Instant::now();
    let artifacts = fill(&store, &tenant, edges).await;
    println!("{name}: {edges} edges written in {:.1} s", begun.elapsed().as_secs_f64());
    for (words, direction, depth, limit) in [
        ("causes, depth 10", LineageDirection::Backward, 10, 500),
        ("effects, depth 10", LineageDirection::Forward, 10, 500),
        ("causes, any depth", LineageDirection::Backward, 1_000, 2_000),
    ] {
        let (mut times, mut nodes) = (Vec::new(), 0);
        for query in 0..QUERIES {
            // Spread over the whole history, in a fixed order.
            let node = artifacts[query * 7_919 % artifacts.len()];
            let tenant = tenant.clone();
            let query = LineageQuery { tenant, node, direction, depth, limit };
            let begun = Instant::now();
            nodes += store.lineage(query).await.unwrap().nodes.len();
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let at = |share: usize| millis(times[times.len() * share / 100]);
        println!(
            "  {words:<20} p50 {:>7.2} ms, p95 {:>7.2} ms, most {:>7.2} ms, {} nodes on average",
            at(50),
            at(95),
            millis(times[times.len() - 1]),
            nodes / QUERIES
        );
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Writes the graph; gives its artifacts.
async fn fill(store: &Arc<dyn Store>, tenant: &TenantId, count: usize) -> Vec<LineageNode> {
    let (tool, policy) =
        (LineageNode::Tool(Digest::of(b"t")), LineageNode::Policy(Digest::of(b"p")));
    let (mut artifacts, mut edges, mut written) = (Vec::new(), Vec::new(), 0);
    // Any fixed sequence will do.
    let mut random = 1_u64;
    while written < count {
        let call = LineageNode::Call(CallId(Uuid::now_v7()));
        edges.push(LineageEdge::new(call, LineageRelation::Ran, tool));
        edges.push(LineageEdge::new(call, LineageRelation::AllowedBy, policy));
        for _ in 0..(random >> 40) % 4 + 1 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if let Some(used) = pick(&artifacts, random) {
                edges.push(LineageEdge::new(call, LineageRelation::Used, used));
            }
        }
        let made = LineageNode::Artifact(ArtifactId(Uuid::now_v7()), 1);
        edges.push(LineageEdge::new(made, LineageRelation::MadeBy, call));
        artifacts.push(made);
        if edges.len() >= BATCH {
            written += edges.len();
            let mut step = record(&accepted(tenant), None);
            step.edges = std::mem::take(&mut edges);
            store.record(step).await.unwrap();
        }
    }
    artifacts
}

/// One of the newest thousand artifacts.
fn pick(artifacts: &[LineageNode], random: u64) -> Option<LineageNode> {
    let newest = artifacts.len().min(1_000);
    let back = (random >> 33) as usize % newest.max(1);
    artifacts.get(artifacts.len().checked_sub(back + 1)?).copied()
}
