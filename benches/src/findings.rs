//! Findings: samples, not summaries, so that the printer chooses the statistics.

use serde::Serialize;

/// Findings of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Findings {
    pub(crate) latency: Vec<Row>,
    /// Rows that could not be measured, each with its reason.
    pub(crate) failed: Vec<Failed>,
    pub(crate) throughput: Vec<Loop>,
    pub(crate) memory: Option<Idle>,
    pub(crate) memory_failed: Option<String>,
    /// Source of the CPU times.
    pub(crate) processor_source: &'static str,
}

/// Samples of one row, in microseconds and in the order they were taken.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) total_us: Vec<u64>,
    /// Setup as the library measured it; empty for programs.
    pub(crate) setup_us: Vec<u64>,
    pub(crate) run_us: Vec<u64>,
}

/// Row without samples.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    pub(crate) name: String,
    pub(crate) error: String,
}

/// Closed loop.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Loop {
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) calls: u64,
    /// Time from the first call until the last sandbox was torn down.
    pub(crate) secs: f64,
    /// CPU time of the service, its helpers and the sandboxes; absent where no cgroup counts it.
    pub(crate) own_cpu_secs: Option<f64>,
    /// CPU time of the whole machine, including kernel workers and other processes.
    pub(crate) machine_cpu_secs: f64,
    pub(crate) error: Option<String>,
}

/// Memory of idle zygote children, together.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Idle {
    pub(crate) members: usize,
    pub(crate) processes: usize,
    pub(crate) pss_kib: u64,
    pub(crate) private_kib: u64,
    /// Kernel memory charged to their cgroups; absent where the host does not report it.
    pub(crate) kernel_kib: Option<u64>,
    /// Memory of the zygote itself, which is paid once.
    pub(crate) zygote_pss_kib: u64,
}
