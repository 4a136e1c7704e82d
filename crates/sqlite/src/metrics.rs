//! Metrics of commits: size, duration, and the work that waits.

use std::{sync::Weak, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::Counter, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

use crate::{job::Job, lanes::Lanes, queue::Queue};

/// Metrics that the writer updates after each commit: once for all the work in it.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    batch: Histogram,
    seconds: Histogram,
    refused_reads: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];
        let seconds = [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5];
        let refused_reads = Counter::default();
        Self { batch: Histogram::new(sizes), seconds: Histogram::new(seconds), refused_reads }
    }
}

impl Metrics {
    pub(crate) fn committed(&self, works: usize, took: Duration) {
        self.batch.observe(works as f64);
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn refused_read(&self) {
        self.refused_reads.inc();
    }

    pub(crate) fn register(&self, to: &mut Registry) {
        to.register("store_commit_batch_size", "Writes that share a commit", self.batch.clone());
        to.register("store_commit_seconds", "Time of one commit", self.seconds.clone());
        let about = "Reads refused because as many of their tenant, or of all, were waiting";
        to.register("store_reads_refused", about, self.refused_reads.clone());
    }
}

/// The queues of the writer and of the readers, looked at when metrics are read.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) writes: Weak<Queue<Box<dyn Job>>>,
    pub(crate) reads: Weak<Lanes<Box<dyn Job>>>,
    pub(crate) look_ups: Weak<Queue<Box<dyn Job>>>,
}

impl Collector for Waiting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let of = |queue: &Weak<Queue<_>>| queue.upgrade().map_or(0, |queue| queue.waiting());
        let waiting = [
            ("store_writes_waiting", of(&self.writes)),
            ("store_reads_waiting", self.reads.upgrade().map_or(0, |lanes| lanes.waiting())),
            ("store_key_lookups_waiting", of(&self.look_ups)),
        ];
        for (name, waiting) in waiting {
            let gauge = ConstGauge::new(i64::try_from(waiting).unwrap_or(i64::MAX));
            let about = "Work that waits for the database";
            gauge.encode(encoder.encode_descriptor(name, about, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
