//! What was measured: samples, not summaries, so that the printer decides what to say of them.

use serde::Serialize;

/// Everything one run found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Findings {
    pub(crate) latency: Vec<Row>,
    /// Rows that could not be measured, each with its reason.
    pub(crate) failed: Vec<Failed>,
    pub(crate) throughput: Vec<Loop>,
    pub(crate) memory: Option<Idle>,
    pub(crate) memory_failed: Option<String>,
    /// Where CPU time was read.
    pub(crate) processor_source: &'static str,
}

/// One contender's samples, in microseconds and in the order they were taken.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) total_us: Vec<u64>,
    /// The library's own split; empty for programs that cannot tell.
    pub(crate) setup_us: Vec<u64>,
    pub(crate) run_us: Vec<u64>,
}

/// A row without samples.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    pub(crate) name: String,
    pub(crate) error: String,
}

/// One closed loop.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Loop {
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) calls: u64,
    /// From the first call until the last sandbox was torn down.
    pub(crate) secs: f64,
    /// CPU time of ours, our helpers' and the sandboxes'; absent where no cgroup counts it.
    pub(crate) own_cpu_secs: Option<f64>,
    /// CPU time of the whole machine: kernel workers count, and so do strangers.
    pub(crate) machine_cpu_secs: f64,
    pub(crate) error: Option<String>,
}

/// What idle zygote children weigh, together.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Idle {
    pub(crate) members: usize,
    pub(crate) processes: usize,
    pub(crate) pss_kib: u64,
    pub(crate) private_kib: u64,
    /// Kernel memory charged to their cgroups; absent where the host does not tell.
    pub(crate) kernel_kib: Option<u64>,
    /// The zygote itself, which is paid once.
    pub(crate) zygote_pss_kib: u64,
}
