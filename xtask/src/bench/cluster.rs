//! `bench cluster`: several servers on one database under load, with faults. Correctness is asserted, numbers are
//! printed.
//!
//! Each part is a test of the default suite, which runs it shortened; here it runs at its whole size.

use std::process::Command;

use anyhow::{Result, bail};

use super::machine::{self, Quiet};
use crate::{settings, shell};

/// Parts by title: package, test binary, and words in the names of its tests.
const PARTS: [(&str, &str, &str, &[&str]); 4] = [
    ("the contract with one and two stores", "ringfence-store", "it", &["postgres::contract"]),
    (
        "many writers, cut lines, crashes",
        "ringfence-store",
        "it",
        &["postgres::many", "postgres::faults"],
    ),
    (
        "servers that are killed, stopped, and whose database crashes",
        "ringfence",
        "serve",
        &["cluster::"],
    ),
    (
        "keys that are revoked, sandboxes and calls of other servers, roles",
        "ringfence",
        "serve",
        &["processes::", "roles::", "uploads::", "shared_holds::"],
    ),
];

/// Runs all parts; `--quick` runs them as the default suite does, without a release build.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let is_quick = is_quick(words)?;
    println!("\n{}", machine::describe());
    Quiet::look().warning().iter().for_each(|warning| println!("{warning}"));
    let mut failed = Vec::new();
    for (title, package, binary, tests) in PARTS {
        println!("\n# {title}\n");
        if shell::run(&mut part(is_quick, package, binary, tests)).is_err() {
            failed.push(title);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

fn is_quick(words: &[&str]) -> Result<bool> {
    match words {
        [] => Ok(false),
        ["--quick"] => Ok(true),
        other => bail!("`bench cluster` does not know `{}`", other.join(" ")),
    }
}

fn part(is_quick: bool, package: &str, binary: &str, tests: &[&str]) -> Command {
    let mut cargo = shell::command(settings::cargo());
    cargo.args(["test", "--quiet", "--package", package, "--test", binary]);
    if !is_quick {
        cargo.arg("--release").env("RINGFENCE_CLUSTER", "whole");
    }
    // One at a time: each part has the machine to itself.
    cargo.args(["--", "--nocapture", "--test-threads=1"]).args(tests);
    cargo.current_dir(settings::workspace_root());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        assert!(is_quick(&["--slow"]).is_err() && is_quick(&["--quick", "--quick"]).is_err());
        assert!(is_quick(&["--quick"]).unwrap() && !is_quick(&[]).unwrap());
    }
}
