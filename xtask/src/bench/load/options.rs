//! Options of `bench load`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Amount of measurements, and destination of the findings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    /// Rounds of each closed loop.
    pub(super) rounds: usize,
    /// Seconds of each closed loop.
    pub(super) loop_secs: f64,
    /// Seconds of each run at a fixed rate.
    pub(super) open_secs: f64,
    /// Starts of the server.
    pub(super) starts: usize,
    /// File for all findings as JSON, samples included.
    pub(super) json: Option<PathBuf>,
    /// Whether this is a short run, not a measurement.
    pub(super) is_quick: bool,
}

/// Parses the arguments; later ones win.
pub(super) fn parse(words: &[&str]) -> Result<Options> {
    let mut options = Options {
        rounds: 3,
        loop_secs: 5.0,
        open_secs: 15.0,
        starts: 20,
        json: None,
        is_quick: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => {
                options = Options {
                    rounds: 1,
                    loop_secs: 2.0,
                    open_secs: 4.0,
                    starts: 5,
                    is_quick: true,
                    ..options
                };
            }
            "--json" => {
                let file = words.next().context("--json needs a file")?;
                options.json = Some(PathBuf::from(file));
            }
            other => bail!("`bench load` does not know `{other}`"),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_has_rounds_and_a_look_has_one() {
        assert_eq!(parse(&[]).expect("nothing").rounds, 3);
        let options = parse(&["--json", "x", "--quick"]).expect("all");
        assert_eq!((options.rounds, options.is_quick, options.json), (1, true, Some("x".into())));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(parse(&["--json"]).is_err());
        let error = parse(&["--runs"]).expect_err("not ours").to_string();
        assert_eq!(error, "`bench load` does not know `--runs`");
    }
}
