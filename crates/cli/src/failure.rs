//! How we tell that we failed: `error:`, its causes, and a hint. Exit code 2, unless a signal ended
//! what we did.

use std::{error::Error, fmt::Write, process::ExitCode};

use serde_json::{Value, json};

use crate::{exit, print, style::Tone};

/// Something of ours went wrong, or was asked for wrongly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What failed.
    message: String,
    /// Why, from the nearest cause to the farthest; for misuse, every problem there is.
    causes: Vec<String>,
    /// The exact next thing to try.
    hint: Option<String>,
    /// Whether `--json` was asked for.
    is_json: bool,
    /// The exit code.
    code: u8,
}

impl Failure {
    /// A failure of which the message is all that is known.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let (message, causes, hint) = (message.into(), Vec::new(), None);
        Self { message, causes, hint, is_json: false, code: exit::OURS }
    }

    /// A failure that is an error, with its causes.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut failure = Self::new(error.to_string());
        failure.add_sources(error);
        failure
    }

    /// A failure whose cause is an error.
    pub(crate) fn because(message: impl Into<String>, error: &dyn Error) -> Self {
        let mut failure = Self::new(message);
        failure.causes.push(error.to_string());
        failure.add_sources(error);
        failure
    }

    /// Several problems of what was asked for, all at once; at least one.
    pub(crate) fn misuse(mut problems: Vec<String>) -> Self {
        match problems.len() {
            1 => Self::new(problems.remove(0)),
            count => {
                Self { causes: problems, ..Self::new(format!("{count} problems with the request")) }
            }
        }
    }

    /// A failure with everything that is to be said about it.
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

    /// It will be told as an object on standard output, too.
    pub(crate) fn in_json(self, is_json: bool) -> Self {
        Self { is_json, ..self }
    }

    /// It ends with another code than that of our failures.
    pub(crate) fn code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Tells it and gives the exit code.
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
