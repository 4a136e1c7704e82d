//! Limits of a sandbox. Checked as a whole, so that every problem is named at once.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Bytes, InvalidQuantity};

/// Share of processors in thousandths: `Cpus(1500)` is one and a half.
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

/// Network of the programs in a sandbox, from less to more. None of them reaches the host or another
/// sandbox.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// No IPv4 or IPv6 sockets; unix sockets only.
    #[default]
    None,
    /// Loopback interface of the sandbox's own: its programs can talk TCP and UDP to each other.
    Loopback,
}

impl SandboxNetwork {
    /// Every kind of network with its name.
    pub const ALL: [(Self, &'static str); 2] = [(Self::None, "none"), (Self::Loopback, "loopback")];

    /// Whether there is no network.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl fmt::Display for SandboxNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(network, _)| network == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for SandboxNetwork {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text.trim());
        found
            .map(|(network, _)| *network)
            .ok_or(InvalidQuantity { text: text.into(), expected: "one of `none` and `loopback`" })
    }
}

/// Limits of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Wall-clock time from hand-over of the program to its end.
    pub wall: Duration,
    /// CPU time of the whole sandbox, all processes added up; `None` leaves it to `wall`.
    pub cpu_time: Option<Duration>,
    /// Processors that the sandbox may use at one time.
    pub cpus: Cpus,
    /// Memory of the whole sandbox, swap and workspace pages included.
    pub memory: Bytes,
    /// Processes and threads together.
    pub processes: u32,
    /// Bytes in workspace, `/tmp` and `/dev/shm` together.
    pub disk: Bytes,
    /// Files and directories in workspace, `/tmp` and `/dev/shm` together.
    pub inodes: u64,
    /// Open descriptors per process.
    pub open_files: u64,
    /// Bytes kept of each output stream: its head and its tail.
    pub output: Bytes,
    /// Bytes of output, both streams together, after which the program is stopped.
    pub output_total: Option<Bytes>,
    /// Network of the programs. Not written when there is none, so that the digests of older
    /// receipts and tools stay the same.
    #[serde(skip_serializing_if = "SandboxNetwork::is_none")]
    pub network: SandboxNetwork,
    /// Terminals at one time, including those of programs that were started with one. Not written
    /// when there are none, for the same reason.
    #[serde(skip_serializing_if = "is_zero")]
    pub terminals: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
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
            // With 128 processes 65 536 files: few enough for several sandboxes below the
            // `fs.file-max` of a small host, and more than interpreters and compilers open.
            open_files: 512,
            output: Bytes::mib(8),
            output_total: None,
            network: SandboxNetwork::None,
            terminals: 0,
        }
    }
}

/// Upper bound of `terminals`: the kernel thread that carries the input of each works outside the
/// sandbox's share of processors.
pub const MAX_TERMINALS: u32 = 16;

impl Limits {
    /// Checks that a sandbox can run within these limits; returns all problems.
    pub fn checked(self) -> Result<Self, InvalidLimits> {
        let year = Duration::from_secs(366 * 86400);
        let rules: [(bool, &'static str, &'static str); 11] = [
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
            (self.terminals <= MAX_TERMINALS, "terminals", "must be at most 16"),
        ];
        let problems: Vec<_> = rules
            .into_iter()
            .filter(|(holds, ..)| !holds)
            .map(|(_, field, rule)| LimitsProblem { field, rule })
            .collect();
        if problems.is_empty() { Ok(self) } else { Err(InvalidLimits { problems }) }
    }
}

/// Invalid field, and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitsProblem {
    /// Field of [`Limits`].
    pub field: &'static str,
    /// Rule for the field.
    pub rule: &'static str,
}

/// All problems of one set of limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.problems.iter().map(|p| format!("{} {}", p.field, p.rule)).collect::<Vec<_>>().join("; "))]
pub struct InvalidLimits {
    /// Problems; at least one.
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
    fn a_network_is_named_and_a_wrong_name_is_answered_with_the_known_ones() {
        for (network, name) in SandboxNetwork::ALL {
            assert_eq!(name.parse(), Ok(network));
            assert_eq!(network.to_string(), name);
            assert_eq!(serde_json::json!(network), name);
        }
        let error = "host".parse::<SandboxNetwork>().expect_err("unknown");
        assert_eq!(error.to_string(), "`host` is not one of `none` and `loopback`");
        assert!(SandboxNetwork::None < SandboxNetwork::Loopback);
    }

    #[test]
    fn limits_without_network_and_terminals_are_written_as_before_there_were_any() {
        let usual = serde_json::to_string(&Limits::default()).expect("limits are JSON");
        assert!(!usual.contains("network") && !usual.contains("terminals"), "{usual}");
        assert_eq!(serde_json::from_str::<Limits>(&usual).ok(), Some(Limits::default()));
        let more = Limits { network: SandboxNetwork::Loopback, terminals: 2, ..Limits::default() };
        let text = serde_json::to_string(&more).expect("limits are JSON");
        assert_eq!(serde_json::from_str::<Limits>(&text).ok(), Some(more));
    }

    #[test]
    fn a_share_of_cpus_rounds_up_to_what_the_program_sees() {
        assert_eq!("0.5".parse::<Cpus>().map(Cpus::whole), Ok(1));
        assert_eq!("1.5".parse::<Cpus>().map(Cpus::whole), Ok(2));
        assert!("0".parse::<Cpus>().is_err());
        assert!("NaN".parse::<Cpus>().is_err());
    }
}
