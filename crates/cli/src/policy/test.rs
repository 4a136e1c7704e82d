//! `ringfence policy test`: runs the tests of a bundle locally.

use std::{fmt::Write, path::Path, process::ExitCode};

use ringfence_policy::{Coverage, Suite, TestOutcome, Tested};
use serde_json::{Value, json};

use super::{read, unusable};
use crate::{exit, failure::Failure, print, table::plain};

pub(super) fn test(folder: &Path, with_coverage: bool, is_json: bool) -> Result<ExitCode, Failure> {
    let suite = Suite::run(&read(folder)?).map_err(|invalid| unusable(folder, &invalid))?;
    if suite.tests.is_empty() {
        let message = format!("there are no tests in `{}`", folder.display());
        let hint = "write rules named test_… in files named *_test.rego";
        return Err(Failure::new(message).hint(hint));
    }
    match is_json {
        true => tell_json(&suite, with_coverage),
        false => print::data(told(&suite, with_coverage).as_bytes()),
    }
    Ok(ExitCode::from(if suite.is_passed() { exit::DONE } else { exit::FAILED }))
}

fn word(test: &Tested) -> &'static str {
    match test.outcome {
        TestOutcome::Passed => "passed",
        TestOutcome::Failed(_) => "failed",
        TestOutcome::Errored(_) => "errored",
        TestOutcome::Skipped => "skipped",
    }
}

fn count(suite: &Suite, wanted: &str) -> usize {
    suite.tests.iter().filter(|test| word(test) == wanted).count()
}

fn told(suite: &Suite, with_coverage: bool) -> String {
    let mut text = String::new();
    for test in &suite.tests {
        let Tested { name, file, line, .. } = test;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<8}{}:{line} {}", word(test), plain(file), plain(name));
        match &test.outcome {
            TestOutcome::Failed(Some(at)) => {
                let _ =
                    writeln!(text, "        {}:{}: {}", plain(&at.file), at.line, plain(&at.text));
            }
            TestOutcome::Errored(why) => {
                let _ = writeln!(text, "        {}", plain(why));
            }
            TestOutcome::Failed(None) | TestOutcome::Passed | TestOutcome::Skipped => {}
        }
    }
    let numbers = ["passed", "failed", "errored", "skipped"].map(|word| (count(suite, word), word));
    let words: Vec<_> = numbers.iter().map(|(count, word)| format!("{count} {word}")).collect();
    let _ = writeln!(text, "{}", words.join(", "));
    if with_coverage {
        suite.coverage.iter().for_each(|file| add_coverage(&mut text, file));
    }
    text
}

fn add_coverage(text: &mut String, file: &Coverage) {
    let all = file.covered + file.missed.len();
    let percent = if all == 0 { 0.0 } else { file.covered as f64 * 100.0 / all as f64 };
    let name = plain(&file.file);
    let _ = write!(text, "{name}: {percent:.1} % of {all} lines evaluated");
    if !file.missed.is_empty() {
        let _ = write!(text, ", not {}", ranges(&file.missed));
    }
    text.push('\n');
}

/// Line ranges such as `3-5, 9`.
fn ranges(lines: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == *line => *end = *line,
            _ => ranges.push((*line, *line)),
        }
    }
    let one = |(from, to): &(u32, u32)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn tell_json(suite: &Suite, with_coverage: bool) {
    for test in &suite.tests {
        let at = match &test.outcome {
            TestOutcome::Failed(Some(at)) => {
                json!({"file": at.file, "line": at.line, "text": at.text})
            }
            _ => Value::Null,
        };
        let message = match &test.outcome {
            TestOutcome::Errored(why) => json!(why),
            _ => Value::Null,
        };
        let object = json!({
            "test": test.name, "file": test.file, "line": test.line, "outcome": word(test),
            "at": at, "message": message, "took_secs": test.took.as_secs_f64(),
        });
        print::line(&object.to_string());
    }
    let coverage: Vec<_> = suite
        .coverage
        .iter()
        .map(|file| json!({"file": file.file, "covered": file.covered, "missed": file.missed}))
        .collect();
    let mut end = json!({
        "passed": count(suite, "passed"), "failed": count(suite, "failed"),
        "errored": count(suite, "errored"), "skipped": count(suite, "skipped"),
    });
    if with_coverage {
        end["coverage"] = json!(coverage);
    }
    print::line(&end.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_a_row_are_one_range() {
        assert_eq!(ranges(&[3, 4, 5, 9, 11, 12]), "3-5, 9, 11-12");
        assert_eq!(ranges(&[]), "");
    }
}
