//! Check of the `Host` and `Origin` headers.
//!
//! A server on loopback is reached by every program of this machine, also by a browser that shows
//! a hostile page. Such a page can point a name of its own at 127.0.0.1; the name then stands in
//! `Host`. And it can send requests across origins; the page then stands in `Origin`.

use http::{HeaderMap, Uri, header};

use crate::{problem::Problem, problem_codes};

/// Refuses foreign names and foreign pages.
pub(crate) fn check(
    headers: &HeaderMap,
    uri: &Uri,
    is_loopback: bool,
    allowed: &[String],
) -> Result<(), Problem> {
    let host = host(headers, uri)?;
    if is_loopback && !is_local(host) && !allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
    {
        let detail = "a server on loopback is called `localhost`, `127.0.0.1` or `[::1]`";
        return Err(Problem::new(&problem_codes::HOST_FOREIGN, detail));
    }
    match headers.get(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if is_own(origin.as_bytes(), headers, uri) => Ok(()),
        Some(_) => {
            let detail = "requests from pages of another origin are not answered";
            Err(Problem::new(&problem_codes::ORIGIN_FOREIGN, detail))
        }
    }
}

/// Name and port as the client wrote them.
fn authority<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST)?.to_str().ok(),
    }
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Result<&'a str, Problem> {
    let invalid =
        || Problem::new(&problem_codes::HEADER_INVALID, "exactly one valid `Host` is required");
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Err(invalid());
    }
    let name = without_port(authority(headers, uri).ok_or_else(invalid)?);
    if name.is_empty() || name.contains(['@', '/', ' ']) { Err(invalid()) } else { Ok(name) }
}

fn without_port(authority: &str) -> &str {
    let end = match authority.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(bracket) => bracket + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    &authority[..end]
}

/// Names that mean this machine to every client, without asking a name server.
fn is_local(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let name = host.trim_end_matches('.');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.ends_with(".localhost")
        || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn is_own(origin: &[u8], headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(authority) = authority(headers, uri) else { return false };
    let own = |scheme: &str| {
        origin
            .strip_prefix(scheme.as_bytes())
            .is_some_and(|rest| rest.eq_ignore_ascii_case(authority.as_bytes()))
    };
    own("http://") || own("https://")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn ask(pairs: &[(&'static str, &str)], is_loopback: bool) -> Result<(), &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        check(&headers, &Uri::from_static("/"), is_loopback, &["box.example".to_owned()])
            .map_err(|problem| problem.code().code)
    }

    #[test]
    fn loopback_has_few_names() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:7420",
            "[::1]:7420",
            "a.localhost",
            "box.example",
            "127.9.9.9",
        ] {
            assert_eq!(ask(&[("host", host)], true), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[fe80::1]",
            "0.0.0.0",
        ] {
            assert_eq!(ask(&[("host", host)], true), Err("host_foreign"), "{host}");
            assert_eq!(ask(&[("host", host)], false), Ok(()), "{host}");
        }
        for pairs in [&[][..], &[("host", "")], &[("host", "a@b")], &[("host", "a"), ("host", "b")]]
        {
            assert_eq!(ask(pairs, true), Err("header_invalid"), "{pairs:?}");
        }
    }

    #[test]
    fn only_our_own_pages_may_ask() {
        let host = ("host", "localhost:7420");
        assert_eq!(ask(&[host, ("origin", "http://localhost:7420")], true), Ok(()));
        for origin in [
            "null",
            "http://localhost:1",
            "http://evil.example",
            "http://localhost:7420.evil",
            "localhost:7420",
        ] {
            assert_eq!(ask(&[host, ("origin", origin)], true), Err("origin_foreign"), "{origin}");
        }
    }
}
