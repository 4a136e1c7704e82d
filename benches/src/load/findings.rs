//! What a load run found: samples where they are few enough, never only a verdict.

use serde::Serialize;

/// Everything one run found.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Findings {
    pub(crate) loops: Vec<Loop>,
    /// At a fixed rate that everybody can serve.
    pub(crate) paced: Vec<Offered>,
    /// At twice the rate that the closed loops reached.
    pub(crate) floods: Vec<Offered>,
    pub(crate) sqlite: Vec<Commits>,
    /// From the start of our process until it was ready.
    pub(crate) starts_us: Vec<u64>,
    pub(crate) idle: Vec<Idle>,
    /// What could not be measured, each with its reason.
    pub(crate) failed: Vec<Failed>,
    /// Where CPU time was read.
    pub(crate) processor_source: &'static str,
}

/// One closed loop, as the generator saw it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Loop {
    pub(crate) name: String,
    pub(crate) connections: usize,
    pub(crate) calls: u64,
    pub(crate) secs: f64,
    /// Answers that were no success, and connections that broke.
    pub(crate) wrong: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) used: Used,
}

/// One run at a fixed rate. Latencies count from the moment a request was due.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Offered {
    pub(crate) name: String,
    /// Requests due per second.
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    /// From the first request that was due until the last answer.
    pub(crate) secs: f64,
    /// Right answers to what was due in the first half, and in the second.
    pub(crate) early_us: Vec<u64>,
    pub(crate) late_us: Vec<u64>,
    /// Answered with 429 or 503.
    pub(crate) refused_us: Vec<u64>,
    /// Any other answer.
    pub(crate) wrong: u64,
    /// Never answered: the connection broke, or the run was over long ago.
    pub(crate) lost: u64,
    /// Never asked: no connection was free in time.
    pub(crate) unsent: u64,
    pub(crate) used: Used,
}

/// Processor time and bytes that a run took.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Used {
    /// The service and all it started; absent where no cgroup counts it.
    pub(crate) service_secs: Option<f64>,
    /// The service's first process alone.
    pub(crate) user_secs: f64,
    pub(crate) system_secs: f64,
    /// Its threads, added up by name.
    pub(crate) threads: Vec<Thread>,
    /// Bytes it caused to be written to disk.
    pub(crate) written_bytes: u64,
    pub(crate) generator_secs: f64,
    /// The whole machine: kernel workers count, and so do strangers.
    pub(crate) machine_secs: f64,
}

/// Threads of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) secs: f64,
}

/// Plain SQLite with one writer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Commits {
    /// Rows per commit.
    pub(crate) batch: usize,
    pub(crate) rows_per_sec: f64,
}

/// What our service weighs while nobody asks it anything.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Idle {
    pub(crate) when: String,
    /// Its processes, added up by name.
    pub(crate) processes: Vec<Weight>,
}

/// Processes of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Weight {
    pub(crate) name: String,
    pub(crate) count: usize,
    pub(crate) pss_kib: u64,
}

/// Something without samples.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    pub(crate) what: String,
    pub(crate) error: String,
}
