//! The user's own terminal: raw while a shell runs, restored afterwards.

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

/// Default size of a terminal.
const DEFAULT_SIZE: Size = Size { rows: 24, columns: 80 };

/// Settings to restore, also for the panic hook, after which no destructor runs.
static SAVED_SETTINGS: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether keyboard and screen are a terminal.
pub(crate) fn is_interactive() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// Current size of the screen.
pub(crate) fn size() -> Size {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Size { rows: size.ws_row, columns: size.ws_col }
        }
        _ => DEFAULT_SIZE,
    }
}

/// Raw mode: every key goes to the sandbox until this is dropped.
#[derive(Debug)]
pub(crate) struct Raw(());

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(keyboard())?;
        let mut raw = before.clone();
        raw.make_raw();
        *SAVED_SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
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
    let before = SAVED_SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // Typed input that was not read stays for the next reader.
        let _ = tcsetattr(keyboard(), OptionalActions::Now, &before);
    }
}

fn restore_on_panic() {
    static PANIC_HOOK: OnceLock<()> = OnceLock::new();
    PANIC_HOOK.get_or_init(|| {
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
