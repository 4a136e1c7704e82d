//! Allocation of the uids that sandboxes have outside.
//!
//! The kernel counts many resources by user, so no two live sandboxes of this service share a uid:
//! a cold one has an id of its own, a zygote a block of them, one for itself and one for each
//! child. Ids are freed when the last process that had them is gone.
//!
//! Several services on one host are independent, so each begins at a random id.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use ringfence_jail::ids::for_sandboxes;

use crate::Error;

/// Number of zygotes whose ids fit beside each other, even if there are few ids: one per pool, and
/// replaced ones that still have children.
const ZYGOTES: u32 = 32;

/// Block of ids that is used once in this service.
#[derive(Debug)]
pub(crate) struct Ids {
    first: u32,
    count: u32,
}

impl Ids {
    /// One id, for a sandbox that forks no others.
    pub(crate) fn one() -> Result<Self, Error> {
        Self::take(|_| 1)
    }

    /// Ids for a zygote that is forked up to `forks` times, or fewer if there are few ids.
    pub(crate) fn for_zygote(forks: u64) -> Result<Self, Error> {
        Self::take(|space| block(forks, space))
    }

    fn take(count: impl FnOnce(u32) -> u32) -> Result<Self, Error> {
        let mut space = lock(space().ok_or_else(none)?);
        let count = count(space.all.end - space.all.start);
        let first = space.take(count).ok_or_else(none)?;
        Ok(Self { first, count })
    }

    /// First id: that of the sandbox, or of the zygote itself.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Number of ids.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Number of forks after which a zygote with these ids is replaced: a quarter is left for calls
    /// that chose it before.
    pub(crate) fn forks(&self) -> u64 {
        u64::from(self.count - self.count / 4)
    }
}

impl Drop for Ids {
    fn drop(&mut self) {
        if let Some(space) = space() {
            lock(space).taken.remove(&self.first);
        }
    }
}

fn block(forks: u64, space: u32) -> u32 {
    let most = space / ZYGOTES;
    let wanted = forks.saturating_add(forks / 2).saturating_add(256);
    u32::try_from(wanted).map_or(most, |wanted| wanted.min(most))
}

fn none() -> Error {
    Error::Missing {
        layer: "a uid of its own",
        reason: "every id that this service may use is taken".to_owned(),
        hint: "give its user a longer range in /etc/subuid and /etc/subgid, or run fewer \
               sandboxes at a time"
            .to_owned(),
    }
}

/// All ids, and the blocks that are taken.
#[derive(Debug)]
struct Space {
    all: Range<u32>,
    /// Next id to try, so that an id is not used again soon.
    next: u32,
    /// First id and length of each taken block.
    taken: BTreeMap<u32, u32>,
}

impl Space {
    fn take(&mut self, count: u32) -> Option<u32> {
        let first = [self.next, self.all.start].into_iter().find_map(|at| self.gap(at, count))?;
        self.taken.insert(first, count);
        self.next = first + count;
        Some(first)
    }

    /// The first `count` free ids in a row from `from` on.
    fn gap(&self, from: u32, count: u32) -> Option<u32> {
        let before = self.taken.range(..from).next_back();
        let mut first = before.map_or(from, |(at, length)| from.max(at + length));
        for (at, length) in self.taken.range(first..) {
            if at - first >= count {
                break;
            }
            first = at + length;
        }
        (self.all.end.saturating_sub(first) >= count).then_some(first)
    }
}

fn space() -> Option<&'static Mutex<Space>> {
    static SPACE: OnceLock<Option<Mutex<Space>>> = OnceLock::new();
    let open = || {
        let all = for_sandboxes()?;
        let next = all.start + random() % (all.end - all.start);
        Some(Mutex::new(Space { all, next, taken: BTreeMap::new() }))
    };
    SPACE.get_or_init(open).as_ref()
}

fn lock(space: &Mutex<Space>) -> MutexGuard<'_, Space> {
    space.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Random number; the process id where the kernel has no randomness yet.
fn random() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => std::process::id(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(all: Range<u32>, next: u32) -> Space {
        Space { all, next, taken: BTreeMap::new() }
    }

    #[test]
    fn ids_are_used_again_only_after_all_others() {
        let mut space = space(10..16, 14);
        assert_eq!(space.take(1), Some(14));
        assert_eq!(space.take(3), Some(10), "too long for the end");
        space.taken.remove(&10);
        assert_eq!(space.take(1), Some(13));
        assert_eq!(space.take(1), Some(15));
        assert_eq!(space.take(4), None);
        assert_eq!(space.take(3), Some(10));
        assert_eq!(space.take(1), None);
    }

    #[test]
    fn a_zygote_has_ids_for_its_forks_unless_there_are_few() {
        assert_eq!(block(5000, 0x0fff_0000), 7756);
        assert_eq!(block(5000, 49_150), 1535);
        assert_eq!(block(u64::MAX, 0x0fff_0000), 0x0fff_0000 / ZYGOTES);
        assert_eq!(Ids { first: 0, count: 7756 }.forks(), 5817);
    }

    proptest! {
        #[test]
        fn no_two_blocks_overlap(
            steps in proptest::collection::vec((any::<bool>(), 1_u32..40, any::<u16>()), 1..200),
            next in 100_u32..400,
        ) {
            let mut space = space(100..400, next);
            for (takes, count, which) in steps {
                if takes {
                    space.take(count);
                } else if let Some(first) =
                    space.taken.keys().nth(usize::from(which) % space.taken.len().max(1)).copied()
                {
                    space.taken.remove(&first);
                }
                let mut end = 100;
                for (first, count) in &space.taken {
                    prop_assert!(*first >= end, "{space:?}");
                    end = first + count;
                }
                prop_assert!(end <= 400);
            }
        }
    }
}
