//! Address blocks, and the operator's exemptions written with them.
//!
//! Invariant: a block never crosses families. `::ffff:10.0.0.1` is not inside `10.0.0.0/8`;
//! embedded addresses are handled by [`crate::vet`].

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use serde::Deserialize;

/// Block of addresses that share the first `prefix` bits of `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    /// At most the width of the family; kept by both constructors.
    prefix: u8,
}

impl Network {
    /// IPv4 block, for tables in this crate.
    pub(crate) const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// IPv6 block by its eight groups, for tables in this crate.
    pub(crate) const fn v6(groups: [u16; 8], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = groups;
        Self { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// Block of `prefix` bits around `base`; `None` if the prefix is longer than the address.
    pub fn new(base: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= width(base)).then_some(Self { base, prefix })
    }

    /// Whether `address` is in this block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differing = u128::from(base.to_bits() ^ address.to_bits());
                self.covers(differing)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                self.covers(base.to_bits() ^ address.to_bits())
            }
            _ => false,
        }
    }

    /// Whether all differing bits lie behind the prefix. A shift by the whole width is `/0`.
    fn covers(&self, differing: u128) -> bool {
        let free = u32::from(width(self.base) - self.prefix);
        differing.checked_shr(free).unwrap_or(0) == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.base, self.prefix)
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Internal service that fetches may reach: a block of addresses, on one port.
///
/// Written `10.1.2.3:8080`, `10.1.0.0/16:443`, `[::1]:80` or `[fd00:1::/32]:443`.
/// It covers addresses as dialled, not the IPv6 forms that embed them, and no metadata service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Exemption {
    network: Network,
    /// None for every port.
    port: Option<u16>,
}

impl Exemption {
    /// Exemption of `network` on `port`.
    pub fn new(network: Network, port: u16) -> Self {
        Self { network, port: Some(port) }
    }

    /// Exemptions of every address on every port, for servers that the operator configured.
    pub fn all() -> Vec<Self> {
        let networks = [Network::v4(0, 0, 0, 0, 0), Network::v6([0; 8], 0)];
        networks.into_iter().map(|network| Self { network, port: None }).collect()
    }

    /// Whether this exemption covers `address`.
    pub fn covers(&self, address: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == address.port()) && self.network.contains(address.ip())
    }
}

impl From<SocketAddr> for Exemption {
    fn from(address: SocketAddr) -> Self {
        let network = Network { base: address.ip(), prefix: width(address.ip()) };
        Self::new(network, address.port())
    }
}

/// Invalid exemption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `address:port` or `address/prefix:port` with IPv6 in brackets, got `{0}`")]
pub struct InvalidExemption(String);

impl FromStr for Exemption {
    type Err = InvalidExemption;

    fn from_str(text: &str) -> Result<Self, InvalidExemption> {
        parse(text).ok_or_else(|| InvalidExemption(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for Exemption {
    type Error = InvalidExemption;

    fn try_from(text: String) -> Result<Self, InvalidExemption> {
        text.parse()
    }
}

fn parse(text: &str) -> Option<Exemption> {
    let (block, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let bracketed = block.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let block = bracketed.unwrap_or(block);
    let (base, prefix) = match block.split_once('/') {
        Some((base, prefix)) => (base.parse().ok()?, prefix.parse().ok()?),
        None => (block.parse().ok()?, width(block.parse().ok()?)),
    };
    // `::1:80` is ambiguous between the address `::1` with a port and the address `::1:80`, so IPv6
    // needs brackets.
    if matches!(base, IpAddr::V6(_)) != bracketed.is_some() {
        return None;
    }
    Some(Exemption::new(Network::new(base, prefix)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(exemption: &str, address: &str, expected: bool) {
        let exemption: Exemption = exemption.parse().unwrap();
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(exemption.covers(address), expected, "{exemption:?} and {address}");
    }

    #[test]
    fn an_exemption_covers_its_block_on_its_port_alone() {
        check("10.1.2.3:80", "10.1.2.3:80", true);
        check("10.1.2.3:80", "10.1.2.3:81", false);
        check("10.1.2.3:80", "10.1.2.4:80", false);
        check("10.1.0.0/16:80", "10.1.255.255:80", true);
        check("10.1.0.0/16:80", "10.2.0.0:80", false);
        check("[::1]:80", "[::1]:80", true);
        check("[::1]:80", "[::2]:80", false);
        check("[fd00:1::/32]:80", "[fd00:1:ffff::9]:80", true);
        check("[fd00:1::/32]:80", "[fd00:2::9]:80", false);
        check("0.0.0.0/0:80", "255.1.2.3:80", true);
        check("[::/0]:80", "[ffff::1]:80", true);
    }

    #[test]
    fn an_exemption_does_not_cover_the_forms_that_embed_its_address() {
        check("127.0.0.1:80", "[::ffff:127.0.0.1]:80", false);
        check("[::ffff:127.0.0.1]:80", "127.0.0.1:80", false);
    }

    #[test]
    fn what_is_not_an_exemption_is_refused_with_its_text() {
        let bad = [
            "",
            ":",
            "10.0.0.1",
            "10.0.0.1:0",
            "10.0.0.1:65536",
            "10.0.0.0/33:80",
            "::1:80",
            "[10.0.0.1]:80",
            "[::/129]:80",
            "[::1:80",
            "localhost:80",
            "10.0.0.0/:80",
            "10.1:80",
        ];
        for text in bad {
            assert_eq!(text.parse::<Exemption>(), Err(InvalidExemption(text.into())), "{text}");
        }
    }

    #[test]
    fn configuration_reads_exemptions_as_texts() {
        let read: Vec<Exemption> = serde_json::from_str(r#"["127.0.0.1:80"]"#).unwrap();
        assert_eq!(read, [Exemption::from(SocketAddr::from(([127, 0, 0, 1], 80)))]);
        assert!(serde_json::from_str::<Exemption>(r#""everything""#).is_err());
    }
}
