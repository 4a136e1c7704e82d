//! Output: data to standard output, messages to standard error. A closed pipe is not an error.

use std::io::{self, IsTerminal, Write};

/// Prints one line of data to standard output.
pub(crate) fn line(text: &str) {
    data(format!("{text}\n").as_bytes());
}

/// Prints data to standard output; a reader that closed it does not want it.
pub(crate) fn data(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Prints a message to standard error.
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
