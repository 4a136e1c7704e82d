//! The sessions of one backend.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ringfence_types::{Layers, Limits};

use super::{Ending, Session, SessionId, State, shared::Shared};
use crate::{Root, layers::layers};

/// What a list shows of a session. Times are spans up to now: whoever has a clock makes dates.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// Where it is in its life.
    pub state: State,
    /// What its programs see as their root.
    pub root: Root,
    /// What they may use.
    pub limits: Limits,
    /// What the caller wanted to find here.
    pub metadata: BTreeMap<String, String>,
    /// Since its creation.
    pub age: Duration,
    /// Since the last use; zero while there is one.
    pub unused: Duration,
    /// Until it ends if nobody uses it. Grows with each use, up to what `lifetime` leaves.
    pub left: Duration,
    /// After how long without use it ends.
    pub idle: Duration,
    /// How long it lives at most.
    pub lifetime: Duration,
    /// Programs that run.
    pub programs: usize,
    /// The walls around it; none once it ended.
    pub layers: Layers,
}

impl SessionInfo {
    /// Looking at a list is no use of what it shows.
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
            layers: shared.parts().map(|parts| layers(&parts.cell)).unwrap_or_default(),
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
        // It may have ended before it was in the list; then nobody else would take it out.
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

    /// Ends every session and waits for the death of its last process.
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
