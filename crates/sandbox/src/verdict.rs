//! Outcome of a program, derived from what was observed.

use std::time::Duration;

use ringfence_jail::cgroup::Stats;
use ringfence_types::{Evidence, Hit, Limit, Limits, Outcome};

use crate::watchdog::Strain;

/// Reason why the service ended the program, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Wall,
    CpuTime,
    Output,
    /// A resource of the host was nearly exhausted.
    Host,
    Cancelled,
}

/// Observations about the end of a program.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) stopped: Option<Stopped>,
    /// Exhausted resource of the host, if that is why it was stopped.
    pub(crate) strain: Option<Strain>,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The init ended without a message.
    pub(crate) init_died: bool,
    pub(crate) stats: Stats,
    /// Free bytes and files of the workspace.
    pub(crate) space_left: Option<(u64, u64)>,
    /// Errno of the error that ended an interpreted program.
    pub(crate) errno: Option<i32>,
    /// Type name of that error.
    pub(crate) error_type: Option<String>,
    pub(crate) wall: Duration,
    pub(crate) output: u64,
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// First explanation that the evidence supports. Actions of the service come first, except where
/// memory ran out and nothing could be killed for it: such a program waits until we stop it. Then
/// actions of the kernel, then limits that a failing program met; a successful program met none.
pub(crate) fn outcome(seen: &Observed, limits: &Limits) -> Outcome {
    if seen.stopped == Some(Stopped::Cancelled) {
        return Outcome::Cancelled;
    }
    if seen.code == Some(0) && seen.stopped.is_none() {
        return Outcome::Exited { code: 0 };
    }
    if let Some(limit) = met(seen, limits) {
        return Outcome::OverLimit(hit(limit, seen, limits));
    }
    match (seen.code, seen.signal) {
        (Some(code), _) => Outcome::Exited { code },
        (None, Some(signal)) => Outcome::Signaled { signal },
        (None, None) => Outcome::Signaled { signal: SIGKILL },
    }
}

fn met(seen: &Observed, limits: &Limits) -> Option<Limit> {
    let killed = seen.signal == Some(SIGKILL) || seen.init_died || seen.code == Some(137);
    let out_of_memory = seen.stats.oom_kills.is_some_and(|kills| kills > 0);
    let starved = !out_of_memory && seen.stats.ooms.is_some_and(|times| times > 0);
    let refused = seen.stats.pids_refused.is_some_and(|times| times > 0);
    let full = |left: Option<u64>| left == Some(0);
    let error = |name: &str| seen.error_type.as_deref() == Some(name);
    let checks = [
        (starved, Limit::Memory),
        (seen.stopped == Some(Stopped::Wall), Limit::Wall),
        (seen.stopped == Some(Stopped::CpuTime), Limit::CpuTime),
        (seen.stopped == Some(Stopped::Output), Limit::Output),
        (seen.stopped == Some(Stopped::Host), Limit::Host),
        (out_of_memory && killed, Limit::Memory),
        (error("MemoryError"), Limit::Memory),
        (seen.signal == Some(SIGXCPU) && limits.cpu_time.is_some(), Limit::CpuTime),
        (seen.signal == Some(SIGXFSZ), Limit::Disk),
        (out_of_memory, Limit::Memory),
        (matches!(seen.errno, Some(EMFILE | ENFILE)), Limit::OpenFiles),
        (refused, Limit::Processes),
        (full(seen.space_left.map(|(bytes, _)| bytes)), Limit::Disk),
        (full(seen.space_left.map(|(_, files)| files)), Limit::Inodes),
        (seen.errno == Some(ENOSPC), Limit::Disk),
    ];
    checks.into_iter().find(|(holds, _)| *holds).map(|(_, limit)| limit)
}

fn hit(limit: Limit, seen: &Observed, limits: &Limits) -> Hit {
    if limit == Limit::Host {
        return host_hit(seen);
    }
    let (allowed, flag) = match limit {
        Limit::Wall => (format!("{:?}", limits.wall), "--timeout"),
        Limit::CpuTime => {
            (limits.cpu_time.map_or("none".into(), |t| format!("{t:?}")), "--cpu-time")
        }
        Limit::Memory => (limits.memory.to_string(), "--memory"),
        Limit::Processes => (limits.processes.to_string(), "--pids"),
        Limit::Disk => (limits.disk.to_string(), "--disk"),
        Limit::Inodes => (limits.inodes.to_string(), "--inodes"),
        Limit::OpenFiles => (limits.open_files.to_string(), "--open-files"),
        Limit::Output | Limit::Host => {
            (limits.output_total.map_or("none".into(), |b| b.to_string()), "--output-total")
        }
    };
    let hint = format!("raise {flag} (now {allowed}) or make the program use less");
    Hit { limit, allowed, evidence: evidence(limit, seen), hint }
}

/// Result of a program ended by the watchdog: no limit of the program's own was met.
fn host_hit(seen: &Observed) -> Hit {
    let strain = seen.strain.as_ref();
    Hit {
        limit: Limit::Host,
        allowed: strain.map_or_else(String::new, |strain| strain.allowed.clone()),
        evidence: strain.map_or_else(Vec::new, |strain| strain.evidence.clone()),
        hint: strain.map_or_else(String::new, |strain| strain.hint.clone()),
    }
}

fn evidence(limit: Limit, seen: &Observed) -> Vec<Evidence> {
    let stats = &seen.stats;
    let sources = &stats.sources;
    let count = |source: &str, value: Option<u64>| {
        value.map(|value| (source.to_owned(), value.to_string()))
    };
    let seconds = |source: &str, value: Option<Duration>| {
        value.map(|value| (source.to_owned(), format!("{:.3}s", value.as_secs_f64())))
    };
    let found = match limit {
        Limit::Wall => vec![
            seconds("wall clock", Some(seen.wall)),
            seconds(sources.cpu_total, stats.cpu_total),
            count(sources.pids_refused, stats.pids_refused.filter(|times| *times > 0)),
            count(sources.oom_kills, stats.oom_kills.filter(|kills| *kills > 0)),
        ],
        Limit::CpuTime => vec![seconds(sources.cpu_total, stats.cpu_total)],
        Limit::Memory => vec![
            count(sources.oom_kills, stats.oom_kills),
            count(sources.ooms, stats.ooms),
            count(sources.memory_peak, stats.memory_peak),
            count(sources.memory_failures, stats.memory_failures),
        ],
        Limit::Processes => vec![
            count(sources.pids_refused, stats.pids_refused),
            count(sources.pids_peak, stats.pids_peak),
        ],
        Limit::Disk => vec![
            count("workspace bytes left", seen.space_left.map(|(bytes, _)| bytes)),
            count("errno", seen.errno.map(|errno| errno as u64)),
            count("signal", seen.signal.map(|signal| signal as u64)),
        ],
        Limit::Inodes => {
            vec![count("workspace files left", seen.space_left.map(|(_, files)| files))]
        }
        Limit::OpenFiles => vec![count("errno", seen.errno.map(|errno| errno as u64))],
        Limit::Output => vec![count("bytes written", Some(seen.output))],
        Limit::Host => Vec::new(),
    };
    found.into_iter().flatten().map(|(source, value)| Evidence { source, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: Observed, expected: &str) {
        let said = match outcome(&seen, &Limits::default()) {
            Outcome::Exited { code } => format!("exited {code}"),
            Outcome::Signaled { signal } => format!("signal {signal}"),
            Outcome::OverLimit(hit) => format!("over {:?}", hit.limit),
            Outcome::Cancelled => "cancelled".to_owned(),
        };
        assert_eq!(said, expected, "{seen:?}");
    }

    fn stats(oom: u64, refused: u64) -> Stats {
        Stats { oom_kills: Some(oom), pids_refused: Some(refused), ..Stats::default() }
    }

    #[test]
    fn a_program_that_ended_well_met_no_limit() {
        check(Observed { code: Some(0), stats: stats(1, 9), ..Observed::default() }, "exited 0");
    }

    #[test]
    fn a_kill_is_a_memory_verdict_only_with_the_kernel_s_evidence() {
        let kill = || Observed { signal: Some(SIGKILL), ..Observed::default() };
        check(Observed { stats: stats(1, 0), ..kill() }, "over Memory");
        check(Observed { stats: stats(0, 0), ..kill() }, "signal 9");
    }

    #[test]
    fn memory_that_ran_out_without_a_kill_is_the_memory_limit() {
        let stats = |oom_kills| Stats { ooms: Some(3), ..stats(oom_kills, 0) };
        let waited = || Observed { stopped: Some(Stopped::Wall), ..Observed::default() };
        check(Observed { stats: stats(0), ..waited() }, "over Memory");
        check(Observed { stats: stats(0), code: Some(1), ..Observed::default() }, "over Memory");
        // A process was killed and the rest went on, so memory is not what it waited for.
        check(Observed { stats: stats(1), ..waited() }, "over Wall");
        check(Observed { stats: stats(0), code: Some(0), ..Observed::default() }, "exited 0");
    }

    #[test]
    fn what_we_did_ourselves_explains_the_end_first() {
        let wall = Observed {
            stopped: Some(Stopped::Wall),
            signal: Some(SIGKILL),
            stats: stats(1, 5),
            ..Observed::default()
        };
        check(wall, "over Wall");
        let cancelled = Observed { stopped: Some(Stopped::Cancelled), ..Observed::default() };
        check(cancelled, "cancelled");
    }

    #[test]
    fn a_failing_program_is_told_which_wall_it_ran_into() {
        let failed = || Observed { code: Some(1), ..Observed::default() };
        check(failed(), "exited 1");
        check(Observed { stats: stats(0, 3), ..failed() }, "over Processes");
        check(Observed { space_left: Some((0, 10)), ..failed() }, "over Disk");
        check(Observed { space_left: Some((10, 0)), ..failed() }, "over Inodes");
        check(Observed { errno: Some(EMFILE), ..failed() }, "over OpenFiles");
    }
}
