//! Python code, tested with unittest: the drivers and the shipped skills.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::this_host;
use crate::report::{Counts, Row};
use crate::{settings, shell};

/// Suites and the folders of their tests.
const FOLDERS: &[(&str, &str)] =
    &[("drivers", "crates/sandbox/drivers/tests"), ("skills", "skills/tests")];

pub(super) fn run(suite: &str) -> Result<Row> {
    let folder = FOLDERS.iter().find(|(name, _)| *name == suite).map(|(_, folder)| *folder);
    let folder = folder.context("no such suite")?;
    println!("{suite}: python's unittest");
    let started = Instant::now();
    let python = shell::command("/usr/bin/python3");
    unittest(suite, python, folder, started)
}

/// Interpreter with packages, installed once and cached under this name.
pub(super) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let cache = settings::cache_directory()?;
    let kept = cache.join(format!("{name}-{}", packages.join("-").replace("==", "-")));
    let python = kept.join("bin/python");
    // Written last: an environment without it is incomplete.
    let stamp = kept.join("complete");
    if stamp.exists() {
        return Ok(python);
    }
    println!("installing {}", packages.join(", "));
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
    let mut pip = shell::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.args(packages)).with_context(|| format!("install what `{name}` needs"))?;
    fs::write(&stamp, "").context("note what was installed")?;
    Ok(python)
}

/// Runs the tests of a folder with this interpreter.
pub(super) fn unittest(
    suite: &str,
    mut python: Command,
    folder: &str,
    started: Instant,
) -> Result<Row> {
    python
        .args(["-B", "-m", "unittest", "discover", "-s", folder])
        .current_dir(settings::workspace_root())
        .stdin(Stdio::null());
    let output = python.output().context("start python's unittest")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{said}");
    let counts = counts(&said, output.status.success());
    let failures = failures(&said, counts);
    let (suite, against) = (suite.to_owned(), this_host());
    Ok(Row { suite, against, counts, took: started.elapsed(), failures })
}

/// Output from the first failed test on, or the last lines where there is none.
fn failures(said: &str, counts: Counts) -> Vec<String> {
    let reports = said.find("\n=====").map_or(said, |at| &said[at..]);
    let beginning: Vec<&str> = reports.lines().take(60).collect();
    Vec::from_iter((counts.failed > 0).then(|| beginning.join("\n")))
}

/// Counts from `Ran 101 tests in 14.1s`, then `OK` or `FAILED (failures=1, errors=2, skipped=3)`. A run
/// that ends otherwise is one failure.
fn counts(said: &str, has_succeeded: bool) -> Counts {
    let number = |key: &str| -> u64 {
        let (_, rest) = said.rsplit_once(key).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let (ran, skipped) = (number("Ran "), number("skipped="));
    let failed = number("failures=") + number("errors=");
    if ran == 0 || (!has_succeeded && failed == 0) {
        return Counts::one(false);
    }
    Counts { passed: ran.saturating_sub(failed + skipped), failed, skipped, unproven: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_s_closing_words_are_counted() {
        let good = "......\nRan 101 tests in 14.1s\n\nOK\n";
        assert_eq!(counts(good, true), Counts { passed: 101, ..Counts::default() });
        let bad = "Ran 10 tests in 1s\n\nFAILED (failures=1, errors=2, skipped=3)\n";
        assert_eq!(counts(bad, false), Counts { passed: 4, failed: 3, skipped: 3, unproven: 0 });
    }

    #[test]
    fn a_run_without_closing_words_is_a_failure() {
        assert_eq!(counts("ImportError", false), Counts::one(false));
        assert_eq!(counts("Ran 0 tests in 0s\n\nOK\n", true), Counts::one(false));
        assert_eq!(counts("Ran 3 tests in 0s", false), Counts::one(false));
    }
}
