//! Waiting for the kernel to finish something it does not announce.

use std::thread;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(10);

/// Asks `done` until it says yes or `patience` is over; the pauses double from 0.1 to 10 ms.
///
/// `done` is asked at least once, and once more after the last pause.
pub(super) fn until<E>(
    patience: Duration,
    mut done: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let deadline = Instant::now() + patience;
    let mut pause = FIRST;
    while !done()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST);
    }
    Ok(true)
}
