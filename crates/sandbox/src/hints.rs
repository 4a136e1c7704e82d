//! Guesses from what a failing program said about itself.
//!
//! A limit that the kernel enforces by an errno alone leaves no trace outside the program: nobody
//! counts refused descriptors. Its own words are then all there is. They are never evidence, for a
//! program can say anything, so they change no outcome and are told apart from it.

use ringfence_types::{Limit, Limits, Outcome};
use serde::Serialize;

use crate::output::Output;

/// What a failing program's own words suggest, and what to try if they are true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// The limit it seems to have met.
    pub limit: Limit,
    /// The words, found near the end of its standard error.
    pub words: &'static str,
    /// What to try if they are true.
    pub hint: String,
}

/// How much of the end is searched: a few screens, so that a stack trace may follow the words.
const TAIL: usize = 16 << 10;

/// As the C library and node say it, whatever their case.
const TOO_MANY: &str = "too many open files";

/// What the end of `stderr` suggests, for a program that failed without meeting a known limit.
pub(crate) fn hints(outcome: &Outcome, limits: &Limits, stderr: &Output) -> Vec<Hint> {
    let failed = match outcome {
        Outcome::Exited { code } => *code != 0,
        Outcome::Signaled { .. } => true,
        Outcome::OverLimit(_) | Outcome::Cancelled => false,
    };
    if !failed || !mentions(&stderr.last(TAIL), TOO_MANY) {
        return Vec::new();
    }
    let now = limits.open_files;
    let hint = format!("if it means its own descriptors, raise --open-files (now {now})");
    vec![Hint { limit: Limit::OpenFiles, words: TOO_MANY, hint }]
}

fn mentions(text: &[u8], words: &str) -> bool {
    text.windows(words.len()).any(|part| part.eq_ignore_ascii_case(words.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: Outcome, stderr: &[u8], expected: usize) {
        let output = Output::new(1 << 20);
        output.append(stderr);
        let found = hints(&outcome, &Limits::default(), &output);
        assert_eq!(found.len(), expected, "{outcome:?}: {found:?}");
    }

    #[test]
    fn only_a_failure_with_the_words_at_its_end_is_hinted_at() {
        let words = b"cat: x: Too many open files\n";
        let long_ago = [&words[..], &[b'x'; TAIL]].concat();
        check(Outcome::Exited { code: 1 }, words, 1);
        check(Outcome::Exited { code: 1 }, b"EMFILE: too many open files, open 'x'", 1);
        check(Outcome::Signaled { signal: 6 }, words, 1);
        check(Outcome::Exited { code: 0 }, words, 0);
        check(Outcome::Cancelled, words, 0);
        check(Outcome::Exited { code: 1 }, b"Too many cooks", 0);
        check(Outcome::Exited { code: 1 }, &long_ago, 0);
    }
}
