//! What to load and how much, as the one who starts us says it.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// The whole plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// A directory of ours, on the disk that the services keep their data on.
    pub(crate) scratch: PathBuf,
    /// The closed-loop generator.
    pub(crate) wrk: PathBuf,
    /// How often each closed loop is run; one round runs them all.
    pub(crate) rounds: usize,
    /// How long each closed loop lasts.
    pub(crate) loop_secs: f64,
    /// How long each run at a fixed rate lasts.
    pub(crate) open_secs: f64,
    /// How often our service is started to see how long that takes.
    pub(crate) starts: usize,
    /// Rows per commit of plain SQLite, one measurement for each.
    pub(crate) batches: Vec<usize>,
    /// All of them run from the beginning to the end.
    pub(crate) services: Vec<Service>,
    pub(crate) rows: Vec<Row>,
}

/// A service to start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// `{port}` becomes a free port, `{data}` a directory that no other start has.
    pub(crate) argv: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The path that answers 200 when calls can be made.
    pub(crate) ready: String,
    /// Says its address on standard output, keeps its key in `{data}`, gives receipts.
    pub(crate) is_ours: bool,
}

/// A request to make again and again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Who is asked.
    pub(crate) service: String,
    pub(crate) path: String,
    pub(crate) body: String,
    /// The right answer, checked whole before anything is timed.
    pub(crate) answer: Value,
    /// Part of every right answer and of no wrong one, looked for in answers that are timed.
    pub(crate) mark: String,
    /// Connections of the closed loop, one measurement for each number.
    pub(crate) connections: Vec<usize>,
    /// Requests per second at which its latency is measured.
    pub(crate) rate: f64,
    /// Connections when it is offered twice what it can do; it is not without them.
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
