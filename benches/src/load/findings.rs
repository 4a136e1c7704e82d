//! Findings of a load run: samples where they are few enough.

use serde::Serialize;

/// Findings of one run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Findings {
    pub(crate) loops: Vec<Loop>,
    /// Runs at a fixed rate that every service can serve.
    pub(crate) paced: Vec<Offered>,
    /// Runs at twice the rate of the closed loops.
    pub(crate) floods: Vec<Offered>,
    pub(crate) sqlite: Vec<Commits>,
    /// Times from the start of Ringfence until it was ready.
    pub(crate) starts_us: Vec<u64>,
    pub(crate) idle: Vec<Idle>,
    /// Missing measurements, each with its reason.
    pub(crate) failed: Vec<Failed>,
    /// Source of the CPU times.
    pub(crate) processor_source: &'static str,
}

/// Closed loop, as the generator saw it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Loop {
    pub(crate) name: String,
    pub(crate) connections: usize,
    pub(crate) calls: u64,
    pub(crate) secs: f64,
    /// Unsuccessful answers and broken connections.
    pub(crate) wrong: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) used: Used,
}

/// Run at a fixed rate. Latencies count from the moment a request was due.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Offered {
    pub(crate) name: String,
    /// Requests due per second.
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    /// Time from the first due request until the last answer.
    pub(crate) secs: f64,
    /// Correct answers to requests due in the first half, and in the second.
    pub(crate) early_us: Vec<u64>,
    pub(crate) late_us: Vec<u64>,
    /// Answers with 429 or 503.
    pub(crate) refused_us: Vec<u64>,
    /// Any other answer.
    pub(crate) wrong: u64,
    /// Requests without an answer: the connection broke, or the grace period was over.
    pub(crate) lost: u64,
    /// Requests not sent: no connection was free in time.
    pub(crate) unsent: u64,
    pub(crate) used: Used,
}

/// Processor time and bytes of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Used {
    /// Service with all its processes; absent where no cgroup counts it.
    pub(crate) service_secs: Option<f64>,
    /// First process of the service alone.
    pub(crate) user_secs: f64,
    pub(crate) system_secs: f64,
    /// Its threads, added up by name.
    pub(crate) threads: Vec<Thread>,
    /// Bytes written to disk.
    pub(crate) written_bytes: u64,
    pub(crate) generator_secs: f64,
    /// Whole machine, including kernel workers and other processes.
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

/// Memory of the idle service.
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

/// Missing measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    pub(crate) what: String,
    pub(crate) error: String,
}
