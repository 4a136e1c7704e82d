//! What can be asked of a session when it is made.

use std::{collections::BTreeMap, time::Duration};

use ringfence_types::{Layer, Limits};

use super::Error;
use crate::Root;

/// A session to be made.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// What its programs see as their root.
    pub root: Root,
    /// What all of them together may use. `wall` does not apply: programs have timeouts of their
    /// own and the session a lifetime. `output` is what is kept of each stream of a program.
    pub limits: Limits,
    /// Added to the base environment of every program.
    pub env: BTreeMap<String, String>,
    /// Walls it may go without if the host lacks them.
    pub may_miss: Vec<Layer>,
    /// After how long without use it ends.
    pub idle: Duration,
    /// After how long it ends in any case.
    pub lifetime: Duration,
    /// Whatever the caller wants to find in lists.
    pub metadata: BTreeMap<String, String>,
}

impl Default for SessionRequest {
    fn default() -> Self {
        Self {
            root: Root::Host,
            limits: Limits { terminals: SESSION_TERMINALS, ..Limits::default() },
            env: BTreeMap::new(),
            may_miss: Vec::new(),
            idle: Duration::from_secs(10 * 60),
            lifetime: Duration::from_secs(24 * 60 * 60),
            metadata: BTreeMap::new(),
        }
    }
}

/// Terminals of a session that asks for no other number.
pub const SESSION_TERMINALS: u32 = 4;

/// Most bytes of all metadata of a session together.
const MOST_METADATA: usize = 16 << 10;
/// No timer is set further ahead.
const YEAR: Duration = Duration::from_secs(366 * 86400);

impl SessionRequest {
    /// Refuses what no session could be made of, naming every problem.
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
        if metadata.sum::<usize>() > MOST_METADATA {
            problems.push(format!("metadata must be at most {MOST_METADATA} bytes"));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems.join("; "))) }
    }
}

pub(super) const ENVIRONMENT: &str = "environment: a name is empty or holds `=` or NUL";

/// Whether the kernel would take these as an environment.
pub(super) fn is_environment(env: &BTreeMap<String, String>) -> bool {
    env.iter()
        .all(|(key, value)| !key.is_empty() && !key.contains(['=', '\0']) && !value.contains('\0'))
}

/// What is wrong with a span of time a timer is set to.
pub(super) fn time_problem(field: &str, time: Duration) -> Option<String> {
    let holds = !time.is_zero() && time <= YEAR;
    (!holds).then(|| format!("{field} must be above zero and at most a year"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once() {
        let request = SessionRequest {
            idle: Duration::ZERO,
            lifetime: YEAR * 2,
            env: [("A=B".to_owned(), String::new())].into(),
            metadata: [("x".to_owned(), "y".repeat(MOST_METADATA))].into(),
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
