//! `bench ledger`: cost of a receipt, and speed of a replay.

use anyhow::{Result, bail};

use super::machine::{self, Quiet};
use crate::{settings, shell};

/// Seconds per row of receipts, and number of replayed decisions.
type Size = (&'static str, &'static str);

const FULL: Size = ("5", "100000");
const QUICK: Size = ("1", "10000");

/// Measures; `--quick` is a short run.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let (seconds, decisions) = size(words)?;
    let quiet = Quiet::look();
    println!("\n{}", machine::describe());
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    println!("\nreceipts");
    example("receipts", seconds)?;
    println!("\nthe past, judged again");
    example("replay", decisions)
}

fn size(words: &[&str]) -> Result<Size> {
    match words {
        [] => Ok(FULL),
        ["--quick"] => Ok(QUICK),
        other => bail!("`bench ledger` does not know `{}`", other.join(" ")),
    }
}

/// Runs an example of the engine, which prints its findings.
fn example(name: &str, size: &str) -> Result<()> {
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["run", "--release", "--quiet", "--package", "ringfence-engine"])
        .args(["--example", name, "--", size])
        .current_dir(settings::workspace_root());
    shell::run(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(size(&["--slow"]).is_err() && size(&["--quick", "--quick"]).is_err());
        assert_eq!((size(&[]).expect("whole"), size(&["--quick"]).expect("a look")), (FULL, QUICK));
    }
}
