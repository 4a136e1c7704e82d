//! Memory of the idle service.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use super::{
    findings::{Idle, Weight},
    service::Service,
};
use crate::processes::{Family, weight};

/// Time without a change after which the service counts as idle: pools fill in the background.
const IDLE_PERIOD: Duration = Duration::from_secs(2);
/// Time limit for becoming idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the process tree is idle and measures it.
pub(crate) fn weigh(service: &Service, when: &str) -> Idle {
    let deadline = Instant::now() + IDLE_TIMEOUT;
    let mut last = tree(service.pid());
    let mut since = Instant::now();
    while since.elapsed() < IDLE_PERIOD && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        let now = tree(service.pid());
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Idle { when: when.to_owned(), processes: weights(&last) }
}

fn tree(pid: u32) -> Vec<u32> {
    std::iter::once(pid).chain(Family::read().descendants(pid)).collect()
}

/// Memory by process name, largest first.
fn weights(pids: &[u32]) -> Vec<Weight> {
    let mut found: BTreeMap<String, Weight> = BTreeMap::new();
    for pid in pids {
        let Some((pss, _)) = weight(*pid) else { continue };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        let empty = Weight { name: name.clone(), count: 0, pss_kib: 0 };
        let entry = found.entry(name).or_insert(empty);
        entry.count += 1;
        entry.pss_kib += pss;
    }
    let mut weights: Vec<Weight> = found.into_values().collect();
    weights.sort_by_key(|weight| std::cmp::Reverse(weight.pss_kib));
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_weigh_something_and_the_dead_weigh_nothing() {
        let ours = weights(&[std::process::id(), u32::MAX]);
        assert_eq!(ours.iter().map(|weight| weight.count).sum::<usize>(), 1);
        assert!(ours[0].pss_kib > 0);
    }
}
