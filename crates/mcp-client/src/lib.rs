//! Client of MCP servers of others, for tools that they offer.
//!
//! The protocol is `rmcp`'s. This crate bounds it, because the other side is not trusted: the size of a
//! message, the number of tools, the rate of unasked messages and the time of every answer. What a
//! server asks of its client (models, input of a person, folders) is refused.
//!
//! Contents: `connection` is what the engine uses; `pipe` frames messages on standard input and output;
//! `http` sends them by the guarded client; `guard` stands between either and the protocol library.
//!
//! Invariants:
//! - nothing of a server is kept in memory beyond [`ClientLimits::max_message`] and what is asked for;
//! - a connection that breaks a bound is closed with the reason, and harms no other.

mod connection;
mod guard;
mod http;
mod pipe;
mod rate;

use std::time::Duration;

pub use self::{
    connection::{Answer, Connection, Endpoint, Progress, RemoteTool},
    pipe::Pipe,
};

/// Bounds of one connection.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// Bytes of one message.
    pub max_message: usize,
    /// Tools of one server.
    pub max_tools: usize,
    /// Time to connect, and to answer each question but a call.
    pub answer_timeout: Duration,
    /// Unasked messages at once, and per second after that.
    pub burst: u32,
    /// Unasked messages per second.
    pub per_second: u32,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            max_message: 4 << 20,
            max_tools: 256,
            answer_timeout: Duration::from_secs(30),
            burst: 200,
            per_second: 50,
        }
    }
}

/// Reason why a connection or a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server closed the connection, or could not be reached.
    #[error("the MCP server is not reachable: {0}")]
    Unreachable(String),
    /// The server did not answer in time.
    #[error("the MCP server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The server broke a bound.
    #[error("the MCP server {0}")]
    Bound(String),
    /// The server refused the request.
    #[error("the MCP server refused the request: {0}")]
    Refused(String),
    /// The server needs something of its client that it is not given.
    #[error("the tool asks for {0}, which is not given to MCP servers")]
    Asks(&'static str),
}

/// The beginning of a text of others, without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
