//! Polling for changes of the kernel without a notification.

use std::thread;
use std::time::{Duration, Instant};

const MIN_PAUSE: Duration = Duration::from_micros(100);
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// Polls `done` until it is true or `timeout` is over; the pauses double from 0.1 to 10 ms.
///
/// `done` is called at least once, and once more after the last pause.
pub(super) fn until<E>(
    timeout: Duration,
    mut done: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let deadline = Instant::now() + timeout;
    let mut pause = MIN_PAUSE;
    while !done()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Ok(true)
}
