//! Limits of the edge, chosen by the operator.

use std::time::Duration;

use ringfence_access::Rate;

/// Limits of the edge. Every one is finite: a client can be slow, greedy or many.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Bytes of a request body at most.
    pub max_body: usize,
    /// Bytes of an uploaded skill or file at most.
    pub max_upload: usize,
    /// Bytes of all large request bodies together while they arrive.
    pub max_bodies_together: usize,
    /// Header fields of a request at most.
    pub max_headers: usize,
    /// Bytes of a request's line and header together.
    pub max_header_bytes: usize,
    /// Time for a client to send a header, and for a connection to be idle.
    pub header_timeout: Duration,
    /// Time for a new connection to send its first header.
    pub first_header_timeout: Duration,
    /// Time for a client to send a body.
    pub request_timeout: Duration,
    /// Time without a byte of an answer taken by the client after which its connection is closed.
    pub write_timeout: Duration,
    /// Connections at one time. When there are as many, one that has shown no key is closed for a
    /// new one; if there is none, the new one waits a second for room and is told to come back.
    pub max_connections: usize,
    /// Event streams at one time.
    pub max_streams: usize,
    /// Event streams per key at one time.
    pub max_streams_per_key: usize,
    /// Wait for a call of a request that does not say.
    pub default_wait: Duration,
    /// Wait for a call that a request may ask for at most.
    pub max_wait: Duration,
    /// Rate of requests of a key; any rate without one.
    pub rate: Option<Rate>,
    /// Silence on an event stream after which a comment is sent.
    pub heartbeat: Duration,
    /// Names beside loopback ones by which a server on loopback may be called.
    pub allowed_hosts: Vec<String>,
    /// Time for requests to end after the server was told to stop.
    pub grace: Duration,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            max_body: 4 << 20,
            max_upload: 32 << 20,
            max_bodies_together: 128 << 20,
            max_headers: 100,
            max_header_bytes: 32 << 10,
            header_timeout: Duration::from_secs(30),
            first_header_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_connections: 2_048,
            max_streams: 512,
            max_streams_per_key: 64,
            default_wait: Duration::from_secs(30),
            max_wait: Duration::from_secs(300),
            // Far above what two cores can serve: it stops a client that ran wild, and the
            // operator lowers it where keys are handed to strangers.
            rate: Some(Rate { per_second: 20_000, burst: 20_000 }),
            heartbeat: Duration::from_secs(10),
            allowed_hosts: Vec::new(),
            grace: Duration::from_secs(10),
        }
    }
}
