//! Messages on standard input and output: one per line, each of a bounded size.

use std::{io, sync::Arc};

use async_trait::async_trait;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use crate::guard::Verdict;

/// Standard input and output of a program.
#[async_trait]
pub trait Pipe: Send + Sync + 'static {
    /// Writes all of it to the input of the program.
    async fn write(&self, bytes: &[u8]) -> io::Result<()>;

    /// The next bytes of its output; `None` at its end. Cancelling the wait loses nothing, and the
    /// program is blocked while it is not read.
    async fn read(&self) -> Option<Vec<u8>>;
}

/// The transport of a pipe.
pub(crate) struct Lines {
    pipe: Arc<dyn Pipe>,
    /// Bytes that are not a whole line yet.
    rest: Vec<u8>,
    /// Bytes of `rest` that are known to hold no line break.
    searched: usize,
    max_message: usize,
    verdict: Verdict,
}

impl Lines {
    pub(crate) fn new(pipe: Arc<dyn Pipe>, max_message: usize, verdict: Verdict) -> Self {
        Self { pipe, rest: Vec::new(), searched: 0, max_message, verdict }
    }

    /// The next whole line.
    fn line(&mut self) -> Option<Vec<u8>> {
        let found = self.rest[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(at) = found.map(|at| at + self.searched) else {
            self.searched = self.rest.len();
            return None;
        };
        let after = self.rest.split_off(at + 1);
        let mut line = std::mem::replace(&mut self.rest, after);
        self.searched = 0;
        line.truncate(at);
        Some(line)
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (pipe, line) = (self.pipe.clone(), serde_json::to_vec(&item));
        async move {
            let mut line = line.map_err(io::Error::other)?;
            line.push(b'\n');
            pipe.write(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(line) = self.line() {
                // A line that is no message is chatter of some program on standard output.
                if let Ok(message) = serde_json::from_slice(&line) {
                    return Some(message);
                }
            }
            if self.rest.len() > self.max_message {
                let most = self.max_message;
                let _ = self.verdict.set(format!("sent a message of more than {most} bytes"));
                return None;
            }
            let bytes = self.pipe.read().await?;
            self.rest.extend_from_slice(&bytes);
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}
