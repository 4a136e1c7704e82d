//! Errors of a fetch.
//!
//! The text of an error is for the caller: it names what the caller or the remote server wrote and
//! never an address that was resolved. The source is for the operator's log.

use std::{error::Error as StdError, io, time::Duration};

use ringfence_types::ErrorCode;

use crate::{
    host::{Host, Name},
    target::UrlProblem,
    vet::Refused,
};

/// Underlying cause, kept whole for the log.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Failure of a fetch.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is invalid or not supported.
    #[error("url {0}")]
    UrlInvalid(#[from] UrlProblem),
    /// A header of the caller is reserved.
    #[error("header `{name}` is set by the server and cannot be given")]
    HeaderRefused {
        /// The header.
        name: http::HeaderName,
    },
    /// The host is not in the list of permitted hosts.
    #[error("host `{host}` is not on the list of permitted hosts")]
    HostRefused {
        /// Host as the caller or a redirect wrote it.
        host: Host,
    },
    /// The host is, or resolves to, a forbidden address.
    #[error("host `{host}` leads to {why}, which is out of reach")]
    AddressRefused {
        /// Host as the caller or a redirect wrote it; not the resolved address.
        host: Host,
        /// Kind of address.
        why: Refused,
    },
    /// The name has no addresses, or the lookup failed.
    #[error("host `{name}` cannot be resolved")]
    DnsFailed {
        /// Name that was looked up.
        name: Name,
        /// Error of the resolver.
        source: io::Error,
    },
    /// No name server answered in time.
    #[error("host `{name}` was not resolved within {after:?}: its name servers do not answer")]
    DnsTimeout {
        /// Name that was looked up.
        name: Name,
        /// Time limit of the lookup.
        after: Duration,
    },
    /// Too many lookups are in flight, for this tenant or in all.
    #[error(
        "host `{name}` was not looked up: too many lookups wait for an answer; try again later"
    )]
    DnsBusy {
        /// Name that was not looked up.
        name: Name,
    },
    /// A secret that the request needs is not available, or may not be sent this way.
    #[error("request to host `{host}` refused: {problem}")]
    SecretRefused {
        /// Host of the request.
        host: Host,
        /// Reason, with the name of the secret.
        problem: String,
    },
    /// No vetted address accepted a connection.
    #[error("host `{host}` cannot be connected to")]
    ConnectFailed {
        /// Host that was dialled.
        host: Host,
        /// Error of the network; it may name addresses.
        source: Cause,
    },
    /// The host's certificate is invalid, or the host does not speak TLS.
    #[error("host `{host}` failed the TLS handshake")]
    TlsFailed {
        /// Host that was dialled.
        host: Host,
        /// Error of the verification.
        source: Cause,
    },
    /// The whole fetch, all hops together, or one phase of an exchange took too long.
    #[error("{phase} took longer than {after:?}")]
    Timeout {
        /// Phase that took too long.
        phase: Phase,
        /// Time limit of the phase.
        after: Duration,
    },
    /// The response is too large.
    #[error("{part} of the response exceed {limit}")]
    TooLarge {
        /// Part that is too large.
        part: Part,
        /// Limit of that part.
        limit: String,
    },
    /// Too many redirects, perhaps in a cycle.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// Limit of redirects.
        limit: usize,
    },
    /// The redirect is not followed.
    #[error("redirect refused: it {0}")]
    RedirectRefused(#[from] RedirectProblem),
    /// The server answered with a status other than success.
    #[error("server answered with status {status}")]
    HttpStatus {
        /// Status of the last hop.
        status: u16,
    },
    /// The response is not valid HTTP, contradicts itself, or ended early.
    #[error("host `{host}` sent a broken response")]
    ResponseInvalid {
        /// Host that sent it.
        host: Host,
        /// Problem of the response.
        source: Cause,
    },
    /// The connection could not be prepared: a fault of this machine, such as a missing CA store.
    #[error("fetch could not be set up")]
    Setup(#[from] SetupError),
}

impl Error {
    /// Stable code of this error, for APIs and documentation.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UrlInvalid(_) => ErrorCode::UrlInvalid,
            Self::HeaderRefused { .. } => ErrorCode::HeaderInvalid,
            Self::HostRefused { .. } => ErrorCode::HostRefused,
            Self::AddressRefused { .. } => ErrorCode::AddressRefused,
            Self::DnsFailed { .. } => ErrorCode::DnsFailed,
            Self::DnsTimeout { .. } => ErrorCode::DnsTimeout,
            Self::DnsBusy { .. } => ErrorCode::DnsBusy,
            Self::SecretRefused { .. } => ErrorCode::SecretUnavailable,
            Self::ConnectFailed { .. } => ErrorCode::ConnectFailed,
            Self::TlsFailed { .. } => ErrorCode::TlsFailed,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::TooManyRedirects { .. } => ErrorCode::TooManyRedirects,
            Self::RedirectRefused(_) => ErrorCode::RedirectRefused,
            Self::HttpStatus { .. } => ErrorCode::HttpStatus,
            Self::ResponseInvalid { .. } => ErrorCode::ResponseInvalid,
            Self::Setup(_) => ErrorCode::SetupFailed,
        }
    }
}

/// Phase of an exchange with a time limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Name lookup, connection and TLS handshake.
    Connect,
    /// From the sent request to the headers of the answer.
    FirstByte,
    /// Between two parts of the body.
    Idle,
    /// Everything together.
    Total,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Connect => "connecting",
            Self::FirstByte => "the first byte of the answer",
            Self::Idle => "the next part of the answer",
            Self::Total => "fetch",
        })
    }
}

/// Part of a response that was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Headers, by number or total size.
    Headers,
    /// Body as sent; it is never decompressed.
    Body,
}

impl std::fmt::Display for Part {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Headers => "the headers",
            Self::Body => "the bytes of the body",
        })
    }
}

/// Reason why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectProblem {
    /// There is no single `Location`.
    #[error("names no location, or several")]
    Location,
    /// The `Location` is not a valid URL.
    #[error("leads to a url that {0}")]
    Url(UrlProblem),
    /// Downgrade from TLS to plain text, where the answer can be forged.
    #[error("leads from https to http")]
    Downgrade,
}

/// Missing prerequisite of fetching on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There are no root certificates, so no server could be verified.
    #[error(
        "no usable root certificates: install the system's CA certificates or point SSL_CERT_FILE \
         at a bundle"
    )]
    Roots {
        /// Error of the TLS library.
        source: Cause,
    },
    /// The HTTP client could not be built for another reason.
    #[error("the HTTP client cannot be built")]
    Client {
        /// Error of the HTTP library.
        source: Cause,
    },
}
