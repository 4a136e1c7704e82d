//! One request, one answer, one connection: enough to set up a server and to see whether it serves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Asks for a path.
pub fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    ask(address, "GET", path, "")
}

/// Sends JSON.
pub fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Answer> {
    ask(address, "POST", path, &body.to_string())
}

/// In HTTP/1.0, so that the end of the connection is the end of the answer.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE)).context("bound the wait")?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .context("send")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer { status: status.context("no status")?, body: body.to_owned() })
}
