//! Request to make a session.

use std::{collections::BTreeMap, time::Duration};

use ringfence_types::{Layer, Limits};

use super::Error;
use crate::{Listener, Root};

/// Request to make a session.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// Root file system of its programs.
    pub root: Root,
    /// Limits of all programs together. `wall` does not apply: programs have their own timeouts and
    /// the session a lifetime. `output` applies to each stream of a program.
    pub limits: Limits,
    /// Variables added to the base environment of every program.
    pub env: BTreeMap<String, String>,
    /// Sockets inside that the caller accepts connections on: see [`super::Session::take_listeners`].
    pub listeners: Vec<Listener>,
    /// Layers that may be missing on the host.
    pub may_miss: Vec<Layer>,
    /// Idle time after which it ends.
    pub idle: Duration,
    /// Lifetime after which it ends in any case.
    pub lifetime: Duration,
    /// Metadata of the caller, shown in lists.
    pub metadata: BTreeMap<String, String>,
}

impl Default for SessionRequest {
    fn default() -> Self {
        Self {
            root: Root::Host,
            limits: Limits { terminals: SESSION_TERMINALS, ..Limits::default() },
            env: BTreeMap::new(),
            listeners: Vec::new(),
            may_miss: Vec::new(),
            idle: Duration::from_secs(10 * 60),
            lifetime: Duration::from_secs(24 * 60 * 60),
            metadata: BTreeMap::new(),
        }
    }
}

/// Default number of terminals of a session.
pub const SESSION_TERMINALS: u32 = 4;

/// Largest size of a session's metadata in bytes.
const MAX_METADATA: usize = 16 << 10;
/// Largest duration of a timer.
const MAX_TIMER: Duration = Duration::from_secs(366 * 86400);

impl SessionRequest {
    /// Refuses an invalid request, naming every problem.
    pub(super) fn check(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        if let Err(error) = self.limits.clone().checked() {
            problems.push(error.to_string());
        }
        if !is_environment(&self.env) {
            problems.push(ENVIRONMENT.to_owned());
        }
        problems.extend(time_problem("idle", self.idle));
        problems.extend(time_problem("lifetime", self.lifetime));
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        if metadata.sum::<usize>() > MAX_METADATA {
            problems.push(format!("metadata must be at most {MAX_METADATA} bytes"));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems.join("; "))) }
    }
}

pub(super) const ENVIRONMENT: &str = "environment: a name is empty or holds `=` or NUL";

/// Whether the kernel accepts these variables.
pub(super) fn is_environment(env: &BTreeMap<String, String>) -> bool {
    env.iter()
        .all(|(key, value)| !key.is_empty() && !key.contains(['=', '\0']) && !value.contains('\0'))
}

/// Problem with a duration for a timer.
pub(super) fn time_problem(field: &str, time: Duration) -> Option<String> {
    let holds = !time.is_zero() && time <= MAX_TIMER;
    (!holds).then(|| format!("{field} must be above zero and at most a year"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once() {
        let request = SessionRequest {
            idle: Duration::ZERO,
            lifetime: MAX_TIMER * 2,
            env: [("A=B".to_owned(), String::new())].into(),
            metadata: [("x".to_owned(), "y".repeat(MAX_METADATA))].into(),
            ..SessionRequest::default()
        };
        let error = request.check().expect_err("four problems");
        assert_eq!(
            error.to_string(),
            "environment: a name is empty or holds `=` or NUL; idle must be above zero and at \
             most a year; lifetime must be above zero and at most a year; metadata must be at \
             most 16384 bytes"
        );
        assert!(SessionRequest::default().check().is_ok());
    }
}
