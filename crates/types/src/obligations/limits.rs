//! Caps on the limits of a call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Cpus, Limits, SandboxNetwork};

/// Caps on some limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitCaps {
    /// Seconds of wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Network of the programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<SandboxNetwork>,
    /// Terminals at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminals: Option<u32>,
}

impl LimitCaps {
    /// Limits with the lower value of each pair.
    #[must_use]
    pub fn apply(&self, mut limits: Limits) -> Limits {
        if let Some(secs) = self.wall_secs {
            limits.wall = limits.wall.min(Duration::from_secs(secs));
        }
        if let Some(bytes) = self.memory_bytes {
            limits.memory = limits.memory.min(Bytes(bytes));
        }
        if let Some(millis) = self.cpu_millis {
            limits.cpus = limits.cpus.min(Cpus(millis));
        }
        if let Some(processes) = self.processes {
            limits.processes = limits.processes.min(processes);
        }
        if let Some(network) = self.network {
            limits.network = limits.network.min(network);
        }
        if let Some(terminals) = self.terminals {
            limits.terminals = limits.terminals.min(terminals);
        }
        limits
    }

    /// Caps with the lower value of each pair.
    #[must_use]
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            wall_secs: lower(self.wall_secs, other.wall_secs),
            memory_bytes: lower(self.memory_bytes, other.memory_bytes),
            cpu_millis: lower(self.cpu_millis, other.cpu_millis),
            processes: lower(self.processes, other.processes),
            network: lower(self.network, other.network),
            terminals: lower(self.terminals, other.terminals),
        }
    }
}

fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    super::both(one, other, T::min)
}
