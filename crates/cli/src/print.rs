//! Words for people and data for programs, to the right place and never failing on a closed pipe.

use std::io::{self, IsTerminal, Write};

/// One line of data to standard output.
pub(crate) fn line(text: &str) {
    data(format!("{text}\n").as_bytes());
}

/// Data to standard output. Whoever closed it does not want it.
pub(crate) fn data(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Words to standard error.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A line that is overwritten by the next one, on a terminal only.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, text: &str) {
        if self.is_shown {
            // Back to the start of the line, erase it, write, stay there.
            note(&format!("\r\x1b[2K{text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
