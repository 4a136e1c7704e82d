//! Error output: `error:`, its causes, and a hint. Exit code 2, unless a signal ended the command.

use std::{error::Error, fmt::Write, process::ExitCode};

use serde_json::{Value, json};

use crate::{exit, print, style::Tone};

/// An error of Ringfence, or a misuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The message.
    message: String,
    /// Causes, from the nearest to the farthest; for misuse, every problem.
    causes: Vec<String>,
    /// The next step to try.
    hint: Option<String>,
    /// Whether `--json` was asked for.
    is_json: bool,
    /// The exit code.
    code: u8,
}

impl Failure {
    /// A failure with a message alone.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let (message, causes, hint) = (message.into(), Vec::new(), None);
        Self { message, causes, hint, is_json: false, code: exit::OURS }
    }

    /// A failure from an error, with its causes.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut failure = Self::new(error.to_string());
        failure.add_sources(error);
        failure
    }

    /// A failure with an error as its cause.
    pub(crate) fn because(message: impl Into<String>, error: &dyn Error) -> Self {
        let mut failure = Self::new(message);
        failure.causes.push(error.to_string());
        failure.add_sources(error);
        failure
    }

    /// All problems of a request at once; at least one.
    pub(crate) fn misuse(mut problems: Vec<String>) -> Self {
        match problems.len() {
            1 => Self::new(problems.remove(0)),
            count => {
                Self { causes: problems, ..Self::new(format!("{count} problems with the request")) }
            }
        }
    }

    /// A failure with a list of causes.
    pub(crate) fn listing(message: impl Into<String>, causes: Vec<String>) -> Self {
        Self { causes, ..Self::new(message) }
    }

    /// The same failure as the cause of another.
    pub(crate) fn context(mut self, message: impl Into<String>) -> Self {
        let cause = std::mem::replace(&mut self.message, message.into());
        self.causes.insert(0, cause);
        self
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Also printed as an object on standard output.
    pub(crate) fn in_json(self, is_json: bool) -> Self {
        Self { is_json, ..self }
    }

    /// With another exit code.
    pub(crate) fn code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Prints it and returns the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        if self.is_json {
            print::line(&self.json().to_string());
        }
        print::note(&self.painted());
        ExitCode::from(self.code)
    }

    pub(crate) fn text(&self) -> String {
        self.text_after("error:")
    }

    fn painted(&self) -> String {
        self.text_after(&Tone::Bad.on_stderr("error:"))
    }

    fn text_after(&self, error: &str) -> String {
        let mut text = format!("{error} {}\n", self.message);
        for cause in &self.causes {
            let _ = writeln!(text, "  {cause}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "outcome": "failed",
            "error": { "message": self.message, "causes": self.causes, "hint": self.hint },
        })
    }

    fn add_sources(&mut self, error: &dyn Error) {
        let mut source = error.source();
        while let Some(error) = source {
            self.causes.push(error.to_string());
            source = error.source();
        }
    }
}

impl From<ringfence_sandbox::Error> for Failure {
    fn from(error: ringfence_sandbox::Error) -> Self {
        Self { hint: error.hint(), ..Self::of(&error) }
    }
}

impl From<ringfence_sandbox::image::Error> for Failure {
    fn from(error: ringfence_sandbox::image::Error) -> Self {
        Self::of(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_the_message_and_several_are_listed() {
        let one = Failure::misuse(vec!["`x` is not a size".to_owned()]);
        assert_eq!(one.text(), "error: `x` is not a size\n");
        let two = Failure::misuse(vec!["a".to_owned(), "b".to_owned()]).hint("c");
        assert_eq!(two.text(), "error: 2 problems with the request\n  a\n  b\nhint: c\n");
    }
}
