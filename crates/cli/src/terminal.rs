//! The user's own terminal: raw while a shell runs, and as it was afterwards.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::{Mutex, OnceLock, PoisonError},
};

use ringfence_sandbox::session::Size;
use rustix::{
    stdio::{stdin, stdout},
    termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr},
};

/// What a terminal is assumed to be when it does not say.
const USUAL: Size = Size { rows: 24, columns: 80 };

/// Settings to go back to, also for the panic hook, which no destructor runs after.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether keyboard and screen are a terminal.
pub(crate) fn is_interactive() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// The screen's size now.
pub(crate) fn size() -> Size {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Size { rows: size.ws_row, columns: size.ws_col }
        }
        _ => USUAL,
    }
}

/// Every key goes to the sandbox as it is until this is dropped.
#[derive(Debug)]
pub(crate) struct Raw(());

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(keyboard())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        restore_on_panic();
        let entered = Self(());
        tcsetattr(keyboard(), OptionalActions::Now, &raw)?;
        Ok(entered)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // What was typed and not read stays for whoever reads next.
        let _ = tcsetattr(keyboard(), OptionalActions::Now, &before);
    }
}

fn restore_on_panic() {
    static HOOKED: OnceLock<()> = OnceLock::new();
    HOOKED.get_or_init(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            usual(info);
        }));
    });
}

fn keyboard() -> BorrowedFd<'static> {
    stdin()
}
