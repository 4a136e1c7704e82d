//! Hosts permitted to a fetch, on every hop.
//!
//! The semantics are exact: `a.example` is that name alone, `*.a.example` is every name below it
//! and not the name itself. An empty list permits nothing.

use std::str::FromStr;

use serde::Deserialize;

use crate::{
    host::{Host, Name},
    target::Target,
};

/// Hosts permitted to a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Any host whose addresses pass the vetting.
    Any,
    /// Only these hosts. Their addresses must pass as well.
    Only(Vec<Pattern>),
}

impl Hosts {
    /// Whether `host` is permitted.
    pub fn permits(&self, host: &Host) -> bool {
        match self {
            Self::Any => true,
            Self::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(host)),
        }
    }
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
#[error("expected a host name, an address or `*.` and a name, got `{0}`")]
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
        assert_eq!(hosts.permits(target.host()), expected, "{pattern} and {url}");
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
        assert!(!Hosts::Only(Vec::new()).permits(target.host()));
        assert!(Hosts::Any.permits(target.host()));
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
            "a.com:80",
            "[::1]:80",
            "http://a.com",
            "a.com/x",
            "u@a.com",
            "*.1.2.3.4",
            "a b",
            "a%2e.com",
            "a..com",
        ] {
            assert_eq!(text.parse::<Pattern>(), Err(InvalidPattern(text.into())), "{text}");
        }
    }
}
