//! Telemetry of the server, checked by third-party tools: traces by OpenTelemetry's own messages,
//! metrics by Prometheus' own parsers.

use std::time::Instant;

use anyhow::Result;

use super::{Staged, python};
use crate::report::Row;
use crate::shell;

/// Package versions that this suite is known to work with.
const PACKAGES: &[&str] = &["opentelemetry-proto==1.45.2", "prometheus-client==0.26.0"];

const FOLDER: &str = "crates/cli/tests/observe";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("observe: traces and metrics, read by others");
    let started = Instant::now();
    let mut python = shell::command(python::environment("observe", PACKAGES)?);
    python.env("RINGFENCE_BINARY", &staged.binary);
    python::unittest("observe", python, FOLDER, started)
}
