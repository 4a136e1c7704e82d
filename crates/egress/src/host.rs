//! Who a URL speaks to: a domain name in its one spelling, or an address.

use std::{fmt, net::IpAddr};

/// The longest name DNS can carry, in its text form (RFC 1035).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A domain name in its one spelling.
///
/// Invariant: lower-case ASCII labels of letters, digits, `-` and `_`, none empty, no trailing dot,
/// and not an address in disguise. Two equal names are the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

/// A text that is no domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a domain name")]
pub struct InvalidName;

impl Name {
    /// Takes a name as the URL parser spells it: lower-cased, in punycode.
    pub(crate) fn from_url(text: &str) -> Result<Self, InvalidName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_name = text.len() <= LONGEST_NAME && text.split('.').all(is_label);
        // The parser turns what ends in a number into an address; this refuses what slipped by.
        let is_number = text.rsplit('.').next().is_some_and(ends_like_an_address);
        if is_name && !is_number { Ok(Self(text.to_owned())) } else { Err(InvalidName) }
    }

    /// The name as text, without a trailing dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a URL's authority names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, to be resolved.
    Name(Name),
    /// An address, however it was spelled.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::Address(address) => address.fmt(out),
        }
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(allowed)
}

/// The rule of the URL standard: a last label of digits, or of `0x` and hexadecimal digits.
fn ends_like_an_address(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x");
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_trailing_dot() {
        assert_eq!(Name::from_url("a.example."), Name::from_url("a.example"));
        assert_eq!(Name::from_url("_dmarc.a-b.example").unwrap().as_str(), "_dmarc.a-b.example");
    }

    #[test]
    fn what_dns_cannot_carry_is_no_name() {
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = ["a"; 128].join(".");
        for text in [
            "",
            ".",
            "a..b",
            "a.example..",
            ".a",
            "A.example",
            "a b",
            "ä.example",
            "a%b",
            "a/b",
            "1.2.3.4",
            "a.0x7f",
            "a.1",
            "0x",
            &long_label,
            &long_name,
        ] {
            assert_eq!(Name::from_url(text), Err(InvalidName), "{text}");
        }
        assert!(Name::from_url(&["a"; 127].join(".")).is_ok(), "253 bytes are the most");
    }
}
