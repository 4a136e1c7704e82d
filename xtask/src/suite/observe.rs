//! What the server shows of itself, read by others' means: traces by OpenTelemetry's own messages,
//! metrics by Prometheus' own parsers.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Staged, python};
use crate::report::Row;
use crate::{settings, shell};

/// Those that this suite is known to work with.
const PACKAGES: &[&str] = &["opentelemetry-proto==1.45.2", "prometheus-client==0.26.0"];

const FOLDER: &str = "crates/cli/tests/observe";

pub(super) fn run(staged: &Staged) -> Result<Row> {
    println!("observe: traces and metrics, read by others");
    let started = Instant::now();
    let mut python = shell::command(environment()?);
    python.env("RINGFENCE_BINARY", &staged.binary);
    python::unittest("observe", python, FOLDER, started)
}

/// The interpreter, with the packages installed once and kept in the cache.
fn environment() -> Result<PathBuf> {
    let cache = settings::cache_directory()?;
    let kept = cache.join(format!("observe-{}", PACKAGES.join("-").replace("==", "-")));
    let python = kept.join("bin/python");
    // Written last: an environment without it is not complete.
    let stamp = kept.join("complete");
    if stamp.exists() {
        return Ok(python);
    }
    println!("installing {}", PACKAGES.join(", "));
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
    let mut pip = shell::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.args(PACKAGES)).context("install the readers of traces and metrics")?;
    fs::write(&stamp, "").context("note what was installed")?;
    Ok(python)
}
