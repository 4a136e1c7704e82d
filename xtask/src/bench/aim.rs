//! Aim of a benchmark, and whether a run reached it.

use crate::report;

/// Aim over the findings `F` of a benchmark.
pub(super) struct Aim<F> {
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    value: fn(&F) -> Option<f64>,
}

#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

pub(super) const fn aim<F>(
    what: &'static str,
    bound: Bound,
    unit: &'static str,
    value: fn(&F) -> Option<f64>,
) -> Aim<F> {
    Aim { what, bound, unit, value }
}

/// Table of aims, reached and missed.
pub(super) fn render<F>(aims: &[Aim<F>], found: &F) -> String {
    let header = ["aim", "verdict", "wanted", "measured"].map(str::to_owned);
    let lines = std::iter::once(header).chain(aims.iter().map(|aim| line(aim, found)));
    report::align(&lines.collect::<Vec<_>>())
}

/// Description, result, bound and value of an aim.
pub(super) fn line<F>(aim: &Aim<F>, found: &F) -> [String; 4] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reached_missed_and_unmeasured_aims_are_told_apart() {
        let of = |bound| aim("x", bound, "ms", |value: &Option<f64>| *value);
        assert_eq!(line(&of(Bound::AtMost(2.0)), &Some(2.0))[1], "reached");
        assert_eq!(line(&of(Bound::AtMost(2.0)), &Some(2.1))[1], "NOT reached");
        assert_eq!(line(&of(Bound::AtLeast(2.0)), &Some(1.9))[1], "NOT reached");
        assert_eq!(line(&of(Bound::AtLeast(2.0)), &None), ["x", "NOT measured", ">= 2 ms", "-"]);
    }
}
