//! `bench console`: first pages of the console over a large history, and memory of live updates.

use anyhow::{Result, bail};

use super::machine::{self, Quiet};
use crate::{settings, shell};

/// Calls, holds, live updates, and seconds over which these are spread.
type Size = [&'static str; 4];

const FULL: Size = ["100000", "1000", "600", "20"];
const QUICK: Size = ["10000", "1000", "300", "5"];
const LONG: Size = ["100000", "1000", "6000", "600"];

/// Measures; `--quick` is a short run, `--long` updates pages for ten minutes.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let size = size(words)?;
    let quiet = Quiet::look();
    println!("\n{}", machine::describe());
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["run", "--release", "--quiet", "--package", "ringfence-console"])
        .args(["--example", "scale", "--"])
        .args(size)
        .current_dir(settings::workspace_root());
    shell::run(&mut cargo)
}

fn size(words: &[&str]) -> Result<Size> {
    match words {
        [] => Ok(FULL),
        ["--quick"] => Ok(QUICK),
        ["--long"] => Ok(LONG),
        other => bail!("`bench console` does not know `{}`", other.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        assert!(size(&["--slow"]).is_err() && size(&["--quick", "--long"]).is_err());
        assert_eq!((size(&[]).unwrap(), size(&["--quick"]).unwrap()), (FULL, QUICK));
    }
}
