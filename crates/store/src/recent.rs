//! The newest commits, kept for the reader that follows them: what was just written need not be
//! read again.
//!
//! Bounded in number and in bytes. A reader that falls behind finds a gap here and reads the
//! database until it has caught up.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::Commit;

/// Most commits kept.
const MAX_COMMITS: usize = 2_048;

/// Most bytes of their text.
const MAX_BYTES: usize = 8 << 20;

/// The newest commits, without a gap among them.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    commits: VecDeque<(Arc<Commit>, usize)>,
    bytes: usize,
}

impl Recent {
    /// Adds the newest commit, which has about so many bytes.
    pub(crate) fn add(&self, commit: Commit, bytes: usize) {
        let mut kept = self.lock();
        let follows =
            kept.commits.back().is_none_or(|(last, _)| last.position + 1 == commit.position);
        let fits = kept.commits.len() < MAX_COMMITS && kept.bytes + bytes <= MAX_BYTES;
        if !follows || !fits {
            // No reader, or a slow one: the newest are those that help to catch up.
            *kept = Kept::default();
        }
        if bytes <= MAX_BYTES {
            kept.bytes += bytes;
            kept.commits.push_back((Arc::new(commit), bytes));
        }
    }

    /// Lets all go: readers find them in the database, as they are there.
    pub(crate) fn clear(&self) {
        *self.lock() = Kept::default();
    }

    /// Commits after a position, if the first of them is here. What is before it is let go.
    pub(crate) fn after(&self, position: u64, limit: usize) -> Option<Vec<Arc<Commit>>> {
        let mut kept = self.lock();
        while let Some((first, bytes)) = kept.commits.front()
            && first.position <= position
        {
            kept.bytes -= *bytes;
            kept.commits.pop_front();
        }
        let (first, _) = kept.commits.front()?;
        let found = || kept.commits.iter().take(limit).map(|(commit, _)| commit.clone());
        (first.position == position + 1).then(|| found().collect())
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ringfence_types::FactKind;

    use super::*;
    use crate::contract::samples;

    fn commit(position: u64) -> Commit {
        let call = samples::accepted(&samples::tenant());
        Commit {
            position,
            facts: vec![samples::fact(&call, FactKind::Accepted)],
            call: Arc::new(call),
        }
    }

    fn positions(recent: &Recent, after: u64, limit: usize) -> Option<Vec<u64>> {
        let found = recent.after(after, limit)?;
        Some(found.iter().map(|commit| commit.position).collect())
    }

    #[test]
    fn a_reader_that_keeps_up_finds_each_commit_until_it_has_gone_past_it() {
        let recent = Recent::default();
        (5..10).for_each(|position| recent.add(commit(position), 1));
        assert_eq!(positions(&recent, 4, 3), Some(vec![5, 6, 7]));
        assert_eq!(positions(&recent, 4, 1), Some(vec![5]));
        assert_eq!(positions(&recent, 7, 9), Some(vec![8, 9]));
        assert_eq!(positions(&recent, 5, 9), None, "what was passed is gone");
        assert_eq!(positions(&recent, 9, 9), None);
    }

    #[test]
    fn a_gap_is_never_passed_over() {
        let recent = Recent::default();
        recent.add(commit(5), 1);
        recent.add(commit(7), 1);
        assert_eq!(positions(&recent, 4, 9), None);
        assert_eq!(positions(&recent, 6, 9), Some(vec![7]));
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let recent = Recent::default();
        (1..=3 * MAX_COMMITS as u64).for_each(|position| recent.add(commit(position), 1));
        assert!(recent.lock().commits.len() <= MAX_COMMITS);
        let next = 3 * MAX_COMMITS as u64 + 1;
        recent.add(commit(next), MAX_BYTES);
        assert_eq!(positions(&recent, next - 1, 9), Some(vec![next]));
        recent.add(commit(next + 1), MAX_BYTES + 1);
        assert_eq!(positions(&recent, next, 9), None, "too large to be kept");
        assert_eq!(recent.lock().bytes, 0);
    }
}
