//! Workspace tests, counted while their output is shown.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::failed_tests::FailedTests;
use super::{Staged, this_host};
use crate::report::{Counts, Row};
use crate::servers::Provided;
use crate::{settings, shell};

/// Runs `cargo test` over the workspace, one row per test binary.
pub(super) fn run(staged: &Staged, filter: Option<&str>, servers: &[Provided]) -> Result<Vec<Row>> {
    let skip_log = staged.directory.join("skipped");
    // Tests that drop their privileges must still be able to record a skip.
    fs::write(&skip_log, "").context("create the skip log")?;
    fs::set_permissions(&skip_log, fs::Permissions::from_mode(0o666)).context("open it to all")?;
    let mut command = shell::command(settings::cargo());
    command.args(["test", "--workspace", "--no-fail-fast"]).args(filter);
    command.env(settings::BINARY, &staged.binary).env(settings::SKIP_LOG, &skip_log);
    for Provided { server, program, .. } in servers {
        command.envs(program.as_ref().ok().map(|path| (server.variable, path)));
    }
    if settings::is_ci() {
        // A variable of the caller must not let tests skip.
        command.env_remove(settings::ALLOW_SKIP);
    } else {
        command.env(settings::ALLOW_SKIP, "1");
    }
    // One pipe for both streams: cargo names the binary on stderr, the binary counts on stdout.
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    command.stdout(writer.try_clone().context("share the pipe")?).stderr(writer);
    let mut child = command.spawn().context("start `cargo test`")?;
    // The command holds the writing end; without this the reader would never see the end.
    drop(command);
    let mut counter = Counter::new(this_host(), skip_log);
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("read test output")?).into_owned();
        println!("{line}");
        counter.line(&line);
    }
    let status = child.wait().context("wait for `cargo test`")?;
    Ok(counter.finish(status.success()))
}

/// Turns cargo's and libtest's lines into rows.
struct Counter {
    against: String,
    skip_log: PathBuf,
    skips_seen: usize,
    package: String,
    suite: String,
    started: Instant,
    failed: FailedTests,
    rows: Vec<Row>,
}

impl Counter {
    fn new(against: String, skip_log: PathBuf) -> Self {
        Self {
            against,
            skip_log,
            skips_seen: 0,
            package: String::new(),
            suite: String::new(),
            started: Instant::now(),
            failed: FailedTests::default(),
            rows: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) {
        self.failed.line(line);
        if let Some(suite) = suite_name(line, &mut self.package) {
            self.suite = suite;
            self.started = Instant::now();
        } else if let Some(counts) = result_line(line) {
            let counts = self.with_skips(counts);
            self.push(counts);
        }
    }

    fn push(&mut self, counts: Counts) {
        if counts != Counts::default() {
            let took = self.started.elapsed();
            let suite = std::mem::take(&mut self.suite);
            let (against, failures) = (self.against.clone(), self.failed.take());
            self.rows.push(Row { suite, against, counts, took, failures });
        }
        self.suite.clear();
    }

    /// Counts with the skips of the log: libtest counts a skipped test as passed.
    fn with_skips(&mut self, counts: Counts) -> Counts {
        let log = fs::read_to_string(&self.skip_log).unwrap_or_default();
        let new: Vec<&str> = log.lines().skip(self.skips_seen).collect();
        for line in &new {
            println!("SKIPPED {line}");
        }
        self.skips_seen += new.len();
        let skipped = new.len() as u64;
        Counts {
            passed: counts.passed.saturating_sub(skipped),
            skipped: counts.skipped + skipped,
            ..counts
        }
    }

    /// Rows, with one more for a failure without a result line (a build failure, a binary that died).
    fn finish(mut self, has_succeeded: bool) -> Vec<Row> {
        let is_explained = self.rows.iter().any(|row| row.counts.failed > 0);
        if !self.suite.is_empty() || (!has_succeeded && !is_explained) {
            let name = if self.suite.is_empty() { "cargo test" } else { &self.suite };
            let suite = format!("{name} (did not finish)");
            let took = Duration::ZERO;
            let (counts, failures) = (Counts::one(false), self.failed.take());
            self.rows.push(Row { suite, against: self.against, counts, took, failures });
        }
        self.rows
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/xtask-0123)` → `xtask`;
/// `Running tests/it/main.rs (…)` → `xtask tests/it/main.rs`; `Doc-tests xtask` → `xtask doc`.
fn suite_name(line: &str, package: &mut String) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} doc"));
    }
    let (what, binary) = line.strip_prefix("Running ")?.split_once(" (")?;
    if what.starts_with("unittests ") {
        let file = binary.trim_end_matches(')').rsplit('/').next()?;
        *package = file.rsplit_once('-')?.0.to_owned();
        return Some(package.clone());
    }
    Some(format!("{package} {what}"))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
fn result_line(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| {
        let mut parts = numbers.split("; ").filter_map(|part| part.split_once(' '));
        parts.find(|(_, name)| *name == word)?.0.parse().ok()
    };
    Some(Counts {
        passed: number("passed")?,
        failed: number("failed")?,
        skipped: number("ignored")?,
        unproven: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &[&str], skips: &str, has_succeeded: bool) -> Vec<(String, Counts)> {
        let directory = tempfile::tempdir().expect("temp dir");
        let log = directory.path().join("skipped");
        fs::write(&log, skips).expect("write");
        let mut counter = Counter::new("here".to_owned(), log);
        lines.iter().for_each(|line| counter.line(line));
        let rows = counter.finish(has_succeeded);
        rows.into_iter().map(|row| (row.suite, row.counts)).collect()
    }

    const UNIT: &str = "     Running unittests src/lib.rs (target/debug/deps/ringfence_jail-0ab)";
    const RESULT: &str = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.2s";

    #[test]
    fn binaries_get_rows_with_names_a_reader_knows() {
        let lines = [
            UNIT,
            RESULT,
            "     Running tests/it/main.rs (t/it-9)",
            RESULT,
            "   Doc-tests ringfence_jail",
            RESULT,
        ];
        let counts = Counts { passed: 5, skipped: 1, ..Counts::default() };
        let expected = ["ringfence_jail", "ringfence_jail tests/it/main.rs", "ringfence_jail doc"]
            .map(|name| (name.to_owned(), counts));
        assert_eq!(count(&lines, "", true), expected);
    }

    #[test]
    fn a_recorded_skip_is_not_a_pass() {
        let rows = count(&[UNIT, RESULT], "zygote: no python\n", true);
        assert_eq!(rows[0].1, Counts { passed: 4, skipped: 2, ..Counts::default() });
    }

    #[test]
    fn a_broken_build_and_a_dead_binary_are_failures() {
        let broken = count(&["error: could not compile"], "", false);
        assert_eq!(broken, [("cargo test (did not finish)".to_owned(), Counts::one(false))]);
        let dead = count(&[UNIT, "signal: 11, SIGSEGV"], "", false);
        assert_eq!(dead, [("ringfence_jail (did not finish)".to_owned(), Counts::one(false))]);
    }

    #[test]
    fn a_failure_already_counted_is_not_counted_twice() {
        let failed =
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(count(&[UNIT, failed], "", false).len(), 1);
    }
}
