//! Counts and plots of calls that ended, from stored facts.

use std::time::Duration;

use ringfence_engine::{Activity, EndedCalls};

use crate::{
    html::{self, Html},
    plot::{self, Bar},
};

/// A window of time: name, number of steps, length of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) name: &'static str,
    pub(super) steps: u32,
    pub(super) step: Duration,
}

impl Window {
    const fn new(name: &'static str, steps: u32, step_secs: u64) -> Self {
        Self { name, steps, step: Duration::from_secs(step_secs) }
    }

    fn length(self) -> Duration {
        self.step * self.steps
    }
}

/// Windows to choose from.
pub(super) const WINDOWS: [Window; 3] =
    [Window::new("5 min", 30, 10), Window::new("1 h", 60, 60), Window::new("24 h", 48, 1_800)];

/// Numbers and plots of a window.
#[derive(Debug)]
pub(super) struct ActivityView {
    pub(super) total: u64,
    pub(super) rate: String,
    pub(super) failed: String,
    pub(super) failures: String,
    pub(super) median: String,
    pub(super) slow: String,
    pub(super) calls: Html,
    pub(super) latency: Html,
    /// First and last moment of the plots.
    pub(super) axis: (String, &'static str),
    /// Largest value of each plot.
    pub(super) most: (String, String),
}

impl ActivityView {
    pub(super) fn of(activity: &Activity, window: Window) -> Self {
        let Activity { all, steps, .. } = activity;
        let total = all.total();
        let most = steps.iter().map(EndedCalls::total).max().unwrap_or(0);
        let slowest = steps.iter().filter_map(|step| step.quantile(0.95)).max();
        let name = window.name;
        Self {
            total,
            rate: rate(total, window.length()),
            failed: share(all.errors + all.denied, total),
            failures: format!("{} failed, {} denied", all.errors, all.denied),
            median: quantile(all, 0.5),
            slow: quantile(all, 0.95),
            calls: plot::bars(&bars(activity), &format!("Calls of the last {name}")),
            latency: latency(steps, name),
            axis: (clock(activity, 0), "now"),
            most: (
                format!("{most} per {}", html::rough(window.step)),
                slowest.map(html::precise).unwrap_or_default(),
            ),
        }
    }
}

/// The beginning of a step, as hours and minutes.
fn clock(activity: &Activity, step: u32) -> String {
    let begins = activity.from.after(activity.step * step).to_string();
    format!("{} UTC", begins.get(11..19).unwrap_or_default())
}

fn bars(activity: &Activity) -> Vec<Bar> {
    let bar = |(index, step): (u32, &EndedCalls)| {
        let EndedCalls { results, errors, denied, other, .. } = step;
        let clock = clock(activity, index);
        Bar {
            title: format!(
                "from {clock}: {results} finished, {errors} failed, {denied} denied, {other} other"
            ),
            parts: vec![
                ("good", *results as f64),
                ("wait", *other as f64),
                ("bad", (errors + denied) as f64),
            ],
        }
    };
    (0..).zip(&activity.steps).map(bar).collect()
}

fn latency(steps: &[EndedCalls], window: &str) -> Html {
    let line = |share: f64| {
        steps.iter().map(|step| step.quantile(share).map(|took| took.as_secs_f64())).collect()
    };
    let lines = [("calm", line(0.95)), ("busy", line(0.5))];
    plot::lines(&lines, &format!("Median and 95th percentile of the time of a call, last {window}"))
}

/// A quantile to two digits: times are kept by class.
fn quantile(calls: &EndedCalls, share: f64) -> String {
    let rounded = |took: Duration| {
        let digits = 10_f64.powf((took.as_secs_f64() * 1e6).max(1.0).log10().floor() - 1.0);
        let micros = (took.as_secs_f64() * 1e6 / digits).round() * digits;
        html::precise(Duration::from_micros(micros as u64))
    };
    calls.quantile(share).map_or_else(|| "–".to_owned(), rounded)
}

fn rate(count: u64, length: Duration) -> String {
    match count as f64 / length.as_secs_f64() {
        rate if rate >= 1.0 => format!("{rate:.1} per second"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} per minute", rate * 60.0),
        rate => format!("{:.1} per hour", rate * 3_600.0),
    }
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit_that_fits() {
        assert_eq!(rate(600, Duration::from_secs(300)), "2.0 per second");
        assert_eq!(rate(60, Duration::from_secs(3_600)), "1.0 per minute");
        assert_eq!(rate(24, Duration::from_secs(86_400)), "1.0 per hour");
        assert_eq!(share(1, 0), "–");
        assert_eq!(share(1, 8), "12.5 %");
    }
}
