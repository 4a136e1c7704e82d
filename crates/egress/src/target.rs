//! URL to fetch, parsed once.
//!
//! There is one parser (that of the URL standard, which the HTTP client uses too), so the vetted and
//! the dialled host cannot differ. Spellings that only serve to confuse a second parser are refused
//! instead of repaired.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use reqwest::Url;

use crate::host::{Host, Name};

/// Length limit of a URL, as in servers and proxies.
const MAX_URL_BYTES: usize = 8192;

/// URL scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS, with the certificate verified.
    Https,
}

/// Reason why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    /// The URL is too long.
    #[error("is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// The scheme is missing or not supported.
    #[error("does not start with `http://` or `https://`")]
    Scheme,
    /// White space, control characters or backslashes, which parsers repair in different ways.
    #[error("contains white space, a control character or a backslash")]
    Character,
    /// Not a URL by the standard.
    #[error("cannot be parsed")]
    Malformed,
    /// User or password, which would be sent to the host.
    #[error("carries a user name or password")]
    Userinfo,
    /// Host that is neither a domain name nor an address.
    #[error("names no valid host")]
    Host,
    /// Port 0.
    #[error("names no valid port")]
    Port,
}

/// URL to fetch: http or https, a typed host, no user, no fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Agrees with the fields below; kept by `from_url`, the only constructor.
    url: Url,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Target {
    /// Parses an absolute URL.
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        check_text(text)?;
        if !has_written_scheme(text) {
            return Err(UrlProblem::Scheme);
        }
        Self::from_url(Url::parse(text).map_err(|_| UrlProblem::Malformed)?)
    }

    /// Parses a reference relative to this URL, as in a redirect.
    pub fn join(&self, reference: &str) -> Result<Self, UrlProblem> {
        check_text(reference)?;
        Self::from_url(self.url.join(reference).map_err(|_| UrlProblem::Malformed)?)
    }

    /// Scheme of the URL.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Host of the URL.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Port of the URL, or of the scheme if none was written. Never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether both URLs lead to the same server in the same way.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Path of the URL, without the query.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// Host as a URL spells it: an IPv6 address in brackets.
    pub(crate) fn bare_host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Host and, unless it is that of the scheme, port: the value of a `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.bare_host()),
            None => self.bare_host().to_owned(),
        }
    }

    /// Normalized text of the URL.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Socket address for this URL at `address`.
    pub(crate) fn at(&self, address: IpAddr) -> SocketAddr {
        SocketAddr::new(address, self.port)
    }

    fn from_url(mut url: Url) -> Result<Self, UrlProblem> {
        let scheme = scheme(&url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlProblem::Userinfo);
        }
        let host = host(&url)?;
        respell(&mut url, &host)?;
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or(UrlProblem::Port)?;
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(UrlProblem::TooLong);
        }
        Ok(Self { url, scheme, host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

fn check_text(text: &str) -> Result<(), UrlProblem> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    match text {
        _ if text.len() > MAX_URL_BYTES => Err(UrlProblem::TooLong),
        _ if text.contains(odd) => Err(UrlProblem::Character),
        _ => Ok(()),
    }
}

/// Whether the scheme is followed by `://`. The standard also reads `http:host` and `http:/host`; a
/// prefix check elsewhere would not.
fn has_written_scheme(text: &str) -> bool {
    let starts = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts("http://") || starts("https://")
}

fn scheme(url: &Url) -> Result<Scheme, UrlProblem> {
    match url.scheme() {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        _ => Err(UrlProblem::Scheme),
    }
}

/// Host of a parsed URL. The parser leaves IPv6 in brackets and every spelling of IPv4 in dotted form.
fn host(url: &Url) -> Result<Host, UrlProblem> {
    let text = url.host_str().ok_or(UrlProblem::Host)?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse() {
        Ok(address) => Ok(Host::Address(address)),
        Err(_) => Name::from_url(text).map(Host::Name).map_err(|_| UrlProblem::Host),
    }
}

/// Removes the trailing dot of the name, so that the client requests exactly what was vetted, and the
/// fragment, which is not sent to servers.
fn respell(url: &mut Url, expected: &Host) -> Result<(), UrlProblem> {
    url.set_fragment(None);
    if let Host::Name(name) = expected {
        url.set_host(Some(name.as_str())).map_err(|_| UrlProblem::Host)?;
    }
    if host(url)? == *expected { Ok(()) } else { Err(UrlProblem::Host) }
}
