//! `bench fuzz`: property tests of all parsers of hostile bytes, for minutes.
//!
//! The same tests run for seconds with every `cargo xtask test`. Here each of them runs again and
//! again, with more cases and fresh random seeds, until its share of the time is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{report, settings, shell};

/// Default duration of all fuzzers together.
const MINUTES: u64 = 5;
/// Cases of each property in one round, for properties that do not fix their own number.
const CASES: &str = "20000";

/// Tests that feed one parser with hostile bytes.
struct Fuzzer {
    what: &'static str,
    package: &'static str,
    /// Test binary of the package.
    target: &'static [&'static str],
    /// Name prefix of the tests.
    filter: &'static str,
}

/// All parsers of untrusted bytes. Others are fuzzed for seconds only.
const FUZZERS: &[Fuzzer] = &[
    fuzzer("spawner protocol", "ringfence-jail", &["--lib"], "socket::"),
    fuzzer("job channel", "ringfence-sandbox", &["--lib"], "job::"),
    fuzzer("archives", "ringfence-sandbox", &["--test", "files"], "fuzz::"),
    fuzzer("paths in a box", "ringfence-sandbox", &["--test", "files"], "paths::what_is_accepted"),
    fuzzer("image manifests", "ringfence-sandbox", &["--lib"], "image::oci::tests::no_manifest"),
    fuzzer("session snapshots", "ringfence-sandbox", &["--lib"], "session::snapshot::"),
    fuzzer(
        "interpreters' frames",
        "ringfence-sandbox",
        &["--lib"],
        "session::interpreter::driver_frame::",
    ),
    fuzzer("quantities", "ringfence-types", &["--lib"], "size::"),
    fuzzer("command line", "ringfence", &["--bin", "ringfence"], "copy_spec::"),
];

/// Runs all fuzzers, for `--minutes N`.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let span = Duration::from_secs(60 * minutes(words)?) / FUZZERS.len() as u32;
    let header = ["reader", "package", "rounds", "tests passed", "seconds"].map(str::to_owned);
    let mut lines = vec![header];
    for fuzzer in FUZZERS {
        println!("fuzzing: {}", fuzzer.what);
        lines.push(fuzz(fuzzer, span).with_context(|| format!("fuzz the {}", fuzzer.what))?);
    }
    println!("\n{}", report::align(&lines));
    Ok(())
}

fn minutes(words: &[&str]) -> Result<u64> {
    match words {
        [] => Ok(MINUTES),
        ["--minutes", number] => {
            number.parse().with_context(|| format!("--minutes: `{number}` is no number"))
        }
        other => bail!("`bench fuzz` does not know `{}`", other.join(" ")),
    }
}

/// Runs at least one round; a failing property ends the run, its smallest case printed above.
fn fuzz(fuzzer: &Fuzzer, span: Duration) -> Result<[String; 5]> {
    // The first round may build, which does not count as fuzzing time.
    shell::run(cargo(fuzzer).arg("--no-run"))?;
    let (started, mut rounds, mut passed) = (Instant::now(), 0_u64, 0);
    while rounds == 0 || started.elapsed() < span {
        let said = shell::read(cargo(fuzzer).arg(fuzzer.filter).env("PROPTEST_CASES", CASES))?;
        match tests_passed(&said) {
            0 => bail!("no test of `{}` is named `{}…`", fuzzer.package, fuzzer.filter),
            count => passed += count,
        }
        rounds += 1;
    }
    Ok([
        fuzzer.what.to_owned(),
        fuzzer.package.to_owned(),
        rounds.to_string(),
        passed.to_string(),
        format!("{:.0}", started.elapsed().as_secs_f64()),
    ])
}

fn cargo(fuzzer: &Fuzzer) -> std::process::Command {
    let mut cargo = shell::command(settings::cargo());
    cargo.args(["test", "--quiet", "--package", fuzzer.package]).args(fuzzer.target);
    cargo.current_dir(settings::workspace_root());
    cargo
}

/// Sum of all `test result: ok. N passed`.
fn tests_passed(said: &str) -> u64 {
    let counts = said.lines().filter_map(|line| line.split_once("test result: ok. "));
    counts.filter_map(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok()).sum()
}

const fn fuzzer(
    what: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    filter: &'static str,
) -> Fuzzer {
    Fuzzer { what, package, target, filter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_ran_count() {
        let said = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 0 ignored\n\n\
                    test result: ok. 0 passed; 0 failed; 9 filtered out\n";
        assert_eq!(tests_passed(said), 3);
        assert_eq!(tests_passed("test result: FAILED. 2 passed; 1 failed"), 0);
    }

    #[test]
    fn minutes_are_a_number() {
        assert_eq!(minutes(&[]).expect("the default"), MINUTES);
        assert_eq!(minutes(&["--minutes", "2"]).expect("two"), 2);
        assert!(minutes(&["--minutes", "x"]).is_err() && minutes(&["--hours"]).is_err());
    }

    #[test]
    fn every_filter_names_a_module_that_has_a_property() {
        let root = settings::workspace_root();
        let sources = crate::tidy::Tree::read(&root).expect("the checkout");
        for fuzzer in FUZZERS {
            let module = fuzzer.filter.split("::").next().expect("a module");
            let is_there = sources.files.iter().any(|file| {
                let path = &file.path;
                path.ends_with(".rs") && path.contains(module) && file.text.contains("proptest! {")
            });
            assert!(is_there, "{}", fuzzer.what);
        }
    }
}
