//! The program's output on its way to ours: live and byte-exact.
//!
//! Our own output may be a pipe that nobody reads. Writing to it happens on a thread for blocking
//! work, so the clock of the sandbox goes on; what the program writes meanwhile is kept up to
//! `--output`, and what is dropped beyond that is counted.

use std::io;

use ringfence_sandbox::{Chunk, Output, Running};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Enough that the way to the writing thread and back does not count.
const AT_ONCE: usize = 1 << 20;

/// Bytes that were dropped because our reader was slower than the program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
}

/// Both streams of a program.
#[derive(Debug, Clone)]
pub(crate) struct Both {
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
}

impl Both {
    pub(crate) fn of(running: &Running) -> Self {
        Self { stdout: running.stdout.clone(), stderr: running.stderr.clone() }
    }

    /// Copies both to ours until they end; stops at the first write that fails.
    pub(crate) async fn relay(self) -> io::Result<Lost> {
        let (stdout, stderr) = tokio::try_join!(
            relay(&self.stdout, tokio::io::stdout()),
            relay(&self.stderr, tokio::io::stderr()),
        )?;
        Ok(Lost { stdout, stderr })
    }

    /// Nothing is copied: the report will have it all.
    pub(crate) async fn keep(self) -> io::Result<Lost> {
        Ok(Lost::default())
    }
}

async fn relay(output: &Output, mut to: impl AsyncWrite + Unpin) -> io::Result<u64> {
    let (mut offset, mut lost) = (0, 0);
    loop {
        match output.read(offset, AT_ONCE).await {
            Chunk::Data(bytes) => {
                to.write_all(&bytes).await?;
                to.flush().await?;
                offset += bytes.len() as u64;
            }
            Chunk::Gap { resume } => {
                lost += resume - offset;
                offset = resume;
            }
            Chunk::End => return Ok(lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_dropped_is_counted_and_the_rest_is_exact() {
        let output = Output::new(8);
        output.append(b"abcdefghijklmnop");
        output.close();
        let mut to = Vec::new();
        let lost = relay(&output, &mut to).await.expect("a vector takes everything");
        assert_eq!((to.as_slice(), lost), (&b"abcdefop"[..], 8));
    }
}
