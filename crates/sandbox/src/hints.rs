//! Guesses from the error text of a failing program.
//!
//! A limit that the kernel enforces by an errno alone leaves no trace outside the program: refused
//! descriptors are not counted. The program's own text is then the only source. It is never
//! evidence, because a program can print anything, so it changes no outcome and is reported apart
//! from it.

use ringfence_types::{Limits, Outcome};
use serde::Serialize;

use crate::output::Output;

/// Likely cause of a failure, guessed from the program's own text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// Field of [`Limits`] that was probably met.
    pub limit: &'static str,
    /// Words found near the end of its standard error.
    pub words: &'static str,
    /// Next step if the guess is right.
    pub hint: String,
}

/// Bytes searched at the end: a few screens, so that a stack trace may follow the words.
const TAIL: usize = 16 << 10;

/// One guess: the field of the limits, words that suggest it, and the hint if these limits allow
/// the guess.
type Guess = (&'static str, &'static [&'static str], fn(&Limits) -> Option<String>);

/// Guesses with the words of the C library, Python, node and common tools, in lower case.
const GUESSES: [Guess; 3] = [
    ("open_files", &["too many open files"], |limits| {
        let now = limits.open_files;
        Some(format!("if it means its own descriptors, raise --open-files (now {now})"))
    }),
    ("network", &["address family not supported"], |limits| {
        limits.network.is_none().then(|| {
            "the sandbox has no network; if it needs TCP or UDP among its own programs, ask for \
             --network loopback (a skill: `limits.network: loopback`)"
                .to_owned()
        })
    }),
    ("terminals", &["out of pty devices", "pseudo-terminal", "no more ptys"], |limits| {
        (limits.terminals == 0).then(|| {
            "the sandbox has no terminals; if it needs one, ask for --terminals 1 (a skill: \
             `limits.terminals: 1`)"
                .to_owned()
        })
    }),
];

/// Hints from the end of `stderr`, for a program that failed without meeting a known limit.
pub(crate) fn hints(outcome: &Outcome, limits: &Limits, stderr: &Output) -> Vec<Hint> {
    let failed = match outcome {
        Outcome::Exited { code } => *code != 0,
        Outcome::Signaled { .. } => true,
        Outcome::OverLimit(_) | Outcome::Cancelled => false,
    };
    if !failed {
        return Vec::new();
    }
    let tail = stderr.last(TAIL);
    let guess = |(limit, words, hint): &Guess| {
        let words = words.iter().find(|words| mentions(&tail, words))?;
        Some(Hint { limit, words, hint: hint(limits)? })
    };
    GUESSES.iter().filter_map(guess).collect()
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

    #[test]
    fn a_missing_network_or_terminal_is_hinted_at_unless_there_was_one() {
        let output = Output::new(1 << 20);
        output.append(
            b"OSError: [Errno 97] Address family not supported by protocol\n\
              script: failed to create pseudo-terminal: No such file or directory\n",
        );
        let found = |limits: &Limits| -> Vec<&str> {
            let all = hints(&Outcome::Exited { code: 1 }, limits, &output);
            all.iter().map(|hint| hint.limit).collect()
        };
        assert_eq!(found(&Limits::default()), ["network", "terminals"]);
        let network = ringfence_types::SandboxNetwork::Loopback;
        assert!(found(&Limits { network, terminals: 1, ..Limits::default() }).is_empty());
    }
}
