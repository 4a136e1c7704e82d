//! Aims of `bench sandbox`.

use super::aim::{Aim, Bound, aim};
use super::findings::Findings;
use super::measurement::ratio;

/// All aims.
pub(super) const AIMS: &[Aim<Findings>] = &[
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

fn by(found: &Findings, what: &str, measure: &str) -> Option<f64> {
    ratio(found.row(what)?.percentile(50), found.row(measure)?.percentile(50))
}

#[cfg(test)]
mod tests {
    use super::super::{aim, findings};
    use super::*;

    #[test]
    fn each_aim_finds_its_rows() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let verdicts: Vec<_> = AIMS.iter().map(|aim| aim::line(aim, &found)[1].clone()).collect();
        let [unmeasured, reached] = ["NOT measured", "reached"];
        let expected =
            [reached, unmeasured, unmeasured, unmeasured, unmeasured, reached, unmeasured];
        assert_eq!(verdicts, expected);
    }
}
