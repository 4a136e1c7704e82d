//! Aims of `bench load`.

use super::findings::{Findings, Offered};
use super::plan::{NO_OP, PEER_DOCKER, PEER_INSIDE, PEER_NO_OP, PEER_PYTHON, SKILL};
use crate::bench::aim::{Aim, Bound, aim};

/// All aims. A peer is the better of its variants.
pub(super) const AIMS: &[Aim<Findings>] = &[
    aim("no-op, calls/s by fastapi in process", Bound::AtLeast(2.0), "x", |found| {
        by(found, NO_OP, PEER_NO_OP)
    }),
    aim("skill, calls/s by fastapi + python3", Bound::AtLeast(2.5), "x", |found| {
        by(found, SKILL, PEER_PYTHON)
    }),
    aim("skill, calls/s by fastapi + docker run", Bound::AtLeast(50.0), "x", |found| {
        by(found, SKILL, PEER_DOCKER)
    }),
    aim("skill, p50 above the handler in fastapi's process", Bound::AtMost(1.5), "ms", |found| {
        let millis = |name| Some(found.median(name)?.as_secs_f64() * 1000.0);
        Some(millis(SKILL)? - millis(PEER_INSIDE)?)
    }),
    aim("no-op offered twice, answered by what it can do", Bound::AtLeast(0.8), "x", |found| {
        kept(found, NO_OP)
    }),
    aim("no-op offered twice, p99 by a full queue", Bound::AtMost(3.0), "x", |found| {
        in_queues(found.flood(NO_OP)?)
    }),
    aim("skill offered twice, answered by what it can do", Bound::AtLeast(0.8), "x", |found| {
        kept(found, SKILL)
    }),
    aim("skill offered twice, p99 by a full queue", Bound::AtMost(3.0), "x", |found| {
        in_queues(found.flood(SKILL)?)
    }),
    aim("memory at rest after start (PSS)", Bound::AtMost(60.0), "MB", |found| {
        Some(found.idle.first()?.megabytes())
    }),
    aim("start to ready, p95", Bound::AtMost(0.3), "s", |found| {
        Some(found.starts.as_ref()?.percentile(95).as_secs_f64())
    }),
];

fn by(found: &Findings, ours: &str, peer: &str) -> Option<f64> {
    Some(found.best(ours)?.per_sec / found.best(peer)?.per_sec)
}

fn kept(found: &Findings, name: &str) -> Option<f64> {
    Some(found.flood(name)?.per_sec() / found.best(name)?.per_sec)
}

/// Longest wait in units of full queues: with every connection waiting and served in turn, each waits
/// for this many answers. More than a few times that is starvation.
fn in_queues(flood: &Offered) -> Option<f64> {
    let queue = flood.connections as f64 / flood.per_sec();
    Some(flood.answered.as_ref()?.percentile(99).as_secs_f64() / queue)
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::*;
    use crate::bench::aim;

    #[test]
    fn each_aim_finds_its_rows() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let said: Vec<_> = AIMS.iter().map(|aim| aim::line(aim, &found)[3].clone()).collect();
        let expected = [
            "2.500 x",
            "-",
            "-",
            "1.200 ms",
            "0.000 x",
            "0.000 x",
            "-",
            "-",
            "30.720 MB",
            "0.200 s",
        ];
        assert_eq!(said, expected);
    }
}
