//! Tables of `bench load`.

use std::fmt::Write as _;

use super::findings::{Findings, Offered, Pace, count};
use super::plan::{NO_OP, PEER_INSIDE, PEER_NO_OP, SKILL};
use crate::bench::measurement::{Measurement, milliseconds};
use crate::report;

/// Closed loops. `ours is x`: calls of the best Ringfence loop of the kind, as a multiple.
pub(super) fn closed(found: &Findings) -> String {
    let header = [
        "what",
        "connections",
        "calls",
        "calls/s",
        "ours is x",
        "p50 ms",
        "p99 ms",
        "wrong",
        "CPU ms/call",
        "generator",
        "machine",
    ];
    let line = |pace: &Pace| {
        let ours = found.best(counterpart(&pace.name)).map(|ours| ours.per_sec / pace.per_sec);
        [
            pace.name.clone(),
            pace.connections.to_string(),
            pace.calls.to_string(),
            format!("{:.1}", pace.per_sec),
            digits(ours, 2),
            format!("{:.3}", pace.p50_ms),
            format!("{:.3}", pace.p99_ms),
            pace.wrong.to_string(),
            digits(pace.each.service, 3),
            format!("{:.3}", pace.each.generator),
            format!("{:.3}", pace.each.machine),
        ]
    };
    let mut table = table(header, found.paces.iter().map(line));
    for (name, why) in &found.missing {
        let _ = writeln!(table, "SKIPPED {name}: {why}");
    }
    table
}

/// Row of Ringfence that does the same.
fn counterpart(name: &str) -> &'static str {
    if name == NO_OP || name.starts_with(PEER_NO_OP) { NO_OP } else { SKILL }
}

/// Runs at a rate that every service can serve.
pub(super) fn paced(found: &Findings) -> String {
    let header =
        ["what", "a second", "answered", "p50 ms", "p99 ms", "max ms", "p50 above (a)", "not"];
    let line = |row: &Offered| {
        let peer = match counterpart(&row.name) {
            NO_OP => PEER_NO_OP,
            _ => PEER_INSIDE,
        };
        let own = row.answered.as_ref().map(|answered| answered.percentile(50).as_secs_f64());
        let above = own.zip(found.median(peer)).map(|(own, peer)| own - peer.as_secs_f64());
        [
            row.name.clone(),
            row.rate.to_string(),
            count(row.answered.as_ref()).to_string(),
            percentile(row.answered.as_ref(), 50),
            percentile(row.answered.as_ref(), 99),
            percentile(row.answered.as_ref(), 100),
            digits(above.map(|secs| secs * 1000.0), 3),
            not_answered(row).to_string(),
        ]
    };
    table(header, found.paced.iter().map(line))
}

fn not_answered(row: &Offered) -> u64 {
    row.wrong + row.lost + row.unsent + count(row.refused.as_ref()) as u64
}

/// Runs at twice the capacity.
pub(super) fn floods(found: &Findings) -> String {
    let header = [
        "what",
        "connections",
        "offered/s",
        "answered/s",
        "of capacity",
        "refused",
        "not sent",
        "wrong",
        "lost",
        "p50 ms",
        "p99 ms",
        "1st half",
        "2nd half",
    ];
    let line = |row: &Offered| {
        let capacity = found.best(&row.name).map(|best| row.per_sec() / best.per_sec);
        [
            row.name.clone(),
            row.connections.to_string(),
            format!("{:.0}", row.rate),
            format!("{:.1}", row.per_sec()),
            digits(capacity, 2),
            count(row.refused.as_ref()).to_string(),
            row.unsent.to_string(),
            row.wrong.to_string(),
            row.lost.to_string(),
            percentile(row.answered.as_ref(), 50),
            percentile(row.answered.as_ref(), 99),
            percentile(row.halves[0].as_ref(), 99),
            percentile(row.halves[1].as_ref(), 99),
        ]
    };
    table(header, found.floods.iter().map(line))
}

/// CPU per call in the best loop of each row, and of Ringfence by thread.
pub(super) fn usage(found: &Findings) -> String {
    let header = [
        "ms per call",
        "connections",
        "service",
        "its process: user",
        "system",
        "what it started",
        "generator",
        "machine",
        "KiB written",
    ];
    let is_best = |pace: &&Pace| found.best(&pace.name).is_some_and(|best| best == *pace);
    let line = |pace: &Pace| {
        let each = &pace.each;
        let started = each.service.map(|service| (service - each.user - each.system).max(0.0));
        [
            pace.name.clone(),
            pace.connections.to_string(),
            digits(each.service, 3),
            format!("{:.3}", each.user),
            format!("{:.3}", each.system),
            digits(started, 3),
            format!("{:.3}", each.generator),
            format!("{:.3}", each.machine),
            format!("{:.2}", each.written_kib),
        ]
    };
    let best: Vec<&Pace> = found.paces.iter().filter(is_best).collect();
    let mut text = table(header, best.iter().map(|pace| line(pace)));
    for pace in best.iter().filter(|pace| [NO_OP, SKILL].contains(&pace.name.as_str())) {
        let threads = pace.each.threads.iter().map(|(name, ms)| format!("{name} {ms:.3}"));
        let threads: Vec<_> = threads.collect();
        let _ = writeln!(text, "{} by thread: {}", pace.name, threads.join(", "));
    }
    text
}

/// Commits per second of plain SQLite with one writer.
pub(super) fn sqlite(found: &Findings) -> String {
    let ours = found.best(NO_OP).map(|pace| pace.per_sec);
    let line = |(batch, rows): &(u64, f64)| {
        let by = ours.map(|ours| ours / rows);
        [batch.to_string(), String::new(), format!("{rows:.0}"), digits(by, 2)]
    };
    table(["rows per commit", "", "rows/s", "our no-op calls by it"], found.sqlite.iter().map(line))
}

/// Start and memory.
pub(super) fn rest(found: &Findings) -> String {
    let mut text = String::new();
    if let Some(starts) = &found.starts {
        let [p50, p95, most] = [50, 95, 100].map(|at| milliseconds(starts.percentile(at)));
        let runs = starts.runs();
        let _ = writeln!(
            text,
            "start to ready, {runs} starts: p50 {p50} ms, p95 {p95} ms, longest {most} ms"
        );
    }
    for idle in &found.idle {
        let parts = idle
            .processes
            .iter()
            .map(|(name, count, kib)| format!("{count} {name} {:.1}", *kib as f64 * 1024.0 / 1e6));
        let parts: Vec<_> = parts.collect();
        let all = idle.megabytes();
        let _ = writeln!(text, "memory {}: {all:.1} MB ({})", idle.when, parts.join(", "));
    }
    text
}

fn table<const N: usize>(header: [&str; N], lines: impl Iterator<Item = [String; N]>) -> String {
    let header = header.map(str::to_owned);
    report::align(&std::iter::once(header).chain(lines).collect::<Vec<_>>())
}

fn percentile(samples: Option<&Measurement>, percent: usize) -> String {
    samples.map_or_else(|| "-".to_owned(), |samples| milliseconds(samples.percentile(percent)))
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::*;

    #[test]
    fn every_row_stands_beside_ours_and_a_skip_is_loud() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let text = closed(&found);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
            .collect();
        let ours = ["ringfence no-op", "64", "50000", "10000.0", "1.00", "4.000", "10.000", "2000"];
        assert_eq!(lines[1][..8], ours);
        assert_eq!(lines[2][..5], ["fastapi no-op, 1 worker", "64", "8000", "4000.0", "2.50"]);
        assert_eq!(lines[3], ["SKIPPED fastapi + docker run, 2 workers: no"]);
    }

    #[test]
    fn what_a_flood_met_is_told_in_full() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let text = floods(&found);
        let line: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        let expected = [
            "ringfence",
            "no-op",
            "512",
            "20000",
            "1.5",
            "0.00",
            "1",
            "30",
            "1",
            "2",
            "70.000",
            "80.000",
            "70.000",
            "80.000",
        ];
        assert_eq!(line, expected);
        assert!(paced(&found).lines().nth(1).is_some_and(|line| line.contains("1.200")));
    }

    #[test]
    fn rest_and_usage_are_told_in_parts() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let expected = "start to ready, 2 starts: p50 100.000 ms, p95 200.000 ms, longest 200.000 ms\n\
                        memory after start: 30.7 MB (1 ringfence 20.5, 3 python3 10.2)\n";
        assert_eq!(rest(&found), expected);
        assert!(usage(&found).ends_with("ringfence no-op by thread: b 0.040, a 0.010\n"));
        assert!(sqlite(&found).contains("0.25"));
    }
}
