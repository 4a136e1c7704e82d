//! Host of a URL: a normalized domain name, or an address.

use std::{fmt, net::IpAddr};

/// Length limit of a DNS name in text form (RFC 1035).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Normalized domain name.
///
/// Invariant: lower-case ASCII labels of letters, digits, `-` and `_`, none empty, no trailing dot,
/// and not an address in disguise. Two equal names are the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

/// Invalid domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a domain name")]
pub struct InvalidName;

impl Name {
    /// Name as the URL parser spells it: lower-cased, in punycode.
    pub(crate) fn from_url(text: &str) -> Result<Self, InvalidName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_name = text.len() <= MAX_NAME_BYTES && text.split('.').all(is_label);
        // The parser turns names that end in a number into addresses; this refuses the rest.
        let is_number = text.rsplit('.').next().is_some_and(ends_like_an_address);
        if is_name && !is_number { Ok(Self(text.to_owned())) } else { Err(InvalidName) }
    }

    /// Text without a trailing dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Host of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Name, to be resolved.
    Name(Name),
    /// Address, however it was spelled.
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
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(allowed)
}

/// Whether the last label is a number by the URL standard: digits, or `0x` and hexadecimal digits.
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
