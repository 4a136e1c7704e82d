//! Health of sandbox set-up on this host.
//!
//! A kernel can get into a state in which every process that sets a sandbox up hangs in a system
//! call and cannot be killed; each attempt leaves one more behind, until the host is restarted. So
//! after a few in a row no more are made, except one from time to time to see whether the kernel
//! has recovered.
//!
//! Pure except for the lock: time and process ids are arguments.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Time limits of setting up, and what follows if it does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetupRules {
    /// Time limit for an answer of a helper, and for the lock-down of a sandbox.
    pub timeout: Duration,
    /// Time limit for all stages of one set-up together, the wait for a slot included. Set-up does
    /// not count against a program's own time limit.
    pub total_timeout: Duration,
    /// Time limit for the end of a killed process.
    pub kill_timeout: Duration,
    /// Number of set-ups in a row that neither finish nor die, after which no more are made.
    pub max_hanging: u32,
    /// Interval of the attempts to find out whether the host has recovered.
    pub probe_interval: Duration,
}

impl Default for SetupRules {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(60),
            kill_timeout: Duration::from_secs(5),
            max_hanging: 3,
            probe_interval: Duration::from_secs(15),
        }
    }
}

/// Duration from which a stage of a set-up is logged.
const SLOW_STAGE: Duration = Duration::from_secs(1);

/// Timer of one stage of a set-up. On drop, at the end of the stage or because the caller stopped
/// waiting, a slow stage is logged.
#[derive(Debug)]
pub(crate) struct SetupTimer {
    stage: &'static str,
    begun: Instant,
}

impl SetupTimer {
    pub(crate) fn begin(stage: &'static str) -> Self {
        Self { stage, begun: Instant::now() }
    }
}

impl Drop for SetupTimer {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        if took >= SLOW_STAGE {
            tracing::warn!(stage = self.stage, ?took, "slow sandbox set-up");
        }
    }
}

/// Reason why no sandbox is made at the moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this host cannot make sandboxes: {}", self.reason())]
pub struct Unavailable {
    /// Number of set-ups in a row that hang or failed.
    pub in_a_row: u32,
    /// Processes that do not die.
    pub processes: Vec<i32>,
    /// Last failure, if set-ups fail instead of hanging. Calls are still tried.
    pub failure: Option<String>,
}

impl Unavailable {
    fn reason(&self) -> String {
        let in_a_row = self.in_a_row;
        match &self.failure {
            Some(failure) => format!("the last {in_a_row} set-ups failed: {failure}"),
            None => format!(
                "{in_a_row} set-ups in a row neither finished nor died when killed; hanging \
                 processes: {}",
                list(&self.processes, ", ")
            ),
        }
    }

    /// Next step for an operator.
    pub fn hint(&self) -> String {
        match &self.failure {
            Some(_) => "run `ringfence doctor` on the host; it tries a sandbox".to_owned(),
            None => format!(
                "restart the host if they do not end by themselves; `ps -o \
                 pid,stat,wchan:32,args -p {}` shows where the kernel holds them",
                list(&self.processes, ",")
            ),
        }
    }
}

fn list(processes: &[i32], between: &str) -> String {
    processes.iter().map(i32::to_string).collect::<Vec<_>>().join(between)
}

/// Record of the set-ups of this service.
#[derive(Debug)]
pub(crate) struct SetupHealth {
    pub(crate) rules: SetupRules,
    state: Mutex<HealthState>,
}

#[derive(Debug, Default)]
struct HealthState {
    in_a_row: u32,
    hanging: BTreeSet<i32>,
    /// Set when too many hang: no more sandboxes are made.
    is_closed: bool,
    /// Number of set-ups in a row that failed because of the service, with the last failure.
    failures: u32,
    failure: String,
    /// Time of the next probe; `None` while no probe is needed.
    next_probe: Option<Instant>,
}

impl SetupHealth {
    pub(crate) fn new(rules: SetupRules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// Refuses while no sandboxes are made.
    pub(crate) fn check(&self) -> Result<(), Unavailable> {
        let state = self.lock();
        if !state.is_closed {
            return Ok(());
        }
        let processes = state.hanging.iter().copied().collect();
        Err(Unavailable { in_a_row: state.in_a_row, processes, failure: None })
    }

    /// Like [`SetupHealth::check`], and also an error if the last set-ups all failed.
    pub(crate) fn report(&self) -> Result<(), Unavailable> {
        self.check()?;
        let state = self.lock();
        if state.failures < self.rules.max_hanging {
            return Ok(());
        }
        let failure = Some(state.failure.clone());
        Err(Unavailable { in_a_row: state.failures, processes: Vec::new(), failure })
    }

    /// Records a set-up that failed for a reason other than the request.
    pub(crate) fn failed(&self, failure: String, now: Instant) {
        let mut state = self.lock();
        state.failures += 1;
        state.failure = failure;
        if state.failures >= self.rules.max_hanging {
            state.next_probe.get_or_insert(now + self.rules.probe_interval);
        }
    }

    /// Whether to probe now; the next probe is an interval later.
    pub(crate) fn take_probe(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let is_due = state.next_probe.is_some_and(|at| now >= at);
        if is_due {
            state.next_probe = Some(now + self.rules.probe_interval);
        }
        is_due
    }

    /// Records a finished lock-down.
    pub(crate) fn finished(&self) {
        let mut state = self.lock();
        if state.in_a_row > 0 || state.failures > 0 {
            state.in_a_row = 0;
            state.failures = 0;
            reopen(&mut state, "a sandbox could be set up");
        }
    }

    /// Records a process that was to set up a sandbox and neither finished nor died.
    pub(crate) fn hangs(&self, process: i32, now: Instant) {
        let mut state = self.lock();
        state.in_a_row += 1;
        state.hanging.insert(process);
        tracing::error!(process, "a process that sets up a sandbox hangs and cannot be killed");
        if state.in_a_row >= self.rules.max_hanging && !state.is_closed {
            state.is_closed = true;
            state.next_probe.get_or_insert(now + self.rules.probe_interval);
            tracing::error!(
                hint = "restart the host if the processes do not end",
                "no more sandboxes are made: set-ups neither finish nor die when killed"
            );
        }
    }

    /// Records the end of a process that hung.
    pub(crate) fn died(&self, process: i32) {
        let mut state = self.lock();
        state.hanging.remove(&process);
        state.in_a_row = state.in_a_row.min(state.hanging.len() as u32);
        if state.hanging.is_empty() && state.is_closed {
            reopen(&mut state, "the processes that hung have died");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reopen(state: &mut HealthState, why: &str) {
    state.next_probe = None;
    if std::mem::take(&mut state.is_closed) {
        tracing::warn!("sandboxes are made again: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (SetupHealth, Instant) {
        (SetupHealth::new(SetupRules::default()), Instant::now())
    }

    fn hang(health: &SetupHealth, processes: &[i32], now: Instant) {
        processes.iter().for_each(|process| health.hangs(*process, now));
    }

    #[test]
    fn three_in_a_row_that_hang_close_it_and_two_do_not() {
        let (health, now) = health();
        hang(&health, &[7, 8], now);
        assert_eq!(health.check(), Ok(()));
        hang(&health, &[9], now);
        let why = health.check().expect_err("closed");
        let expected = Unavailable { in_a_row: 3, processes: vec![7, 8, 9], failure: None };
        assert_eq!(why, expected);
        assert!(why.hint().contains("-p 7,8,9"), "{}", why.hint());
    }

    #[test]
    fn a_set_up_that_finishes_starts_the_count_anew_and_opens_it() {
        let (health, now) = health();
        hang(&health, &[7, 8], now);
        health.finished();
        hang(&health, &[9, 10], now);
        assert_eq!(health.check(), Ok(()), "never three in a row");
        hang(&health, &[11], now);
        assert!(health.check().is_err());
        health.finished();
        assert_eq!(health.check(), Ok(()), "a probe succeeded though the old ones hang");
    }

    #[test]
    fn it_opens_when_the_last_one_that_hung_has_died() {
        let (health, now) = health();
        hang(&health, &[7, 8, 9], now);
        health.died(7);
        health.died(9);
        assert!(health.check().is_err());
        health.died(8);
        assert_eq!(health.check(), Ok(()));
        hang(&health, &[10, 11], now);
        assert_eq!(health.check(), Ok(()), "the count began anew");
    }

    #[test]
    fn set_ups_that_all_fail_are_told_of_and_still_tried() {
        let (health, now) = health();
        for number in 0..3 {
            assert_eq!(health.report(), Ok(()), "{number}");
            health.failed("cgroup".to_owned(), now);
        }
        let why = health.report().expect_err("three in a row");
        assert!(why.to_string().ends_with("the last 3 set-ups failed: cgroup"), "{why}");
        assert_eq!(health.check(), Ok(()));
        assert!(health.take_probe(now + health.rules.probe_interval), "it recovers by itself");
        health.finished();
        assert_eq!(health.report(), Ok(()));
        assert!(!health.take_probe(now + health.rules.probe_interval));
    }

    #[test]
    fn one_probe_is_made_per_interval_and_only_while_it_is_closed() {
        let (health, now) = health();
        let later = now + health.rules.probe_interval;
        assert!(!health.take_probe(later));
        hang(&health, &[7, 8, 9], now);
        assert!(!health.take_probe(now));
        assert!(health.take_probe(later));
        assert!(!health.take_probe(later), "one per interval");
        assert!(health.take_probe(later + health.rules.probe_interval));
    }
}
