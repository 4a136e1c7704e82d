//! Session sandboxes: made, used, ended. Each belongs to the tenant whose key made it.
//!
//! Policy decides about making one: from then on whoever made it may run programs in it, within
//! its walls and limits.

pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod interpreters;
mod once;
mod permit;
pub(crate) mod read;
mod sending;
mod table;

use std::{collections::BTreeMap, time::Duration};

use ringfence_edge::{Problem, fields, problem::Fault, problem_codes};
use ringfence_sandbox::session::{Error, Session, SessionId, SessionInfo, State};
use ringfence_types::{Layers, Principal, SandboxNetwork};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::table::Tables;
use crate::shared::Shared;

/// Whose a sandbox is, among its own metadata; clients' names have the other prefix.
const TENANT: &str = "tenant";
const OF_CLIENT: &str = "client.";

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
    /// Until it ends if nobody uses it.
    left_secs: f64,
    /// After how long without use it ends.
    idle_secs: f64,
    /// After how long it ends in any case.
    lifetime_secs: f64,
    /// Programs that run.
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
    /// The walls around it.
    #[schema(value_type = Object)]
    layers: Layers,
}

impl SandboxView {
    fn of(info: SessionInfo) -> Self {
        let own = info.metadata.into_iter();
        let own =
            own.filter_map(|(name, value)| Some((name.strip_prefix(OF_CLIENT)?.to_owned(), value)));
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
        }
    }
}

fn secs(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1_000.0
}

/// The sandbox of this name, if it is the tenant's.
fn find(shared: &Shared, who: &Principal, id: &SessionId) -> Result<Session, Problem> {
    let session = shared.engine.sandbox().session_by_id(id);
    let own = session.filter(|session| is_own(&session.info(), who));
    own.ok_or_else(Problem::not_found)
}

fn is_own(info: &SessionInfo, who: &Principal) -> bool {
    info.metadata.get(TENANT).is_some_and(|tenant| tenant == who.tenant.as_str())
}

/// Why it could not be done with a sandbox.
fn why(error: &Error) -> Problem {
    let detail = error.to_string();
    let problem = match error {
        Error::Invalid(_) => fields::invalid(vec![Fault { pointer: String::new(), detail }]),
        Error::Ended(_) => Problem::not_found(),
        Error::Paused => Problem::new(&problem_codes::SANDBOX_PAUSED, detail),
        Error::File(refused) if refused.code() == "not_found" => {
            Problem::new(&problem_codes::NOT_FOUND, detail)
        }
        Error::File(_) | Error::Archive(_) | Error::Snapshot(_) | Error::NotStarted { .. } => {
            Problem::new(&problem_codes::SANDBOX_REFUSED, detail)
        }
        Error::Sandbox(cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "a sandbox failed");
            let detail = match cause {
                ringfence_sandbox::Error::Unavailable(_) => {
                    "this host cannot make sandboxes at the moment; `/readyz` says why"
                }
                _ => "no sandbox could be had",
            };
            Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail)
                .retry_after(Duration::from_secs(5))
        }
        _ => Problem::new(&problem_codes::SANDBOX_REFUSED, detail),
    };
    problem.with("reason", error.code())
}
