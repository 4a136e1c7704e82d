//! Kept connection of the open-loop generator.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::load::http::{self, Head};

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Right,
    /// The service refused because it is overloaded.
    Refused,
    Wrong,
}

/// Connection with its read buffer.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request and reads the whole answer. After an error the connection is unusable.
    pub(super) async fn ask(&mut self, request: &[u8], mark: &str) -> Result<Reply> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = self.read_head().await?;
        let end = head.bytes + head.body_bytes;
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        Ok(reply(head, &self.buffer[head.bytes..end], mark))
    }

    async fn read_head(&mut self) -> Result<Head> {
        loop {
            if let Some(head) = http::head(&self.buffer)? {
                return Ok(head);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection ended");
        }
        Ok(())
    }
}

fn reply(head: Head, body: &[u8], mark: &str) -> Reply {
    let is_marked = body.windows(mark.len()).any(|window| window == mark.as_bytes());
    match head.status {
        200 if is_marked => Reply::Right,
        429 | 503 => Reply::Refused,
        _ => Reply::Wrong,
    }
}
