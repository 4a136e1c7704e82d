//! Closed loops: concurrent connections, each repeating its request as soon as it was answered.

use anyhow::Result;

use super::{
    findings::{Failed, Loop},
    plan::{Plan, Row},
    service::Service,
    target::Target,
    usage, wrk,
};

/// Runs every row at every number of connections, in rounds, so that noise affects all alike. A row
/// that failed once is not run again.
pub(crate) fn measure(plan: &Plan, rows: &[(&Row, &Service)]) -> (Vec<Loop>, Vec<Failed>) {
    let (mut loops, mut failed) = (Vec::new(), Vec::<Failed>::new());
    for round in 0..plan.rounds {
        for (row, service) in rows {
            for &connections in &row.connections {
                if failed.iter().any(|failed| failed.what == row.name) {
                    continue;
                }
                eprintln!("round {}: {} at {connections}", round + 1, row.name);
                match one(plan, row, service, connections) {
                    Ok(found) => loops.push(found),
                    Err(error) => failed.push(super::failed(&row.name, &error)),
                }
            }
        }
    }
    (loops, failed)
}

fn one(plan: &Plan, row: &Row, service: &Service, connections: usize) -> Result<Loop> {
    let target = Target::of(row, service);
    let before = usage::read(service);
    let report = wrk::run(&plan.wrk, &plan.scratch, &target, connections, plan.loop_secs)?;
    let used = usage::read(service).since(&before);
    Ok(Loop {
        name: row.name.clone(),
        connections,
        calls: report.calls,
        secs: report.duration_us as f64 / 1e6,
        wrong: report.wrong,
        p50_us: report.p50_us,
        p99_us: report.p99_us,
        used,
    })
}

/// Capacity of a row: the best of the medians of the rounds at each number of connections.
pub(crate) fn capacity(loops: &[Loop], row: &Row) -> Option<f64> {
    let rates = row.connections.iter().filter_map(|&connections| {
        let is_it = |found: &&Loop| found.name == row.name && found.connections == connections;
        let rounds = loops.iter().filter(is_it);
        median(rounds.map(|found| (found.calls - found.wrong) as f64 / found.secs).collect())
    });
    rates.reduce(f64::max)
}

/// Median; the lower one of two in the middle.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_numbers() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![2.0, 1.0]), Some(1.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn capacity_is_the_best_of_the_medians_without_what_went_wrong() {
        let found = |connections, calls, wrong| Loop {
            name: "x".to_owned(),
            connections,
            calls,
            secs: 2.0,
            wrong,
            p50_us: 0,
            p99_us: 0,
            used: Default::default(),
        };
        let text = r#"{"name":"x","service":"s","path":"/","body":"","answer":{},"mark":"",
                       "connections":[1,8],"rate":1.0,"flood":null}"#;
        let row: Row = serde_json::from_str(text).expect("a row");
        let loops = [found(1, 100, 0), found(8, 400, 100), found(8, 5000, 0), found(8, 200, 0)];
        assert_eq!(capacity(&loops, &row), Some(150.0));
        assert_eq!(capacity(&[], &row), None);
    }
}
