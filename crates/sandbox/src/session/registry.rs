//! Registry of the sessions of one backend.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ringfence_types::{Layers, Limits};

use super::{Ending, Session, SessionId, State, shared::Shared};
use crate::{Root, layers::layers};

/// Information about a session. Times are durations up to now; callers with a clock compute dates.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// Public id.
    pub id: SessionId,
    /// State.
    pub state: State,
    /// Root file system of its programs.
    pub root: Root,
    /// Limits of all programs together.
    pub limits: Limits,
    /// Metadata given by the caller.
    pub metadata: BTreeMap<String, String>,
    /// Time since its creation.
    pub age: Duration,
    /// Time since the last use; zero during one.
    pub unused: Duration,
    /// Time until it ends without use. Grows with each use, up to the end of `lifetime`.
    pub left: Duration,
    /// Idle time after which it ends.
    pub idle: Duration,
    /// Largest lifetime.
    pub lifetime: Duration,
    /// Number of running programs.
    pub programs: usize,
    /// Layers of its isolation; none once it ended.
    pub layers: Layers,
}

impl SessionInfo {
    /// Information about a session; taking it does not count as use.
    pub(super) fn of(shared: &Shared) -> Self {
        let now = Instant::now();
        let clock = shared.with_clock(|clock| clock.clone());
        let unused = now.saturating_duration_since(clock.last_used);
        Self {
            id: shared.id.clone(),
            state: shared.state(),
            root: shared.request.root.clone(),
            limits: shared.request.limits.clone(),
            metadata: shared.request.metadata.clone(),
            age: now.saturating_duration_since(clock.created),
            unused: if clock.is_busy() { Duration::ZERO } else { unused },
            left: clock.deadline().0.saturating_duration_since(now),
            idle: clock.idle,
            lifetime: clock.lifetime,
            programs: shared.processes().len(),
            layers: shared.parts().map(|parts| layers(&parts.jailed)).unwrap_or_default(),
        }
    }
}

/// All sessions that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<SessionId, Session>>,
}

impl Registry {
    pub(super) fn add(&self, session: Session) {
        self.lock().insert(session.id().clone(), session.clone());
        // If it ended before it was added, it has to be removed here.
        if matches!(session.state(), State::Ended(_)) {
            self.forget(session.id());
        }
    }

    pub(super) fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Session> {
        self.lock().get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Session> {
        self.lock().values().cloned().collect()
    }

    /// Ends every session and waits for its last process.
    pub(crate) async fn close(&self) {
        for shared in self.end_all() {
            shared.gone().await;
        }
    }

    fn end_all(&self) -> Vec<Arc<Shared>> {
        let all: Vec<_> = self.all().into_iter().map(|session| session.shared).collect();
        for shared in &all {
            shared.end(Ending::Closed);
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.end_all();
    }
}
