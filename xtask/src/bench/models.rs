//! `bench models`: accuracy and latency of pre-processing, vectors per second.

use anyhow::{Context, Result, bail};
use ringfence_testkit::server;

use crate::{servers, settings, shell};

/// Runs the example of `models` in release mode. `--clinc FILE` adds accuracy on CLINC150.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let data = match words {
        [] => None,
        ["--clinc", file] => Some((*file).to_owned()),
        other => bail!("`bench models` does not know `{}`", other.join(" ")),
    };
    servers::provide(&server::MINILM).program?;
    let weights = ringfence_testkit::minilm("bench models").context("the weights")?;
    let mut run = shell::command(settings::cargo());
    run.current_dir(settings::workspace_root())
        .args(["run", "--release", "--quiet", "--package", "ringfence-models"])
        .args(["--example", "accuracy", "--"])
        .arg(weights)
        .args(data);
    shell::run(&mut run)
}
