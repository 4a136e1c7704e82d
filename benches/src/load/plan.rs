//! Plan of a load run, given by the caller.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// Plan of a load run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Temporary directory on the disk of the services' data.
    pub(crate) scratch: PathBuf,
    /// Path of the closed-loop generator.
    pub(crate) wrk: PathBuf,
    /// Rounds of the closed loops.
    pub(crate) rounds: usize,
    /// Duration of each closed loop.
    pub(crate) loop_secs: f64,
    /// Duration of each run at a fixed rate.
    pub(crate) open_secs: f64,
    /// Starts of Ringfence, to measure the time of a start.
    pub(crate) starts: usize,
    /// Rows per commit of plain SQLite, one measurement for each.
    pub(crate) batches: Vec<usize>,
    /// Services; all of them run from the beginning to the end.
    pub(crate) services: Vec<Service>,
    pub(crate) rows: Vec<Row>,
}

/// Service to start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// `{port}` becomes a free port, `{data}` a directory that no other start has.
    pub(crate) argv: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Path that answers 200 when the service is ready.
    pub(crate) ready: String,
    /// Whether it is Ringfence: it prints its address, keeps its key in `{data}` and gives receipts.
    pub(crate) is_ours: bool,
}

/// Repeated request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Name of the service.
    pub(crate) service: String,
    pub(crate) path: String,
    pub(crate) body: String,
    /// Expected answer, compared as a whole before the measurement.
    pub(crate) answer: Value,
    /// Part of every correct answer and of no wrong one, searched for in measured answers.
    pub(crate) mark: String,
    /// Connections of the closed loop, one measurement for each number.
    pub(crate) connections: Vec<usize>,
    /// Requests per second at which the latency is measured.
    pub(crate) rate: f64,
    /// Connections at twice the capacity; `None` skips that run.
    pub(crate) flood: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_is_refused_by_name() {
        let text = r#"{"name":"x","argv":[],"ready":"/","is_our":true}"#;
        let error = serde_json::from_str::<Service>(text).expect_err("`is_our` is no field");
        assert!(error.to_string().contains("unknown field `is_our`"), "{error}");
    }
}
