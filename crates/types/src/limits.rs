//! What a sandbox may use. Checked as a whole, so that every problem is named at once.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Bytes, InvalidQuantity};

/// A share of processors in thousandths: `Cpus(1500)` is one and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpus(pub u32);

impl Cpus {
    /// Whole processors needed to hold this share; what the program sees as its CPU count.
    pub const fn whole(self) -> u32 {
        self.0.div_ceil(1000)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

impl FromStr for Cpus {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|cpus| (0.01..=4096.0).contains(cpus))
            .map(|cpus| Cpus((cpus * 1000.0).round() as u32))
            .ok_or(InvalidQuantity {
                text: text.into(),
                expected: "a number of CPUs such as 0.5 or 2",
            })
    }
}

/// What one sandbox may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// From hand-over of the program to its end, whatever it does meanwhile.
    pub wall: Duration,
    /// CPU time of the whole sandbox, all processes added up; `None` leaves it to `wall`.
    pub cpu_time: Option<Duration>,
    /// How much processor the sandbox may take while it runs.
    pub cpus: Cpus,
    /// Memory of the whole sandbox, swap and workspace pages included.
    pub memory: Bytes,
    /// Processes and threads together.
    pub processes: u32,
    /// Bytes in workspace, `/tmp` and `/dev/shm` together.
    pub disk: Bytes,
    /// Files and directories in the same place.
    pub inodes: u64,
    /// Open descriptors per process.
    pub open_files: u64,
    /// Bytes kept of each output stream: its head and its tail.
    pub output: Bytes,
    /// Bytes of output, both streams together, after which the program is stopped.
    pub output_total: Option<Bytes>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60),
            cpu_time: None,
            cpus: Cpus(1000),
            memory: Bytes::mib(512),
            processes: 128,
            disk: Bytes::mib(128),
            inodes: 16 * 1024,
            open_files: 1024,
            output: Bytes::mib(8),
            output_total: None,
        }
    }
}

impl Limits {
    /// Refuses limits no sandbox could live in, naming every problem.
    pub fn checked(self) -> Result<Self, InvalidLimits> {
        let year = Duration::from_secs(366 * 86400);
        let rules: [(bool, &'static str, &'static str); 10] = [
            (self.wall >= Duration::from_millis(1), "wall", "must be at least 1ms"),
            (self.wall <= year, "wall", "must be at most a year"),
            (
                self.cpu_time.is_none_or(|cpu| cpu >= Duration::from_millis(10)),
                "cpu_time",
                "must be at least 10ms",
            ),
            (self.cpus.0 >= 10, "cpus", "must be at least 0.01"),
            (self.memory >= Bytes::mib(8), "memory", "must be at least 8M"),
            (self.processes >= 4, "processes", "must be at least 4"),
            (self.disk >= Bytes::kib(64), "disk", "must be at least 64K"),
            (
                self.disk < self.memory,
                "disk",
                "must be below memory: the workspace lives in memory",
            ),
            (self.inodes >= 16, "inodes", "must be at least 16"),
            (self.open_files >= 16, "open_files", "must be at least 16"),
        ];
        let problems: Vec<_> = rules
            .into_iter()
            .filter(|(holds, ..)| !holds)
            .map(|(_, field, rule)| LimitsProblem { field, rule })
            .collect();
        if problems.is_empty() { Ok(self) } else { Err(InvalidLimits { problems }) }
    }
}

/// One field that cannot be honoured, and the rule it breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitsProblem {
    /// The field of [`Limits`].
    pub field: &'static str,
    /// What it would have to be.
    pub rule: &'static str,
}

/// All the problems of one set of limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.problems.iter().map(|p| format!("{} {}", p.field, p.rule)).collect::<Vec<_>>().join("; "))]
pub struct InvalidLimits {
    /// At least one.
    pub problems: Vec<LimitsProblem>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Limits::default().checked(), Ok(Limits::default()));
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let limits = Limits {
            wall: Duration::ZERO,
            memory: Bytes::mib(1),
            processes: 0,
            ..Limits::default()
        };
        let error = limits.checked().expect_err("three problems");
        assert_eq!(
            error.to_string(),
            "wall must be at least 1ms; memory must be at least 8M; processes must be at least 4; \
             disk must be below memory: the workspace lives in memory"
        );
    }

    #[test]
    fn a_share_of_cpus_rounds_up_to_what_the_program_sees() {
        assert_eq!("0.5".parse::<Cpus>().map(Cpus::whole), Ok(1));
        assert_eq!("1.5".parse::<Cpus>().map(Cpus::whole), Ok(2));
        assert!("0".parse::<Cpus>().is_err());
        assert!("NaN".parse::<Cpus>().is_err());
    }
}
