//! How a fetch fails.
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

/// A cause below us, kept whole for the log.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// A fetch that brought nothing back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a URL to fetch from.
    #[error("url {0}")]
    UrlInvalid(#[from] UrlProblem),
    /// The list of hosts for this fetch does not name the host.
    #[error("host `{host}` is not on the list of permitted hosts")]
    HostRefused {
        /// As the caller or a redirect wrote it.
        host: Host,
    },
    /// The host is, or resolves to, what must not be reached.
    #[error("host `{host}` leads to {why}, which is out of reach")]
    AddressRefused {
        /// As the caller or a redirect wrote it; not what it resolved to.
        host: Host,
        /// What kind of address it is.
        why: Refused,
    },
    /// The name has no addresses, or nobody could say.
    #[error("host `{name}` cannot be resolved")]
    DnsFailed {
        /// The name that was asked for.
        name: Name,
        /// What the resolver said.
        source: io::Error,
    },
    /// No name server answered in time.
    #[error("host `{name}` was not resolved within {after:?}: its name servers do not answer")]
    DnsTimeout {
        /// The name that was asked for.
        name: Name,
        /// How long an answer was waited for.
        after: Duration,
    },
    /// As many lookups as may run, for this tenant or in all, wait for their name servers.
    #[error(
        "host `{name}` was not looked up: too many lookups wait for an answer; try again later"
    )]
    DnsBusy {
        /// The name that was asked for.
        name: Name,
    },
    /// No vetted address accepted a connection.
    #[error("host `{host}` cannot be connected to")]
    ConnectFailed {
        /// Whom we dialled.
        host: Host,
        /// What the network said; it may name addresses.
        source: Cause,
    },
    /// The host did not prove who it is, or does not speak TLS.
    #[error("host `{host}` failed the TLS handshake")]
    TlsFailed {
        /// Whom we dialled.
        host: Host,
        /// What the verification said.
        source: Cause,
    },
    /// The whole fetch, all hops together, took too long.
    #[error("fetch took longer than {after:?}")]
    Timeout {
        /// The time it was given.
        after: Duration,
    },
    /// The response is larger than we are willing to hold.
    #[error("{part} of the response exceed {limit}")]
    TooLarge {
        /// Which part.
        part: Part,
        /// What would have been acceptable.
        limit: String,
    },
    /// Redirects that lead on and on, perhaps in a circle.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// How many are followed.
        limit: usize,
    },
    /// A redirect that is not followed.
    #[error("redirect refused: it {0}")]
    RedirectRefused(#[from] RedirectProblem),
    /// The server answered, but not with success.
    #[error("server answered with status {status}")]
    HttpStatus {
        /// The status of the last hop.
        status: u16,
    },
    /// What came is not HTTP, contradicts itself, or ended before its end.
    #[error("host `{host}` sent a broken response")]
    ResponseInvalid {
        /// Who sent it.
        host: Host,
        /// What is wrong with it.
        source: Cause,
    },
    /// We could not prepare the connection: a fault of this machine, such as a vanished CA store.
    #[error("fetch could not be set up")]
    Setup(#[from] SetupError),
}

impl Error {
    /// The stable name of this error, for APIs and documentation.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UrlInvalid(_) => ErrorCode::UrlInvalid,
            Self::HostRefused { .. } => ErrorCode::HostRefused,
            Self::AddressRefused { .. } => ErrorCode::AddressRefused,
            Self::DnsFailed { .. } => ErrorCode::DnsFailed,
            Self::DnsTimeout { .. } => ErrorCode::DnsTimeout,
            Self::DnsBusy { .. } => ErrorCode::DnsBusy,
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

/// The part of a response that was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Their number or their size together.
    Headers,
    /// The body as sent; it is never decompressed.
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

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectProblem {
    /// No single `Location`.
    #[error("names no location, or several")]
    Location,
    /// A `Location` that is not a URL to fetch from.
    #[error("leads to a url that {0}")]
    Url(UrlProblem),
    /// From TLS to plain text, where the answer can be forged.
    #[error("leads from https to http")]
    Downgrade,
}

/// The means of fetching are missing on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Nobody is trusted, so no server could ever prove who it is.
    #[error(
        "no usable root certificates: install the system's CA certificates or point SSL_CERT_FILE \
         at a bundle"
    )]
    Roots {
        /// What the TLS library said.
        source: Cause,
    },
    /// The HTTP client could not be built for another reason.
    #[error("the HTTP client cannot be built")]
    Client {
        /// What it said.
        source: Cause,
    },
}
