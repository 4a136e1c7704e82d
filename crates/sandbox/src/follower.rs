//! Reader of an output that receives every byte.
//!
//! The program does not wait for readers by offset, which may find a gap. A follower gets every
//! byte: bytes it has not taken are kept, and while they exceed its bound the program's pipe is not
//! read, so the kernel blocks the program. The wall limit still applies, and ends a program whose
//! follower stops reading.
//!
//! Invariant: a backlog exceeds its bound by at most one read of the pipe, plus the content of the
//! pipe when the program ended.

use std::collections::VecDeque;

use crate::output::{Chunk, Output};

/// Reader that gets every byte of an output and blocks the program while it is behind. Dropping it
/// unblocks the program.
#[derive(Debug)]
pub struct Follower {
    output: Output,
}

impl Follower {
    pub(crate) fn of(output: Output) -> Self {
        Self { output }
    }

    /// Waits for the next bytes. A gap can only come first, if the follower began late. Cancel
    /// safe.
    pub async fn next(&mut self) -> Chunk {
        self.output.next_for_follower().await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.output.unfollow();
    }
}

/// Bytes that a follower has not taken yet.
#[derive(Debug)]
pub(crate) struct Backlog {
    chunks: VecDeque<Chunk>,
    /// Bytes of all chunks together.
    bytes: u64,
    /// Bytes by which the program may run ahead.
    ahead: u64,
}

/// Size up to which small writes are joined, to keep the overhead per chunk low.
const CHUNK: usize = 64 << 10;

impl Backlog {
    pub(crate) fn new(ahead: u64) -> Self {
        // With zero the program could never write.
        Self { chunks: VecDeque::new(), bytes: 0, ahead: ahead.max(1) }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.bytes < self.ahead
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        match self.chunks.back_mut() {
            Some(Chunk::Data(last)) if last.len() < CHUNK => last.extend_from_slice(bytes),
            _ => self.chunks.push_back(Chunk::Data(bytes.to_vec())),
        }
    }

    pub(crate) fn push_gap(&mut self, resume: u64) {
        self.chunks.push_back(Chunk::Gap { resume });
    }

    pub(crate) fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        if let Chunk::Data(bytes) = &chunk {
            self.bytes -= bytes.len() as u64;
        }
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn all(follower: &mut Follower) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        loop {
            match follower.next().await {
                Chunk::End => return chunks,
                chunk => chunks.push(chunk),
            }
        }
    }

    #[tokio::test]
    async fn a_follower_gets_every_byte_whatever_is_kept() {
        let output = Output::new(8);
        let mut follower = output.follow(1 << 20).expect("the first follower");
        output.append(b"abcdefghijklmnop");
        output.close();
        assert_eq!(all(&mut follower).await, [Chunk::Data(b"abcdefghijklmnop".to_vec())]);
        assert_eq!(output.kept(), b"abcdefop");
    }

    #[tokio::test]
    async fn a_late_follower_begins_with_what_is_kept_and_the_gap() {
        let output = Output::new(8);
        output.append(b"abcdefghijklmnop");
        let mut follower = output.follow(100).expect("the first follower");
        output.append(b"q");
        output.close();
        let expected = [
            Chunk::Data(b"abcdef".to_vec()),
            Chunk::Gap { resume: 14 },
            Chunk::Data(b"opq".to_vec()),
        ];
        assert_eq!(all(&mut follower).await, expected);
    }

    #[test]
    fn there_is_one_follower_at_a_time() {
        let output = Output::new(8);
        let first = output.follow(1);
        assert!(first.is_some() && output.follow(1).is_none());
        drop(first);
        assert!(output.follow(1).is_some());
    }

    #[tokio::test]
    async fn room_comes_back_when_the_follower_takes_or_goes() {
        let output = Output::new(8);
        let mut follower = output.follow(2).expect("the first follower");
        output.append(b"abc");
        assert!(!output.has_room());
        let (chunk, ()) = tokio::join!(follower.next(), output.room());
        assert_eq!(chunk, Chunk::Data(b"abc".to_vec()));
        output.append(b"def");
        assert!(!output.has_room());
        tokio::join!(output.room(), async { drop(follower) });
    }

    proptest! {
        #[test]
        fn chunks_are_the_writes_in_order_and_the_count_is_exact(
            writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            pops in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let (mut backlog, mut seen) = (Backlog::new(1), Vec::new());
            for (write, pop) in writes.iter().zip(pops) {
                backlog.push(write);
                if pop && let Some(Chunk::Data(bytes)) = backlog.pop() {
                    seen.extend(bytes);
                }
            }
            let held = backlog.bytes;
            let before = seen.len() as u64;
            while let Some(Chunk::Data(bytes)) = backlog.pop() {
                seen.extend(bytes);
            }
            prop_assert_eq!(seen.len() as u64, before + held);
            prop_assert_eq!(seen, writes.concat());
            prop_assert!(backlog.has_room());
        }
    }
}
