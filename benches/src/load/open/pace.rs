//! When requests are due.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Shorter pauses are not worth a sleep; what is due in them is told together.
const SHORTEST: Duration = Duration::from_micros(100);

/// Tells the moments at which requests are due, each when it comes.
///
/// A thread of its own, because the runtime's timers are a millisecond apart, which is as long as
/// what is measured. The channel holds at most all requests of the run.
pub(super) fn start(began: Instant, rate: f64, span: Duration) -> UnboundedReceiver<Instant> {
    let (tell, due) = unbounded_channel();
    std::thread::spawn(move || {
        for index in 0..count(rate, span) {
            let at = began + Duration::from_secs_f64(index as f64 / rate);
            let left = at.saturating_duration_since(Instant::now());
            if left > SHORTEST {
                std::thread::sleep(left);
            }
            if tell.send(at).is_err() {
                return;
            }
        }
    });
    due
}

/// How many requests are due in all.
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
