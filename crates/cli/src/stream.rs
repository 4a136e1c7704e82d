//! Relay of a program's output: live and byte-exact.
//!
//! Our own output may be a pipe without a reader. Writing to it happens on a blocking thread, so
//! the clock of the sandbox goes on. A program that is too far ahead of our reader is blocked at
//! its own pipe until the reader caught up: nothing is lost, and our memory is bounded.

use std::{cell::Cell, io, time::Duration};

use ringfence_sandbox::{Chunk, Follower, Output};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Time after which a reader that takes nothing counts as stalled, once the program's time is over.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Both output streams of a program.
#[derive(Debug)]
pub(crate) struct Both {
    stdout: Follower,
    stderr: Follower,
}

impl Both {
    /// Follows both streams; the program may be `ahead` bytes ahead of our reader on each. `None`
    /// if one of them has another reader.
    pub(crate) fn follow(stdout: &Output, stderr: &Output, ahead: u64) -> Option<Self> {
        Some(Self { stdout: stdout.follow(ahead)?, stderr: stderr.follow(ahead)? })
    }

    /// Copies both to ours until they end, and counts; stops at the first write that fails.
    pub(crate) async fn relay(self, delivered: &Cell<u64>) -> io::Result<()> {
        let stdout = relay(self.stdout, tokio::io::stdout(), delivered);
        let stderr = relay(self.stderr, tokio::io::stderr(), delivered);
        tokio::try_join!(stdout, stderr).map(drop)
    }
}

async fn relay(
    mut from: Follower,
    mut to: impl AsyncWrite + Unpin,
    delivered: &Cell<u64>,
) -> io::Result<()> {
    loop {
        match from.next().await {
            Chunk::Data(bytes) => {
                to.write_all(&bytes).await?;
                to.flush().await?;
                delivered.set(delivered.get() + bytes.len() as u64);
            }
            // Only output from before the start of the relay can be missing, and there is none.
            Chunk::Gap { .. } => {}
            Chunk::End => return Ok(()),
        }
    }
}

/// Waits for the rest to be delivered; `None` if the reader takes nothing for `stall_timeout`.
pub(crate) async fn unless_stalled<T>(
    mut relaying: impl Future<Output = T> + Unpin,
    delivered: &Cell<u64>,
    stall_timeout: Duration,
) -> Option<T> {
    loop {
        let before = delivered.get();
        match tokio::time::timeout(stall_timeout, &mut relaying).await {
            Ok(done) => return Some(done),
            Err(_) if delivered.get() == before => return None,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_delivered_whatever_is_kept() {
        let (output, delivered) = (Output::new(8), Cell::new(0));
        let follower = output.follow(1).expect("the first follower");
        output.append(b"abcdefghijklmnop");
        output.close();
        let mut to = Vec::new();
        relay(follower, &mut to, &delivered).await.expect("a vector takes everything");
        assert_eq!((to.as_slice(), delivered.get()), (&b"abcdefghijklmnop"[..], 16));
    }

    #[tokio::test]
    async fn a_reader_that_is_slow_is_waited_for_and_one_that_stalls_is_not() {
        let (delivered, stall_timeout) = (Cell::new(0), Duration::from_millis(50));
        let slow = async {
            for _ in 0..5 {
                tokio::time::sleep(stall_timeout / 2).await;
                delivered.set(delivered.get() + 1);
            }
        };
        assert_eq!(unless_stalled(Box::pin(slow), &delivered, stall_timeout).await, Some(()));
        let never = std::future::pending::<()>();
        assert_eq!(unless_stalled(never, &delivered, stall_timeout).await, None);
    }
}
