//! `bench kafka`: calls per second from `tool.requests` to `tool.results`, beside a loop that only copies
//! messages, one message in flight, and HTTP; or a soak.

use std::process::Command;

use anyhow::{Context, Result, bail};
use ringfence_testkit::server;

use super::build;
use super::machine::{self, Quiet};
use crate::{settings, shell};

/// Mode and size of a run: seconds per row, or minutes of a soak.
type Size = [&'static str; 2];

const FULL: Size = ["rates", "20"];
const QUICK: Size = ["rates", "3"];
const SOAK: Size = ["soak", "10"];
const QUICK_SOAK: Size = ["soak", "1"];

/// Measures; `--quick` is a short run, `--soak` watches memory for ten minutes.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let size = size(words)?;
    let jars = server::KAFKA.program().context("no jars: `cargo xtask services build`")?;
    let built = build::release()?;
    let mut example = example();
    let quiet = Quiet::look();
    println!("\n{}", machine::describe());
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    println!();
    shell::run(example.arg("--").arg(&built.ringfence).arg(jars).args(size))
}

fn size(words: &[&str]) -> Result<Size> {
    match words {
        [] => Ok(FULL),
        ["--quick"] => Ok(QUICK),
        ["--soak"] => Ok(SOAK),
        ["--soak", "--quick"] | ["--quick", "--soak"] => Ok(QUICK_SOAK),
        other => bail!("`bench kafka` does not know `{}`", other.join(" ")),
    }
}

/// The measuring program. It is part of `bus`, which has the client of Kafka.
fn example() -> Command {
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["run", "--release", "--quiet", "--package", "ringfence-bus"])
        .args(["--example", "kafka_rates"])
        .current_dir(settings::workspace_root());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        assert!(size(&["--slow"]).is_err() && size(&["--quick", "--quick"]).is_err());
        assert_eq!((size(&[]).unwrap(), size(&["--soak"]).unwrap()), (FULL, SOAK));
        assert_eq!(size(&["--soak", "--quick"]).unwrap(), QUICK_SOAK);
    }
}
