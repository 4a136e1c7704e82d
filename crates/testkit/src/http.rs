//! Minimal HTTP client, one connection per request: enough to set up a server and to check its health.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Body as text.
    pub body: String,
}

impl Answer {
    /// Body as JSON.
    ///
    /// # Panics
    ///
    /// If the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Sends a GET request.
pub fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    ask(address, "GET", path, "")
}

/// Sends JSON by POST.
pub fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Answer> {
    ask(address, "POST", path, &body.to_string())
}

/// Sends a request by HTTP/1.0, so that the end of the connection is the end of the answer.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT).context("connect")?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).context("bound the wait")?;
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
