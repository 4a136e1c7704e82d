//! Session sandboxes: creating, using, ending. Each belongs to the tenant whose key made it.
//!
//! Running or changing something in one is a call of a built-in tool (see [`calls`]); reading,
//! pausing and ending it is not.

pub(crate) mod calls;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod interpreters;
mod once;
pub(crate) mod read;
mod sending;

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use ringfence_engine::Sandbox;
use ringfence_engine::sandbox::session::{Error, SessionId, SessionInfo, State};
use ringfence_types::{CallId, Layers, Principal, SandboxNetwork};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::once::Once;
use crate::shared::Shared;
use ringfence_edge::{Problem, fields, problem::Fault, problem_codes};

/// Prefix of metadata that clients chose.
const CLIENT_PREFIX: &str = "client.";

/// A sandbox.
#[derive(Serialize, ToSchema)]
#[schema(as = Sandbox)]
pub(crate) struct SandboxView {
    #[schema(value_type = String)]
    id: SessionId,
    /// `running`, `paused` or `ended`.
    state: &'static str,
    /// Your own data.
    metadata: BTreeMap<String, String>,
    age_secs: f64,
    /// Seconds until it ends if it is not used.
    left_secs: f64,
    /// Seconds without use after which it ends.
    idle_secs: f64,
    /// Seconds after its creation at which it ends in any case.
    lifetime_secs: f64,
    /// Number of running programs.
    programs: usize,
    memory_bytes: u64,
    disk_bytes: u64,
    cpu_millis: u32,
    processes: u32,
    /// `none` or `loopback`.
    #[schema(value_type = String)]
    network: SandboxNetwork,
    /// Terminals at one time.
    terminals: u32,
    /// Isolation layers.
    #[schema(value_type = Object)]
    layers: Layers,
    /// The call that made it; only in the answer to that call.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
}

impl SandboxView {
    fn of(info: SessionInfo) -> Self {
        let own = info.metadata.into_iter();
        let own = own.filter_map(|(name, value)| {
            Some((name.strip_prefix(CLIENT_PREFIX)?.to_owned(), value))
        });
        Self {
            id: info.id,
            state: match info.state {
                State::Running => "running",
                State::Paused => "paused",
                State::Ended(_) => "ended",
            },
            metadata: own.collect(),
            age_secs: secs(info.age),
            left_secs: secs(info.left),
            idle_secs: secs(info.idle),
            lifetime_secs: secs(info.lifetime),
            programs: info.programs,
            memory_bytes: info.limits.memory.0,
            disk_bytes: info.limits.disk.0,
            cpu_millis: info.limits.cpus.0,
            processes: info.limits.processes,
            network: info.limits.network,
            terminals: info.limits.terminals,
            layers: info.layers,
            call_id: None,
        }
    }
}

fn secs(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1_000.0
}

/// The sandbox with this id, if it is the tenant's.
fn find(shared: &Shared, who: &Principal, id: &SessionId) -> Result<Sandbox, Problem> {
    shared.engine.sandbox(who, id).ok_or_else(Problem::not_found)
}

/// The problem of a sandbox error.
fn why(error: &Error) -> Problem {
    if let Error::Sandbox(cause) = error {
        tracing::error!(error = cause as &dyn std::error::Error, "a sandbox failed");
    }
    failed(error.code(), error.to_string())
}

/// The problem of a sandbox error by its code, as in a failed call.
fn failed(code: &str, detail: String) -> Problem {
    let problem = match code {
        "invalid_request" => fields::invalid(vec![Fault { pointer: String::new(), detail }]),
        "session_ended" | "sandbox_not_found" | "interpreter_not_found" => Problem::not_found(),
        "session_paused" => Problem::new(&problem_codes::SANDBOX_PAUSED, detail),
        "not_found" | "artifact_not_found" => Problem::new(&problem_codes::NOT_FOUND, detail),
        "artifact_not_newest" => Problem::new(&problem_codes::CONFLICT, detail),
        "artifact_quota" => Problem::new(&problem_codes::STORAGE_BUDGET, detail),
        "content_invalid" => Problem::new(&problem_codes::ARGS_INVALID, detail),
        "too_many_sandboxes" => Problem::new(&problem_codes::TOO_MANY_SANDBOXES, detail)
            .retry_after(Duration::from_secs(30)),
        "isolation_unavailable" => Problem::new(
            &problem_codes::SANDBOX_UNAVAILABLE,
            format!("policy requires stronger isolation: {detail}"),
        ),
        "sandbox_unavailable" => {
            let detail =
                "this host cannot make sandboxes at the moment; see `/readyz` for the reason";
            Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail)
                .retry_after(Duration::from_secs(5))
        }
        "sandbox_timeout" | "sandbox_failed" => {
            Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, "no sandbox is available")
                .retry_after(Duration::from_secs(5))
        }
        _ => Problem::new(&problem_codes::SANDBOX_REFUSED, detail),
    };
    problem.with("reason", code)
}

/// Number of a program or an interpreter, in its one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Number(u32);

/// A text that is not such a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidNumber;

impl FromStr for Number {
    type Err = InvalidNumber;

    fn from_str(text: &str) -> Result<Self, InvalidNumber> {
        let number = text.parse().map_err(|_| InvalidNumber)?;
        if Self(number).to_string() == text { Ok(Self(number)) } else { Err(InvalidNumber) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_one_way_only() {
        assert_eq!("17".parse(), Ok(Number(17)));
        for text in ["", "+17", "017", "-1", "1 ", "4294967296", "0x1", "١"] {
            assert_eq!(text.parse::<Number>(), Err(InvalidNumber), "{text}");
        }
    }
}
