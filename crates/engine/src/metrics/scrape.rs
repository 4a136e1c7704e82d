//! Metrics that are read when they are scraped.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use ringfence_sandbox::{Language, PoolKey};
use ringfence_types::{Isolation, Timestamp};

use super::labels::{DependencyLabel, Names, PoolLabels, StateLabel};
use crate::engine::Inner;

type Level = Gauge<i64, AtomicI64>;

/// Gauges and counters that are set at a scrape.
#[derive(Debug, Default)]
pub(super) struct Scraped {
    /// Rules that held calls.
    pub(super) rules: Names,
    running: Level,
    waiting: Level,
    calls: Family<StateLabel, Level>,
    tools: Family<StateLabel, Level>,
    idle: Family<PoolLabels, Level>,
    target: Family<PoolLabels, Level>,
    building: Family<PoolLabels, Level>,
    hits: Family<PoolLabels, Counter>,
    misses: Family<PoolLabels, Counter>,
    free: Level,
    stored: Counter,
    refused: Counter,
    /// 1 while sandboxes are made, else 0.
    available: Level,
    watchdog_kills: Counter,
    outbox_age: Gauge<f64, AtomicU64>,
    dependencies: Family<DependencyLabel, Level>,
    circuits: Level,
    circuits_opened: Counter,
    circuits_closed: Counter,
    circuit_trials: Counter,
}

/// Numbers of one pool, or the sum of several.
#[derive(Debug, Default)]
struct Sum {
    idle: usize,
    target: usize,
    building: usize,
    hits: usize,
    misses: usize,
}

impl Scraped {
    pub(super) fn register(to: &mut Registry) -> Self {
        let new = Self::default();
        to.register("calls_running", "Calls in sandboxes now", new.running.clone());
        to.register("calls_waiting", "Calls waiting for a sandbox", new.waiting.clone());
        to.register("calls_in_state", "Calls under way, by state", new.calls.clone());
        to.register("tools", "Tools that can be called, and broken ones", new.tools.clone());
        to.register("sandbox_pool_idle", "Interpreters ready for a call", new.idle.clone());
        to.register("sandbox_pool_target", "Interpreters to hold ready", new.target.clone());
        to.register("sandbox_pool_building", "Interpreters being prepared", new.building.clone());
        to.register("sandbox_pool_hits", "Calls that found one ready", new.hits.clone());
        to.register("sandbox_pool_misses", "Calls that found none ready", new.misses.clone());
        let about = "Free bytes on the disk of the data directory";
        to.register("storage_free_bytes", about, new.free.clone());
        let about = "Bytes written for tenants: documents, results, output";
        to.register("storage_written_bytes", about, new.stored.clone());
        let about = "Requests refused because a tenant's byte budget or the disk had no room";
        to.register("storage_refusals", about, new.refused.clone());
        let about = "Whether this host makes sandboxes: 1, or 0 while set-ups hang or fail";
        to.register("sandbox_available", about, new.available.clone());
        let about = "Tools that are left alone because they failed again and again, by tenant";
        to.register("tool_circuits_open", about, new.circuits.clone());
        let about = "Circuits of tools that opened";
        to.register("circuit_breaker_opened", about, new.circuits_opened.clone());
        let about = "Open circuits of tools that were closed again";
        to.register("circuit_breaker_closed", about, new.circuits_closed.clone());
        let about = "Calls that tried whether a tool works again";
        to.register("circuit_breaker_trial", about, new.circuit_trials.clone());
        let about = "Age of the oldest result that is not published, in seconds; 0 if all are";
        to.register("outbox_age_seconds", about, new.outbox_age.clone());
        let about = "Whether a service beside the server answers";
        to.register("dependency_up", about, new.dependencies.clone());
        let about = "Programs ended because the host ran short of something no limit counts";
        to.register("sandbox_watchdog_kills", about, new.watchdog_kills.clone());
        new
    }

    pub(super) fn look(&self, inner: &Inner) {
        let (running, waiting) = inner.queue.load();
        self.running.set(whole(running));
        self.waiting.set(whole(waiting));
        self.calls(inner);
        let catalogue = inner.parts.registry.catalogue();
        let tools = |state, count| {
            self.tools.get_or_create(&StateLabel { state }).set(whole(count));
        };
        tools("usable", catalogue.entries().len());
        tools("broken", catalogue.broken().len());
        tools("inactive", catalogue.inactive().len());
        self.pools(inner);
        let room = inner.parts.store.room();
        self.free.set(room.free().map_or(0, |free| i64::try_from(free).unwrap_or(i64::MAX)));
        self.stored.inc_by(room.stored().saturating_sub(self.stored.get()));
        self.refused.inc_by(room.refused().saturating_sub(self.refused.get()));
        self.circuits.set(whole(inner.circuits.open_count()));
        let counts = inner.circuits.counts();
        catch_up(&self.circuits_opened, counts.opened.load(Ordering::Relaxed));
        catch_up(&self.circuits_closed, counts.closed.load(Ordering::Relaxed));
        catch_up(&self.circuit_trials, counts.trials.load(Ordering::Relaxed));
        let sandbox = &inner.parts.sandbox;
        self.available.set(i64::from(sandbox.readiness().is_ok()));
        catch_up(&self.watchdog_kills, sandbox.watchdog_kills() as usize);
    }

    /// `oldest` is the time of the oldest unpublished fact in microseconds, or 0.
    pub(super) fn look_at_outbox(&self, inner: &Inner, oldest: i64) {
        let age = match oldest {
            0 => Duration::ZERO,
            oldest => inner.parts.clock.now().since(Timestamp::from_micros(oldest)),
        };
        self.outbox_age.set(age.as_secs_f64());
        let known = inner.dependencies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for dependency in &*known {
            let label = DependencyLabel { name: dependency.name };
            let is_up = i64::from(*dependency.is_up.borrow());
            self.dependencies.get_or_create(&label).set(is_up);
        }
    }

    fn calls(&self, inner: &Inner) {
        let mut counts: HashMap<&'static str, usize> =
            ["accepted", "dispatched", "running", "cancelling"].map(|state| (state, 0)).into();
        for in_flight in inner.in_flight.all() {
            *counts.entry(in_flight.now().call.state.name()).or_default() += 1;
        }
        self.calls.clear();
        for (state, count) in counts {
            self.calls.get_or_create(&StateLabel { state }).set(whole(count));
        }
    }

    fn pools(&self, inner: &Inner) {
        let mut sums: HashMap<PoolLabels, Sum> = HashMap::new();
        for (key, status) in inner.parts.sandbox.pools() {
            let sum = sums.entry(labels(&key)).or_default();
            sum.idle += status.ready;
            sum.target += status.target;
            sum.building += status.building;
            sum.hits += status.hits;
            sum.misses += status.misses;
        }
        for (labels, sum) in sums {
            self.idle.get_or_create(&labels).set(whole(sum.idle));
            self.target.get_or_create(&labels).set(whole(sum.target));
            self.building.get_or_create(&labels).set(whole(sum.building));
            catch_up(&self.hits.get_or_create(&labels), sum.hits);
            catch_up(&self.misses.get_or_create(&labels), sum.misses);
        }
    }
}

fn labels(key: &PoolKey) -> PoolLabels {
    let language = match key.language {
        Language::Python => "python",
        Language::Javascript => "javascript",
        Language::Bash => "bash",
    };
    let isolation = match key.isolation {
        Isolation::Cold => "cold",
        Isolation::Zygote => "zygote",
        Isolation::Warm => "warm",
    };
    PoolLabels { language, isolation }
}

/// Raises a counter to the pool's own count.
fn catch_up(counter: &Counter, count: usize) {
    counter.inc_by((count as u64).saturating_sub(counter.get()));
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
