//! Options of `bench sandbox`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Amount of measurements, and destination of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// Counted runs of each row.
    pub(super) runs: usize,
    /// Counted runs of `docker run`, which takes a quarter of a second each.
    pub(super) docker_runs: usize,
    /// Milliseconds of each closed loop.
    pub(super) loop_millis: u64,
    /// File for all findings as JSON, samples included.
    pub(super) json: Option<PathBuf>,
    /// Whether this is a short run, not a measurement.
    pub(super) is_quick: bool,
}

/// Number of runs below which a run is not a measurement.
pub(super) const MIN_RUNS: usize = 300;

/// Parses the arguments; later ones win.
pub(super) fn parse(words: &[&str]) -> Result<Options> {
    let mut options =
        Options { runs: MIN_RUNS, docker_runs: 20, loop_millis: 5000, json: None, is_quick: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => {
                options = Options {
                    runs: 40,
                    docker_runs: 4,
                    loop_millis: 1000,
                    is_quick: true,
                    ..options
                };
            }
            "--runs" => options.runs = number(words.next())?,
            "--json" => {
                let file = words.next().context("--json needs a file")?;
                options.json = Some(PathBuf::from(file));
            }
            other => bail!("`bench sandbox` does not know `{other}`"),
        }
    }
    Ok(options)
}

fn number(word: Option<&&str>) -> Result<usize> {
    let word = word.context("--runs needs a number")?;
    let number: usize = word.parse().with_context(|| format!("--runs: `{word}` is no number"))?;
    if !(1..=100_000).contains(&number) {
        bail!("--runs: {number} is not between 1 and 100000");
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_has_enough_runs_unless_told_otherwise() {
        assert_eq!(parse(&[]).expect("nothing").runs, MIN_RUNS);
        let options = parse(&["--quick", "--runs", "7", "--json", "x"]).expect("all");
        assert_eq!((options.runs, options.is_quick, options.json), (7, true, Some("x".into())));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for words in [&["--runs"][..], &["--runs", "0"], &["--runs", "x"], &["--json"], &["-q"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
