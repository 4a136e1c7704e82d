//! Cache of answers.
//!
//! Bounded in entries and bytes. Entries live in two generations: when the young one is full it
//! replaces the old one, so there is no search for an entry to evict.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use ringfence_types::Digest;

use crate::Answer;

/// Shards, each with its own lock, so that cores rarely contend.
const SHARDS: usize = 16;
/// Entries in one generation of one shard.
const MAX_ENTRIES: usize = 256;
/// Text size above which an answer is not cached.
const MAX_TEXT_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<Digest, Arc<Answer>>,
    old: HashMap<Digest, Arc<Answer>>,
}

impl Cache {
    pub(super) fn get(&self, key: &Digest) -> Option<Answer> {
        let found = self.with(key, |shard| shard.get(key));
        found.map(|answer| Answer::clone(&answer))
    }

    pub(super) fn put(&self, key: Digest, answer: &Answer) {
        let text: usize = answer.reasons.iter().map(|r| r.rule.len() + r.message.len()).sum();
        if text <= MAX_TEXT_BYTES {
            let answer = Arc::new(answer.clone());
            self.with(&key, |shard| shard.put(key, answer));
        }
    }

    fn with<T>(&self, key: &Digest, act: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = &self.shards[usize::from(key.as_bytes()[0]) % SHARDS];
        act(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shard {
    fn get(&mut self, key: &Digest) -> Option<Arc<Answer>> {
        if let Some(answer) = self.young.get(key) {
            return Some(Arc::clone(answer));
        }
        let answer = self.old.remove(key)?;
        self.put(*key, Arc::clone(&answer));
        Some(answer)
    }

    fn put(&mut self, key: Digest, answer: Arc<Answer>) {
        if self.young.len() >= MAX_ENTRIES {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use ringfence_types::{Obligations, Reason, Verdict};

    use super::*;

    fn answer(message: &str) -> Answer {
        let reason = Reason { rule: "r".to_owned(), message: message.to_owned() };
        Answer {
            verdict: Verdict::Allow,
            reasons: vec![reason],
            obligations: Obligations::default(),
            approvals: None,
            policy: Digest::of(b"rules"),
        }
    }

    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let cache = Cache::default();
        let used = Digest::of(b"used");
        cache.put(used, &answer("used"));
        for index in 0..50_000_u32 {
            let key = Digest::of(&index.to_be_bytes());
            cache.put(key, &answer("other"));
            assert_eq!(cache.get(&key), Some(answer("other")));
            assert_eq!(cache.get(&used), Some(answer("used")), "after {index}");
        }
        let sizes = cache.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap();
            shard.young.len() + shard.old.len()
        });
        assert!(sizes.sum::<usize>() <= 2 * SHARDS * MAX_ENTRIES);
    }

    #[test]
    fn a_long_answer_is_not_kept() {
        let cache = Cache::default();
        let key = Digest::of(b"long");
        cache.put(key, &answer(&"x".repeat(MAX_TEXT_BYTES)));
        assert_eq!(cache.get(&key), None);
    }
}
