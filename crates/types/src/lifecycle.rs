//! Lifecycle of a tool version: everything that can become of it, as a table.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Status of one version of a tool. Only an active one can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Found by a search; nothing was asked of a person yet.
    Discovered,
    /// Waits for a person's decision.
    Proposed,
    /// Approved with its grants; not set up yet.
    Approved,
    /// Set up; not switched on yet.
    Installed,
    /// Can be called.
    Active,
    /// Switched off for a while.
    Disabled,
    /// Its source offers something else under the same name.
    Quarantined,
    /// Withdrawn, or rejected before it was approved.
    Revoked,
}

/// Event in the lifecycle of a tool version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleEvent {
    /// A person is asked for a decision.
    Propose,
    /// A person approves it with grants.
    Approve,
    /// It is set up.
    Install,
    /// It is switched on.
    Enable,
    /// It is switched off.
    Disable,
    /// Its source changed.
    Quarantine,
    /// It is withdrawn or rejected.
    Revoke,
}

/// Event that is invalid for this status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tool that is {status} cannot take `{event}`")]
pub struct IllegalTransition {
    /// The status.
    pub status: ToolStatus,
    /// The event.
    pub event: LifecycleEvent,
}

/// Unknown name of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a status of a tool: discovered, proposed, approved, installed, active, disabled, \
     quarantined or revoked"
)]
pub struct UnknownStatus;

impl ToolStatus {
    /// All statuses, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Discovered,
        Self::Proposed,
        Self::Approved,
        Self::Installed,
        Self::Active,
        Self::Disabled,
        Self::Quarantined,
        Self::Revoked,
    ];

    /// The next status. Pure: it is recorded before it counts.
    pub const fn on(self, event: LifecycleEvent) -> Result<Self, IllegalTransition> {
        use LifecycleEvent as E;
        use ToolStatus as S;
        Ok(match (self, event) {
            // A version that was withdrawn can be asked for again, and is decided anew.
            (S::Discovered | S::Revoked, E::Propose) => S::Proposed,
            (S::Proposed | S::Quarantined, E::Approve) => S::Approved,
            (S::Approved, E::Install) => S::Installed,
            (S::Installed | S::Disabled, E::Enable) => S::Active,
            (S::Active, E::Disable) => S::Disabled,
            (S::Approved | S::Installed | S::Active | S::Disabled, E::Quarantine) => S::Quarantined,
            (
                S::Discovered
                | S::Proposed
                | S::Approved
                | S::Installed
                | S::Active
                | S::Disabled
                | S::Quarantined,
                E::Revoke,
            ) => S::Revoked,
            (status, event) => return Err(IllegalTransition { status, event }),
        })
    }

    /// Whether a version with this status can be called.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active)
    }

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Installed => "installed",
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Quarantined => "quarantined",
            Self::Revoked => "revoked",
        }
    }
}

impl fmt::Display for ToolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ToolStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL.into_iter().find(|status| status.name() == text).ok_or(UnknownStatus)
    }
}

impl LifecycleEvent {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::Propose,
        Self::Approve,
        Self::Install,
        Self::Enable,
        Self::Disable,
        Self::Quarantine,
        Self::Revoke,
    ];

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Propose => "propose",
            Self::Approve => "approve",
            Self::Install => "install",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Quarantine => "quarantine",
            Self::Revoke => "revoke",
        }
    }
}

impl fmt::Display for LifecycleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_of_statuses_and_events() {
        let mut matrix = String::new();
        for event in LifecycleEvent::ALL {
            matrix += &format!("{event}\n");
            for status in ToolStatus::ALL {
                let after = status.on(event).map_or("-", ToolStatus::name);
                matrix += &format!("  {:<11} -> {after}\n", status.name());
            }
        }
        expect_test::expect_file!["lifecycle.txt"].assert_eq(&matrix);
    }

    #[test]
    fn no_way_to_active_goes_around_an_approval() {
        // Every status that is reached without `approve` from the beginning.
        let mut reached = vec![ToolStatus::Discovered];
        let mut next = 0;
        while let Some(status) = reached.get(next).copied() {
            next += 1;
            for event in LifecycleEvent::ALL {
                if event == LifecycleEvent::Approve {
                    continue;
                }
                if let Ok(after) = status.on(event)
                    && !reached.contains(&after)
                {
                    reached.push(after);
                }
            }
        }
        assert_eq!(reached, [ToolStatus::Discovered, ToolStatus::Proposed, ToolStatus::Revoked]);
    }

    #[test]
    fn a_status_reads_what_it_writes() {
        for status in ToolStatus::ALL {
            assert_eq!(status.name().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert_eq!("Active".parse::<ToolStatus>(), Err(UnknownStatus));
    }

    #[test]
    fn a_refusal_names_both_sides() {
        let refused = ToolStatus::Proposed.on(LifecycleEvent::Enable).unwrap_err();
        assert_eq!(refused.to_string(), "a tool that is proposed cannot take `enable`");
    }
}
