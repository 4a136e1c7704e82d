//! Limits of one proxy.

use std::time::Duration;

use ringfence_types::Bytes;

/// Limits of one proxy, that is of all programs of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections at one time.
    pub connections: usize,
    /// Bytes in both directions together.
    pub bytes: Bytes,
    /// Bytes per second in both directions together; one second's worth may come at once.
    pub bytes_per_sec: Bytes,
    /// Time for the header of a request, and for connecting to a server.
    pub header_timeout: Duration,
    /// Time without progress after which a connection is closed.
    pub idle: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            // Half of what a sandbox may have in sockets: both ends are in its network.
            connections: 64,
            bytes: Bytes::gib(1),
            bytes_per_sec: Bytes::mib(64),
            header_timeout: Duration::from_secs(15),
            idle: Duration::from_secs(120),
        }
    }
}
