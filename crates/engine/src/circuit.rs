//! Circuit breaker: a tool that fails repeatedly is not called for a while.
//!
//! Per tenant and tool, so that no tenant can close a tool to others. A failure is one of the server's (the
//! sandbox failed), or a skill that took too long; a tool that ran and failed is a result. Built-in tools
//! run programs and ask addresses that come with the call, so their timeouts say nothing about the tool.
//!
//! Closed: calls run. After `failures` failures in a row it opens: calls are refused with `circuit_open`.
//! After `reset_after` one call may run (half-open): if it does not fail, the circuit is closed again, else it
//! stays open for as long once more.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringfence_types::{Digest, ErrorCode, Origin, TenantId, Timestamp, Tool};

use crate::{Engine, Refused, record::Ended, runners::failure};

/// Settings of circuit breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Failures in a row that open a circuit; zero switches circuits off.
    pub failures: u32,
    /// Time until one call may try again.
    pub reset_after: Duration,
}

impl Default for CircuitSettings {
    /// The defaults of SomaAgent 01.
    fn default() -> Self {
        Self { failures: 5, reset_after: Duration::from_secs(30) }
    }
}

/// A circuit that is not closed, or that counts failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitState {
    /// Failures in a row.
    pub failures: u32,
    /// Time at which one call may try again, if the circuit is open.
    pub retry_at: Option<Timestamp>,
    /// Whether a call is trying now.
    pub is_probing: bool,
}

/// A circuit is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    /// Time until it may be worth trying again.
    pub(crate) retry_after: Duration,
}

type Key = (TenantId, Digest);

/// All circuits with failures. Those without are closed and need no row.
#[derive(Debug, Clone)]
pub(crate) struct Circuits {
    settings: CircuitSettings,
    rows: Arc<Mutex<HashMap<Key, CircuitState>>>,
    counts: Arc<CircuitCounts>,
}

/// Changes of circuits so far.
#[derive(Debug, Default)]
pub(crate) struct CircuitCounts {
    /// Circuits that opened.
    pub(crate) opened: AtomicUsize,
    /// Open circuits that were closed again.
    pub(crate) closed: AtomicUsize,
    /// Calls that tried whether a tool works again.
    pub(crate) trials: AtomicUsize,
}

/// Circuits with failures that are kept at one time. Beyond it, failures of further tools are not counted.
const MAX_CIRCUITS: usize = 10_000;

impl Circuits {
    pub(crate) fn new(settings: CircuitSettings) -> Self {
        Self { settings, rows: Arc::default(), counts: Arc::default() }
    }

    pub(crate) fn counts(&self) -> &CircuitCounts {
        &self.counts
    }

    /// Number of circuits that are open.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().values().filter(|row| row.retry_at.is_some()).count()
    }

    pub(crate) fn state(&self, tenant: &TenantId, tool: Digest) -> Option<CircuitState> {
        self.lock().get(&(tenant.clone(), tool)).copied()
    }

    /// Whether a call could run now. Nothing is taken.
    pub(crate) fn check(
        &self,
        tenant: &TenantId,
        tool: Digest,
        now: Timestamp,
    ) -> Result<(), Open> {
        match self.state(tenant, tool) {
            Some(row) => self.open(&row, now).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// The right to run one call; of an open circuit whose time is over, to one call at a time.
    pub(crate) fn enter(
        &self,
        tenant: &TenantId,
        tool: &Tool,
        now: Timestamp,
    ) -> Result<Passage, Open> {
        let key = (tenant.clone(), tool.digest);
        let is_probe = match self.lock().get_mut(&key) {
            Some(row) => {
                if let Some(open) = self.open(row, now) {
                    return Err(open);
                }
                row.is_probing = row.retry_at.is_some();
                self.counts.trials.fetch_add(usize::from(row.is_probing), Ordering::Relaxed);
                row.is_probing
            }
            None => false,
        };
        let is_skill = tool.origin != Origin::Builtin;
        Ok(Passage { circuits: self.clone(), key, is_skill, is_probe })
    }

    fn open(&self, row: &CircuitState, now: Timestamp) -> Option<Open> {
        let retry_at = row.retry_at?;
        let least = Duration::from_secs(1);
        match (retry_at > now, row.is_probing) {
            (true, _) => Some(Open { retry_after: retry_at.since(now).max(least) }),
            (false, true) => Some(Open { retry_after: least }),
            (false, false) => None,
        }
    }

    fn failed(&self, key: &Key, now: Timestamp) {
        let mut rows = self.lock();
        if self.settings.failures == 0 || (rows.len() >= MAX_CIRCUITS && !rows.contains_key(key)) {
            return;
        }
        let empty = CircuitState { failures: 0, retry_at: None, is_probing: false };
        let row = rows.entry(key.clone()).or_insert(empty);
        row.failures = row.failures.saturating_add(1);
        row.is_probing = false;
        if row.failures >= self.settings.failures {
            let is_new = row.retry_at.is_none();
            self.counts.opened.fetch_add(usize::from(is_new), Ordering::Relaxed);
            row.retry_at = Some(now.after(self.settings.reset_after));
        }
    }

    fn worked(&self, key: &Key) {
        let row = self.lock().remove(key);
        let was_open = row.is_some_and(|row| row.retry_at.is_some());
        self.counts.closed.fetch_add(usize::from(was_open), Ordering::Relaxed);
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CircuitState>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one call. Dropped without a word, it leaves the circuit as it was.
#[derive(Debug)]
pub(crate) struct Passage {
    circuits: Circuits,
    key: Key,
    is_skill: bool,
    is_probe: bool,
}

impl Passage {
    /// The call ended so.
    pub(crate) fn settle(mut self, ended: &Ended, now: Timestamp) {
        if matches!(ended, Ended::Stopped { .. }) {
            return;
        }
        self.is_probe = false;
        match ended.error().is_some_and(|code| is_failure(code, self.is_skill)) {
            true => self.circuits.failed(&self.key, now),
            false => self.circuits.worked(&self.key),
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(row) = self.circuits.lock().get_mut(&self.key)
        {
            row.is_probing = false;
        }
    }
}

/// The end of a call that was accepted before the circuit of its tool opened.
pub(crate) fn refused(open: Open, tool: &Tool, now: Timestamp) -> Ended {
    let (tool, retry_after) = (tool.name.to_string(), open.retry_after);
    let message = Refused::CircuitOpen { tool, retry_after }.to_string();
    failure(ErrorCode::CircuitOpen, message, now)
}

/// Whether an error is a failure of the server.
pub(crate) fn is_ours(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::SandboxFailed | ErrorCode::SandboxTimeout)
}

fn is_failure(code: ErrorCode, is_skill: bool) -> bool {
    is_ours(code) || (is_skill && code == ErrorCode::Timeout)
}

impl Engine {
    /// The circuit of a tool for a tenant, if it has failures.
    pub fn circuit(&self, tenant: &TenantId, tool: &Tool) -> Option<CircuitState> {
        self.inner.circuits.state(tenant, tool.digest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_types::{Json, Produced, Timestamp};

    use super::*;
    use crate::runners::without_program;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(secs))
    }

    fn tool(origin: Origin) -> Tool {
        let tools = crate::builtin_tools(at(0));
        Tool { origin, ..tools.into_iter().next().expect("there are some") }
    }

    struct Trial {
        circuits: Circuits,
        tenant: TenantId,
        tool: Tool,
    }

    impl Trial {
        fn new(origin: Origin) -> Self {
            let settings = CircuitSettings { failures: 2, reset_after: Duration::from_secs(30) };
            let (circuits, tenant) = (Circuits::new(settings), "acme".parse().unwrap());
            Self { circuits, tenant, tool: tool(origin) }
        }

        fn enter(&self, now: u64) -> Result<Passage, Open> {
            self.circuits.enter(&self.tenant, &self.tool, at(now))
        }

        fn fails(&self, now: u64, code: ErrorCode) {
            let ended = failure(code, String::new(), at(now));
            self.enter(now).expect("closed").settle(&ended, at(now));
        }

        fn works(&self, now: u64) {
            let result = Produced::Result(Json::empty_object());
            let ended = without_program(result, at(now), Duration::ZERO);
            self.enter(now).expect("closed").settle(&ended, at(now));
        }
    }

    #[test]
    fn it_opens_after_failures_in_a_row_tries_one_call_and_closes() {
        let trial = Trial::new(Origin::Folder);
        trial.fails(0, ErrorCode::Timeout);
        trial.works(1);
        trial.fails(2, ErrorCode::SandboxFailed);
        assert_eq!(trial.circuits.open_count(), 0);
        trial.fails(3, ErrorCode::Timeout);
        assert_eq!(trial.circuits.open_count(), 1);
        let refused = trial.enter(10).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(23));
        let probe = trial.enter(33).expect("one may try");
        assert!(trial.enter(33).is_err(), "one at a time");
        // One that was cancelled says nothing.
        drop(probe);
        trial.fails(34, ErrorCode::SandboxTimeout);
        assert_eq!(trial.enter(35).unwrap_err().retry_after, Duration::from_secs(29));
        trial.works(64);
        assert_eq!(trial.circuits.state(&trial.tenant, trial.tool.digest), None);
        trial.enter(64).expect("closed");
    }

    #[test]
    fn what_came_with_the_call_says_nothing_about_a_tool() {
        let built_in = Trial::new(Origin::Builtin);
        let skill = Trial::new(Origin::Folder);
        for _ in 0..9 {
            built_in.fails(0, ErrorCode::Timeout);
            skill.fails(0, ErrorCode::HandlerFailed);
        }
        assert_eq!((built_in.circuits.open_count(), skill.circuits.open_count()), (0, 0));
        // The control: the same tool when the server fails.
        (0..2).for_each(|_| built_in.fails(0, ErrorCode::SandboxFailed));
        assert_eq!(built_in.circuits.open_count(), 1);
    }

    #[test]
    fn tenants_have_circuits_of_their_own() {
        let trial = Trial::new(Origin::Folder);
        (0..2).for_each(|_| trial.fails(0, ErrorCode::Timeout));
        let other = "other".parse().unwrap();
        trial.circuits.check(&other, trial.tool.digest, at(0)).expect("closed");
        trial.circuits.check(&trial.tenant, trial.tool.digest, at(0)).expect_err("open");
    }
}
