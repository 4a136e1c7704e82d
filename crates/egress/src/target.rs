//! A URL that may be fetched from, parsed once.
//!
//! There is one parser (that of the URL standard, which the HTTP client uses too), so what is
//! vetted and what is dialled cannot disagree about who the host is. Spellings that only ever serve
//! to confuse a second reader are refused instead of repaired.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use reqwest::Url;

use crate::host::{Host, Name};

/// Servers and proxies stop at about this length; no honest URL comes near.
const LONGEST_URL: usize = 8192;

/// How to speak to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS, with the certificate verified.
    Https,
}

/// Why a text is not a URL to fetch from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    /// Longer than any honest URL.
    #[error("is longer than {LONGEST_URL} bytes")]
    TooLong,
    /// Another scheme, or none written out.
    #[error("does not start with `http://` or `https://`")]
    Scheme,
    /// White space, control characters or backslashes, which parsers repair in different ways.
    #[error("contains white space, a control character or a backslash")]
    Character,
    /// Not a URL by the standard.
    #[error("cannot be parsed")]
    Malformed,
    /// A user or password, which would be sent to the host.
    #[error("carries a user name or password")]
    Userinfo,
    /// A host that is neither a domain name nor an address.
    #[error("names no valid host")]
    Host,
    /// Port 0, which no server has.
    #[error("names no valid port")]
    Port,
}

/// A URL to fetch from: http or https, a typed host, no user, no fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Agrees with the fields below; kept by `from_url`, the only constructor.
    url: Url,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Target {
    /// Reads an absolute URL.
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        check_text(text)?;
        if !has_written_scheme(text) {
            return Err(UrlProblem::Scheme);
        }
        Self::from_url(Url::parse(text).map_err(|_| UrlProblem::Malformed)?)
    }

    /// Reads a reference relative to this URL, as a redirect carries it.
    pub fn join(&self, reference: &str) -> Result<Self, UrlProblem> {
        check_text(reference)?;
        Self::from_url(self.url.join(reference).map_err(|_| UrlProblem::Malformed)?)
    }

    /// How to speak to the host.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whom to speak to.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, that of the scheme if none was written. Never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL in its one spelling.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Where `address` is reached for this URL.
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
        if url.as_str().len() > LONGEST_URL {
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
        _ if text.len() > LONGEST_URL => Err(UrlProblem::TooLong),
        _ if text.contains(odd) => Err(UrlProblem::Character),
        _ => Ok(()),
    }
}

/// The standard also reads `http:host` and `http:/host`; a prefix check elsewhere would not.
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

/// The parser leaves IPv6 in brackets and every spelling of IPv4 in dotted form.
fn host(url: &Url) -> Result<Host, UrlProblem> {
    let text = url.host_str().ok_or(UrlProblem::Host)?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse() {
        Ok(address) => Ok(Host::Address(address)),
        Err(_) => Name::from_url(text).map(Host::Name).map_err(|_| UrlProblem::Host),
    }
}

/// Writes the name without its trailing dot, so that the client asks for exactly what was vetted,
/// and drops the fragment, which is not the server's business.
fn respell(url: &mut Url, expected: &Host) -> Result<(), UrlProblem> {
    url.set_fragment(None);
    if let Host::Name(name) = expected {
        url.set_host(Some(name.as_str())).map_err(|_| UrlProblem::Host)?;
    }
    if host(url)? == *expected { Ok(()) } else { Err(UrlProblem::Host) }
}
