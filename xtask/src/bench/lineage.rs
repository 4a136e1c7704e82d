//! `bench lineage`: time of lineage queries on many edges, on both backends.

use anyhow::{Result, bail};

use super::machine::{self, Quiet};
use crate::{settings, shell};

/// Measures; `--quick` is a short run on fewer edges.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let edges = edges(words)?;
    let quiet = Quiet::look();
    println!("\n{}", machine::describe());
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    let mut cargo = shell::command(settings::cargo());
    cargo
        .args(["run", "--release", "--quiet", "--package", "ringfence-store"])
        .args(["--example", "lineage", "--", edges])
        .current_dir(settings::workspace_root());
    shell::run(&mut cargo)
}

fn edges(words: &[&str]) -> Result<&'static str> {
    match words {
        [] => Ok("1000000"),
        ["--quick"] => Ok("50000"),
        other => bail!("`bench lineage` does not know `{}`", other.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(edges(&["--slow"]).is_err());
        assert_eq!(edges(&[]).expect("whole"), "1000000");
    }
}
