//! Permitted hosts, on every hop of a fetch and for every connection of a proxy.
//!
//! The semantics are exact: `a.example` is that name alone, `*.a.example` is every name below it
//! and not the name itself. An empty list permits nothing.

use std::str::FromStr;

use http::Method;
use serde::Deserialize;

use crate::{
    host::{Host, Name},
    target::Target,
};

/// Permitted hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Any host whose addresses pass the vetting.
    Any,
    /// Only these hosts. Their addresses must pass as well.
    Only(Vec<HostRule>),
}

impl Hosts {
    /// Whether a request of `method` to `url` is permitted. A rule without a port permits all.
    pub fn permits(&self, method: &Method, url: &Target) -> bool {
        self.any(|rule| {
            rule.pattern.matches(url.host())
                && rule.port.is_none_or(|port| port == url.port())
                && rule.permits_request(method, url.path())
        })
    }

    /// Whether a program may send this request. A rule without a port permits ports 80 and 443.
    pub fn permits_program(&self, method: &Method, url: &Target) -> bool {
        self.any(|rule| rule.permits_port_of(url) && rule.permits_request(method, url.path()))
    }

    /// Whether a program may open an encrypted connection, whose requests are not visible. A rule
    /// for some methods or paths does not permit it.
    pub fn permits_tunnel(&self, url: &Target) -> bool {
        self.any(|rule| rule.permits_port_of(url) && rule.methods.is_empty() && rule.path.is_none())
    }

    /// Whether any request of a program to this host and port may be permitted.
    pub fn permits_host(&self, url: &Target) -> bool {
        self.any(|rule| rule.permits_port_of(url))
    }

    fn any(&self, permits: impl Fn(&HostRule) -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::Only(rules) => rules.iter().any(permits),
        }
    }
}

/// Ports of a rule for programs that names none.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Entry of a list of permitted hosts: `[METHOD[,METHOD] ]host[:port][/path]`.
///
/// Methods and paths are checked where requests are visible: on plain HTTP and where the proxy
/// makes the encrypted connection itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HostRule {
    /// Empty for all.
    methods: Vec<Method>,
    pattern: Pattern,
    port: Option<u16>,
    /// Path, and everything below it.
    path: Option<String>,
}

impl HostRule {
    /// Whether everything that `other` permits to programs is permitted by this rule too.
    pub fn covers(&self, other: &Self) -> bool {
        let host = match (&self.pattern.0, &other.pattern.0) {
            (_, Kind::Exactly(host)) => self.pattern.matches(host),
            (Kind::Below(parent), Kind::Below(name)) => {
                parent == name || is_below(name.as_str(), parent.as_str())
            }
            (Kind::Exactly(_), Kind::Below(_)) => false,
        };
        let port = match (self.port, other.port) {
            (None, Some(port)) => WEB_PORTS.contains(&port),
            (ours, theirs) => ours == theirs,
        };
        let methods = self.methods.is_empty()
            || !other.methods.is_empty()
                && other.methods.iter().all(|method| self.methods.contains(method));
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(path), Some(other)) => is_beneath(other, path),
            (Some(_), None) => false,
        };
        host && port && methods && path
    }

    fn permits_port_of(&self, url: &Target) -> bool {
        let port = match self.port {
            Some(port) => port == url.port(),
            None => WEB_PORTS.contains(&url.port()),
        };
        port && self.pattern.matches(url.host())
    }

    fn permits_request(&self, method: &Method, path: &str) -> bool {
        let method = self.methods.is_empty() || self.methods.contains(method);
        method && self.path.as_ref().is_none_or(|prefix| is_beneath(path, prefix))
    }
}

/// Whether a path is `prefix` or below it. Spellings that a server may read as another path are
/// not beneath anything; the URL parser has resolved plain dots before.
fn is_beneath(path: &str, prefix: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let ambiguous = ["%2e", "%2f", "%5c", "//"].iter().any(|odd| lower.contains(odd));
    let rest = path.strip_prefix(prefix);
    let below =
        rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'));
    below && !ambiguous
}

impl FromStr for HostRule {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        rule(text).ok_or_else(|| InvalidPattern(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for HostRule {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

fn rule(text: &str) -> Option<HostRule> {
    let (methods, rest) = match text.split_once(' ') {
        Some((methods, rest)) => (methods.split(',').map(method).collect::<Option<_>>()?, rest),
        None => (Vec::new(), text),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(path(&rest[at..])?)),
        None => (rest, None),
    };
    let port_at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    let (host, port) = match port_at {
        Some(at) => {
            (&authority[..at], Some(authority[at + 1..].parse().ok().filter(|port| *port != 0)?))
        }
        None => (authority, None),
    };
    Some(HostRule { methods, pattern: host.parse().ok()?, port, path })
}

fn method(text: &str) -> Option<Method> {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.contains(&text).then(|| text.parse().ok()).flatten()
}

fn path(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_graphic() && !['?', '#', '*', '\\'].contains(&c);
    let has_dots = text.split('/').any(|segment| segment == "." || segment == "..");
    let is_path = text.chars().all(allowed) && !has_dots && is_beneath(text, "/");
    is_path.then(|| text.to_owned())
}

/// Entry of a host list: a name, an address, or `*.` and a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exactly(Host),
    Below(Name),
}

impl Pattern {
    /// Whether this entry matches `host`.
    pub fn matches(&self, host: &Host) -> bool {
        match (&self.0, host) {
            (Kind::Exactly(expected), host) => expected == host,
            (Kind::Below(parent), Host::Name(name)) => is_below(name.as_str(), parent.as_str()),
            (Kind::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Whether a name is below another. The dot counts: `evilallowed.example` is not below
/// `allowed.example`.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

/// Invalid entry of a host list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected `[METHOD[,METHOD] ]host[:port][/path]` with a name, an address or `*.` and a name as host, got `{0}`"
)]
pub struct InvalidPattern(String);

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        parse(text).map(Self).ok_or_else(|| InvalidPattern(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

fn parse(text: &str) -> Option<Kind> {
    match text.strip_prefix("*.") {
        Some(parent) => match host(parent)? {
            Host::Name(name) => Some(Kind::Below(name)),
            Host::Address(_) => None,
        },
        None => host(text).map(Kind::Exactly),
    }
}

/// Host spelled by the same parser as a URL's host, so that both sides of a comparison agree.
fn host(text: &str) -> Option<Host> {
    if text.contains(['/', '?', '#', '@', '*', '%']) {
        return None;
    }
    let target = Target::parse(&format!("http://{text}/")).ok()?;
    // A port would be dropped silently, and the entry would permit more than it says.
    let has_port = text.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    (!has_port).then(|| target.host().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, url: &str, expected: bool) {
        let hosts = Hosts::Only(vec![pattern.parse().unwrap()]);
        let target = Target::parse(url).unwrap();
        assert_eq!(hosts.permits(&Method::GET, &target), expected, "{pattern} and {url}");
    }

    #[test]
    fn a_name_is_that_name_alone_in_any_spelling() {
        check("allowed.com", "http://allowed.com/", true);
        check("allowed.com", "http://ALLOWED.com/", true);
        check("Allowed.COM.", "http://allowed.com./", true);
        check("bücher.example", "http://xn--bcher-kva.example/", true);
        check("allowed.com", "http://www.allowed.com/", false);
        check("allowed.com", "http://evilallowed.com/", false);
        check("allowed.com", "http://allowed.com.evil.com/", false);
        check("allowed.com", "http://evil.com/allowed.com", false);
        check("93.184.216.34", "http://0x5db8d822/", true);
        check("[2606:4700::1]", "http://[2606:4700:0::1]/", true);
    }

    #[test]
    fn a_star_is_what_lies_below_and_not_the_name_itself() {
        check("*.allowed.com", "http://a.allowed.com/", true);
        check("*.allowed.com", "http://a.b.ALLOWED.com./", true);
        check("*.allowed.com", "http://allowed.com/", false);
        check("*.allowed.com", "http://evilallowed.com/", false);
        check("*.allowed.com", "http://allowed.com.evil.com/", false);
        check("*.allowed.com", "http://a.allowed.com.evil.com/", false);
    }

    #[test]
    fn an_empty_list_permits_nothing() {
        let target = Target::parse("http://allowed.com/").unwrap();
        assert!(!Hosts::Only(Vec::new()).permits(&Method::GET, &target));
        assert!(Hosts::Any.permits(&Method::GET, &target));
    }

    /// Rights of a program: to `request` a method and URL, or open a `tunnel` to it.
    fn of_program(rule: &str, method: Method, url: &str) -> (bool, bool) {
        let hosts = Hosts::Only(vec![rule.parse().unwrap()]);
        let target = Target::parse(url).unwrap();
        (hosts.permits_program(&method, &target), hosts.permits_tunnel(&target))
    }

    #[test]
    fn programs_reach_the_ports_of_the_web_unless_a_rule_names_one() {
        let get = |rule: &str, url: &str| of_program(rule, Method::GET, url);
        assert_eq!(get("a.com", "http://a.com/"), (true, true));
        assert_eq!(get("a.com", "https://a.com/"), (true, true));
        assert_eq!(get("a.com", "http://a.com:22/"), (false, false));
        assert_eq!(get("a.com:22", "http://a.com:22/"), (true, true));
        assert_eq!(get("a.com:22", "http://a.com/"), (false, false));
        assert_eq!(get("[2606:4700::1]:8080", "http://[2606:4700::1]:8080/"), (true, true));
    }

    #[test]
    fn methods_and_paths_are_exact_and_permit_no_tunnel() {
        let rule = "GET,HEAD api.a.com/v1";
        for (method, url, expected) in [
            (Method::GET, "http://api.a.com/v1", true),
            (Method::HEAD, "http://api.a.com/v1/x?y=/v2", true),
            (Method::GET, "http://api.a.com/v1x", false),
            (Method::GET, "http://api.a.com/", false),
            (Method::POST, "http://api.a.com/v1", false),
            (Method::GET, "http://api.a.com/v1/../admin", false),
            (Method::GET, "http://api.a.com/v1/%2e%2e/admin", false),
            (Method::GET, "http://api.a.com/v1/..%2fadmin", false),
            (Method::GET, "http://api.a.com/v1//admin", false),
            (Method::GET, "http://api.a.com/V1", false),
        ] {
            assert_eq!(of_program(rule, method.clone(), url), (expected, false), "{method} {url}");
        }
    }

    #[test]
    fn a_rule_covers_what_is_narrower() {
        let covers = |wide: &str, narrow: &str| {
            let parse = |text: &str| text.parse::<HostRule>().unwrap();
            (parse(wide).covers(&parse(narrow)), parse(narrow).covers(&parse(wide)))
        };
        assert_eq!(covers("a.com", "a.com"), (true, true));
        assert_eq!(covers("*.a.com", "x.a.com"), (true, false));
        assert_eq!(covers("*.a.com", "*.x.a.com"), (true, false));
        assert_eq!(covers("*.a.com", "a.com"), (false, false));
        assert_eq!(covers("a.com", "a.com:443"), (true, false));
        assert_eq!(covers("a.com", "a.com:22"), (false, false));
        assert_eq!(covers("a.com", "GET a.com/v1"), (true, false));
        assert_eq!(covers("GET a.com", "a.com"), (false, true));
        assert_eq!(covers("GET,POST a.com/v1", "GET a.com/v1/x"), (true, false));
    }

    #[test]
    fn what_is_no_entry_is_refused_with_its_text() {
        for text in [
            "",
            "*",
            "*.",
            "**.a.com",
            "a.*.com",
            "*a.com",
            "a.com:",
            "a.com:0",
            "a.com:65536",
            "http://a.com",
            "GET  a.com",
            "get a.com",
            "GET, a.com",
            "CONNECT a.com",
            "a.com/x?y",
            "a.com/x/../y",
            "a.com/%2e%2e",
            "a.com/x y",
            "u@a.com",
            "*.1.2.3.4",
            "a b",
            "a%2e.com",
            "a..com",
        ] {
            assert_eq!(text.parse::<HostRule>(), Err(InvalidPattern(text.into())), "{text}");
        }
    }
}
