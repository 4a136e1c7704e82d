//! What clients can come back to: the programs and interpreters of each sandbox, by number.
//!
//! A sandbox keeps its programs only while they run. Somebody who started one and asks a minute
//! later how it ended must find it, so it is kept here, within bounds, until its sandbox ends.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_sandbox::session::{Interpreter, Process, Session, SessionId};
use ringfence_types::Timestamp;
use serde::Serialize;

use super::once::Once;
use crate::shared::Shared;

/// The tables of all sandboxes that have one.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    all: Mutex<HashMap<SessionId, Arc<Table>>>,
    /// Sandboxes by the idempotency keys they were asked for with.
    pub(super) once: Once,
}

/// The table of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Table {
    programs: Mutex<BTreeMap<u32, Program>>,
    interpreters: Mutex<Interpreters>,
}

#[derive(Debug, Default)]
struct Interpreters {
    last: u32,
    all: BTreeMap<u32, Interpreter>,
}

/// A program and how it was asked for.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) process: Process,
    pub(super) argv: Arc<[String]>,
    pub(super) started_at: Timestamp,
    pub(super) has_terminal: bool,
    /// Whether it reads what clients send later.
    pub(super) is_open: bool,
}

/// Programs that have ended and are kept, and bytes of their output.
const MOST_ENDED: usize = 64;
const MOST_BYTES: u64 = 16 << 20;

impl Shared {
    /// The sandbox's table; the first to ask makes it, and it goes with the sandbox.
    pub(super) fn table(self: &Arc<Self>, session: &Session) -> Arc<Table> {
        let mut all = lock(&self.tables.all);
        if let Some(table) = all.get(session.id()) {
            return table.clone();
        }
        let table = Arc::<Table>::default();
        all.insert(session.id().clone(), table.clone());
        let (shared, session) = (self.clone(), session.clone());
        self.edge.tasks().spawn(async move {
            tokio::select! {
                _ = session.ended() => {}
                () = shared.edge.stopping().cancelled() => {}
            }
            lock(&shared.tables.all).remove(session.id());
        });
        table
    }
}

impl Table {
    /// Keeps a program, and forgets the oldest of those that ended.
    pub(super) fn add(&self, program: Program) {
        let mut programs = lock(&self.programs);
        programs.insert(program.process.id(), program);
        let ended: Vec<(u32, u64)> = programs
            .iter()
            .filter(|(_, program)| program.process.try_wait().is_some())
            .map(|(id, program)| (*id, program.bytes()))
            .collect();
        let mut bytes: u64 = ended.iter().map(|(_, bytes)| bytes).sum();
        let mut left = ended.len();
        for (id, of_it) in ended {
            if left <= MOST_ENDED && bytes <= MOST_BYTES {
                break;
            }
            programs.remove(&id);
            (left, bytes) = (left - 1, bytes - of_it);
        }
    }

    pub(super) fn program(&self, id: Number) -> Option<Program> {
        lock(&self.programs).get(&id.0).cloned()
    }

    /// All of them, oldest first.
    pub(super) fn programs(&self) -> Vec<Program> {
        lock(&self.programs).values().cloned().collect()
    }

    pub(super) fn remove_program(&self, id: Number) {
        lock(&self.programs).remove(&id.0);
    }

    /// Keeps an interpreter under a new number.
    pub(super) fn add_interpreter(&self, interpreter: Interpreter) -> Number {
        let mut interpreters = lock(&self.interpreters);
        interpreters.last += 1;
        let id = interpreters.last;
        interpreters.all.insert(id, interpreter);
        Number(id)
    }

    pub(super) fn interpreter(&self, id: Number) -> Option<Interpreter> {
        lock(&self.interpreters).all.get(&id.0).cloned()
    }

    pub(super) fn interpreters(&self) -> Vec<(Number, Interpreter)> {
        let interpreters = lock(&self.interpreters);
        interpreters.all.iter().map(|(id, one)| (Number(*id), one.clone())).collect()
    }

    pub(super) fn remove_interpreter(&self, id: Number) -> Option<Interpreter> {
        lock(&self.interpreters).all.remove(&id.0)
    }
}

impl Program {
    /// Bytes of output that are held for it.
    fn bytes(&self) -> u64 {
        let held = |total: u64| total.min(super::exec::KEPT.0);
        held(self.process.stdout().total()) + held(self.process.stderr().total())
    }
}

/// A program's or an interpreter's number, in the one way it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Number(pub(super) u32);

/// Not the way a number is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoNumber;

impl FromStr for Number {
    type Err = NoNumber;

    fn from_str(text: &str) -> Result<Self, NoNumber> {
        let number = text.parse().map_err(|_| NoNumber)?;
        if Self(number).to_string() == text { Ok(Self(number)) } else { Err(NoNumber) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_one_way_only() {
        assert_eq!("17".parse(), Ok(Number(17)));
        for text in ["", "+17", "017", "-1", "1 ", "4294967296", "0x1", "١"] {
            assert_eq!(text.parse::<Number>(), Err(NoNumber), "{text}");
        }
    }
}
