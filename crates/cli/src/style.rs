//! Colour by meaning, on a terminal only. Everything is readable without it.

use std::io::{IsTerminal, stderr, stdout};

use clap::builder::styling::{AnsiColor, Style};

use crate::config;

/// Columns of output that does not go to a terminal.
const DEFAULT_WIDTH: usize = 80;

/// The meaning of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It worked.
    Good,
    /// It is running, or waits for a person.
    Waiting,
    /// It failed or was refused.
    Bad,
    /// Nothing special.
    Plain,
}

impl Tone {
    /// The tone of a call's state. A call with an error is bad whatever its state is.
    pub(crate) fn of_state(state: &str, has_error: bool) -> Self {
        match state {
            "finished" if !has_error => Self::Good,
            "finished" | "denied" | "expired" | "outcome_unknown" => Self::Bad,
            "held" | "accepted" | "dispatched" | "running" | "cancelling" => Self::Waiting,
            _ => Self::Plain,
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Waiting => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Plain => Style::new(),
        }
    }

    /// The text in this tone.
    pub(crate) fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }

    /// The text in this tone if standard output takes colours.
    pub(crate) fn on_stdout(self, text: &str) -> String {
        if is_coloured(stdout().is_terminal()) { self.paint(text) } else { text.to_owned() }
    }

    /// The text in this tone if standard error takes colours.
    pub(crate) fn on_stderr(self, text: &str) -> String {
        if is_coloured(stderr().is_terminal()) { self.paint(text) } else { text.to_owned() }
    }
}

/// Whether standard output takes colours.
pub(crate) fn has_colour() -> bool {
    is_coloured(stdout().is_terminal())
}

fn is_coloured(is_terminal: bool) -> bool {
    is_terminal && config::wants_colour()
}

/// Columns of standard output.
pub(crate) fn width() -> usize {
    match stdout().is_terminal() {
        true => usize::from(crate::terminal::size().columns),
        false => DEFAULT_WIDTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_follow_the_meaning_of_states() {
        for (state, has_error, tone) in [
            ("finished", false, Tone::Good),
            ("finished", true, Tone::Bad),
            ("denied", false, Tone::Bad),
            ("held", false, Tone::Waiting),
            ("cancelled", false, Tone::Plain),
        ] {
            assert_eq!(Tone::of_state(state, has_error), tone, "{state}");
        }
        assert_eq!(Tone::Bad.paint("x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Tone::Plain.paint("x"), "x");
    }
}
