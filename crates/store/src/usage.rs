//! Usage: what ended calls took, added up.

use std::time::Duration;

use ringfence_types::{Call, KeyId, Produced, State, TenantId, Timestamp, Tokens};

/// Hours of a day.
pub const HOURS_PER_DAY: i64 = 24;

/// The hour of a moment, counted from 1970 in UTC.
pub fn hour_of(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(3_600_000_000)
}

/// The first moment of an hour.
pub fn start_of_hour(hour: i64) -> Timestamp {
    Timestamp::from_micros(hour.saturating_mul(3_600_000_000))
}

/// Resources that calls took, together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Calls that ended, however they did.
    pub calls: u64,
    /// Calls without a result: with an error, or of unknown outcome.
    pub failures: u64,
    /// CPU time of their sandboxes, user and system.
    pub cpu: Duration,
    /// Time that they ran.
    pub wall: Duration,
    /// Bytes that their programs printed, and of their results.
    pub output_bytes: u64,
    /// Tokens of model servers.
    pub tokens: Tokens,
}

impl Used {
    /// Resources that one call took; `None` before its end.
    pub fn of(call: &Call) -> Option<Self> {
        if !call.state.is_final() {
            return None;
        }
        let State::Finished(finished) = &call.state else {
            let failures = u64::from(matches!(call.state, State::OutcomeUnknown));
            return Some(Self { calls: 1, failures, ..Self::default() });
        };
        let result = match &finished.produced {
            Produced::Result(result) => result.as_str().len() as u64,
            Produced::Error(_) => 0,
        };
        // A result that was remembered was used by the call that ran.
        let (cpu, wall) = match finished.memoised {
            Some(_) => (Duration::ZERO, Duration::ZERO),
            None => {
                let cpu = finished.usage.as_ref().map(|usage| usage.cpu_user + usage.cpu_system);
                (cpu.unwrap_or_default(), finished.duration)
            }
        };
        let printed = finished.stdout.length.saturating_add(finished.stderr.length);
        Some(Self {
            calls: 1,
            failures: u64::from(!finished.is_success()),
            cpu,
            wall,
            output_bytes: printed.saturating_add(result),
            tokens: finished.tokens.unwrap_or_default(),
        })
    }
}

/// Usage that belongs to no call: answers of models in turns of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherUsage {
    /// Tenant.
    pub tenant: TenantId,
    /// Key with whose rights it was caused.
    pub key: KeyId,
    /// Name that stands in the place of a tool.
    pub tool: &'static str,
    /// Time.
    pub at: Timestamp,
    /// Resources.
    pub used: Used,
}

/// Period by which usage is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Period {
    /// Hours of UTC.
    Hour,
    /// Days of UTC.
    Day,
}

impl Period {
    /// Hours of the period.
    pub const fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => HOURS_PER_DAY,
        }
    }
}

/// Usage that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    /// Tenant; all tenants without one.
    pub tenant: Option<TenantId>,
    /// Only this key.
    pub key: Option<KeyId>,
    /// Only this tool.
    pub tool: Option<String>,
    /// First hour.
    pub from: i64,
    /// The hour after the last.
    pub until: i64,
    /// Added up by these.
    pub per: Period,
    /// A row for each key.
    pub by_key: bool,
    /// A row for each tool.
    pub by_tool: bool,
    /// Rows at most.
    pub limit: usize,
}

/// One sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// First hour of the period.
    pub hour: i64,
    /// Tenant of the calls.
    pub tenant: TenantId,
    /// Key of the calls, if rows are by key.
    pub key: Option<KeyId>,
    /// Tool of the calls, if rows are by tool.
    pub tool: Option<String>,
    /// Resources that they took.
    pub used: Used,
}
