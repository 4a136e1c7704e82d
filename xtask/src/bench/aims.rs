//! What we aim at, and whether this run reached it.

use super::findings::Findings;
use super::measurement::ratio;
use crate::report;

/// One aim.
struct Aim {
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    value: fn(&Findings) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Every aim, in the order of the issue that set them.
const AIMS: &[Aim] = &[
    aim("zygote python, p50 by bare python", Bound::AtMost(0.1), "x", |found| {
        by(found, "zygote python", "bare python")
    }),
    aim("docker run python, p50 by zygote python", Bound::AtLeast(200.0), "x", |found| {
        by(found, "docker run python", "zygote python")
    }),
    aim("cold true, p50 by bubblewrap true", Bound::AtMost(0.8), "x", |found| {
        by(found, "cold true", "bubblewrap true")
    }),
    aim("cold python, p50 by bare python", Bound::AtMost(1.35), "x", |found| {
        by(found, "cold python", "bare python")
    }),
    aim("zygote python, calls/s by bare python, 4 at once", Bound::AtLeast(1.8), "x", |found| {
        let pace = |name| found.pace(name, 4).map(|pace| pace.calls_per_sec);
        Some(pace("zygote python")? / pace("bare python")?)
    }),
    aim("memory per idle zygote child (PSS)", Bound::AtMost(2.0), "MiB", |found| {
        let idle = found.idle.as_ref().ok()?;
        Some(idle.pss_kib as f64 / 1024.0 / idle.members as f64)
    }),
    aim("session exec true, p50", Bound::AtMost(2.0), "ms", |found| {
        Some(found.row("session exec true")?.percentile(50).as_secs_f64() * 1000.0)
    }),
];

/// The table of aims: what was reached, and what was not.
pub(super) fn render(found: &Findings) -> String {
    let header = ["aim", "verdict", "wanted", "measured"].map(str::to_owned);
    let lines = std::iter::once(header).chain(AIMS.iter().map(|aim| line(aim, found)));
    report::align(&lines.collect::<Vec<_>>())
}

fn line(aim: &Aim, found: &Findings) -> [String; 4] {
    let (word, bound) = match aim.bound {
        Bound::AtMost(bound) => ("<=", bound),
        Bound::AtLeast(bound) => (">=", bound),
    };
    let value = (aim.value)(found);
    let verdict = match value.map(|value| aim.bound.holds(value)) {
        Some(true) => "reached",
        Some(false) => "NOT reached",
        None => "NOT measured",
    };
    [
        aim.what.to_owned(),
        verdict.to_owned(),
        format!("{word} {bound} {}", aim.unit),
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3} {}", aim.unit)),
    ]
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

fn by(found: &Findings, what: &str, measure: &str) -> Option<f64> {
    ratio(found.row(what)?.percentile(50), found.row(measure)?.percentile(50))
}

const fn aim(
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    value: fn(&Findings) -> Option<f64>,
) -> Aim {
    Aim { what, bound, unit, value }
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::*;

    #[test]
    fn reached_missed_and_unmeasured_aims_are_told_apart() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let verdict = |start: &str| {
            let aim = AIMS.iter().find(|aim| aim.what.starts_with(start)).expect("an aim");
            line(aim, &found)[1].clone()
        };
        assert_eq!(verdict("zygote python, p50"), "reached");
        assert_eq!(verdict("docker run"), "NOT measured");
        assert_eq!(verdict("memory per idle"), "reached");
        assert!(!Bound::AtMost(2.0).holds(2.1) && !Bound::AtLeast(2.0).holds(1.9));
    }
}
