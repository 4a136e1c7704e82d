//! Schedule of due requests.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Pause below which no sleep is made; requests due in it are sent together.
const MIN_SLEEP: Duration = Duration::from_micros(100);

/// Sends the moments at which requests are due, each when it comes.
///
/// A separate thread, because the runtime's timers have a resolution of a millisecond, which is as
/// long as the measured times. The channel holds at most all requests of the run.
pub(super) fn start(began: Instant, rate: f64, span: Duration) -> UnboundedReceiver<Instant> {
    let (tell, due) = unbounded_channel();
    std::thread::spawn(move || {
        for index in 0..count(rate, span) {
            let at = began + Duration::from_secs_f64(index as f64 / rate);
            let left = at.saturating_duration_since(Instant::now());
            if left > MIN_SLEEP {
                std::thread::sleep(left);
            }
            if tell.send(at).is_err() {
                return;
            }
        }
    });
    due
}

/// Number of requests due in all.
pub(super) fn count(rate: f64, span: Duration) -> u64 {
    (rate * span.as_secs_f64()).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_evenly_apart_and_as_many_as_the_rate_says() {
        let began = Instant::now();
        let mut due = start(began, 2000.0, Duration::from_millis(10));
        let mut moments = Vec::new();
        while let Some(at) = due.blocking_recv() {
            moments.push(at.duration_since(began).as_micros());
        }
        assert_eq!(moments, (0..20).map(|index| index * 500).collect::<Vec<_>>());
    }
}
