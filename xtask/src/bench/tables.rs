//! Tables of `bench sandbox`.

use std::fmt::Write as _;
use std::time::Duration;

use super::findings::{Findings, Idle, Loop, Row};
use super::measurement::{Measurement, milliseconds, ratio};
use crate::report;

/// Names in the order of the table: reference, Ringfence, peers.
const ORDER: &[&str] = &[
    "bare true",
    "bare python",
    "bare node",
    "cold true",
    "cold bash",
    "cold python",
    "zygote python",
    "zygote python, fork on call",
    "warm node",
    "session exec true",
    "ringfence run true",
    "ringfence run python",
    "bubblewrap true",
    "bubblewrap python",
    "runc true",
    "runc python",
    "docker run true",
    "docker run python",
];

/// Table of single calls.
pub(super) fn latency(found: &Findings) -> String {
    let header = ["what", "runs", "p50 ms", "p95 ms", "x bare", "docker is x", "setup", "run"];
    let mut lines = vec![header.map(str::to_owned)];
    let mut rows: Vec<&Row> = found.rows.iter().collect();
    rows.sort_by_key(|row| place(&row.total.name));
    lines.extend(rows.into_iter().map(|row| latency_line(row, found)));
    let mut table = report::align(&lines);
    for (name, why) in &found.missing {
        let _ = writeln!(table, "SKIPPED {name}: {why}");
    }
    table
}

fn place(name: &str) -> usize {
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

fn latency_line(row: &Row, found: &Findings) -> [String; 8] {
    let Row { total, split } = row;
    let p50 = total.percentile(50);
    let against = |prefix: &str| {
        let other = found.row(&format!("{prefix} {}", kind(&total.name)?))?;
        Some(other.percentile(50))
    };
    let bare = against("bare").and_then(|bare| ratio(p50, bare));
    let docker = against("docker run").and_then(|docker| ratio(docker, p50));
    let part = |pick: fn(&(Measurement, Measurement)) -> &Measurement| {
        let part = split.as_ref().map(pick).map(|part| part.percentile(50));
        part.map_or_else(|| "-".to_owned(), milliseconds)
    };
    [
        total.name.clone(),
        total.runs().to_string(),
        milliseconds(p50),
        milliseconds(total.percentile(95)),
        digits(bare, 2),
        digits(docker, 1),
        part(|split| &split.0),
        part(|split| &split.1),
    ]
}

/// Program of a row, by which its bare counterpart is found.
fn kind(name: &str) -> Option<&'static str> {
    ["true", "python", "node"].into_iter().find(|kind| name.split([' ', ',']).any(|w| w == *kind))
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Table of closed loops.
pub(super) fn throughput(found: &Findings) -> String {
    let header = ["what", "at once", "calls", "calls/s", "x bare python", "CPU ms/call", "machine"];
    let mut lines = vec![header.map(str::to_owned)];
    let mut failed = String::new();
    for entry in &found.loops {
        match &entry.result {
            Ok(_) => lines.push(throughput_line(entry, found)),
            Err(why) => {
                let _ = writeln!(failed, "FAILED {} at {}: {why}", entry.name, entry.concurrency);
            }
        }
    }
    format!("{}{failed}", report::align(&lines))
}

fn throughput_line(entry: &Loop, found: &Findings) -> [String; 7] {
    let Some(pace) = found.pace(&entry.name, entry.concurrency) else {
        return std::array::from_fn(|_| "-".to_owned());
    };
    let bare = found.pace("bare python", entry.concurrency);
    let is_python = kind(&entry.name) == Some("python");
    let by_bare = bare.filter(|_| is_python).map(|bare| pace.calls_per_sec / bare.calls_per_sec);
    [
        entry.name.clone(),
        entry.concurrency.to_string(),
        pace.calls.to_string(),
        format!("{:.1}", pace.calls_per_sec),
        digits(by_bare, 2),
        digits(pace.own_cpu_ms, 2),
        format!("{:.2}", pace.machine_cpu_ms),
    ]
}

/// Table of idle zygote children.
pub(super) fn memory(found: &Findings) -> String {
    let idle = match &found.idle {
        Ok(idle) => idle,
        Err(why) => return format!("SKIPPED: {why}\n"),
    };
    let Idle { members, processes, pss_kib, private_kib, kernel_kib, zygote_pss_kib } = *idle;
    let each = |kib: u64| format!("{:.2} MiB", kib as f64 / 1024.0 / members.max(1) as f64);
    format!(
        "each of {members} idle children ({processes} processes): {} proportional, {} private, {} \
         of its cgroup in the kernel; the zygote, once: {:.2} MiB\n",
        each(pss_kib),
        each(private_kib),
        kernel_kib.map_or_else(|| "unknown".to_owned(), each),
        zygote_pss_kib as f64 / 1024.0
    )
}

/// Duration of the whole run.
pub(super) fn took(duration: Duration) -> String {
    format!("took {:.0} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::*;

    #[test]
    fn every_row_stands_beside_its_measure_and_a_skip_is_loud() {
        let found = findings::parse(findings::tests::EXAMPLE).expect("the example");
        let expected = "\
what           runs  p50 ms  p95 ms  x bare  docker is x  setup    run
bare python    2     10.000  10.000    1.00            -      -      -
zygote python  2      0.500   0.900    0.05            -  0.100  0.400
SKIPPED runc true: no
";
        assert_eq!(latency(&found), expected);
        assert!(throughput(&found).contains("FAILED cold true at 4: broke"));
        assert!(memory(&found).starts_with("each of 4 idle children (8 processes): 1.00 MiB"));
    }

    #[test]
    fn a_row_is_measured_by_what_it_runs() {
        assert_eq!(kind("zygote python, fork on call"), Some("python"));
        assert_eq!(kind("session exec true"), Some("true"));
        assert_eq!(kind("cold bash"), None);
    }
}
