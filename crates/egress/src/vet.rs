//! Vetting of addresses.
//!
//! Pure: no lookup, no configuration, no clock. An IPv6 address that embeds an IPv4 address is
//! refused whenever the embedded one is.
//!
//! Invariant: a metadata service is refused in every form, regardless of exemptions.

mod embedded;
mod ranges;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::network::Exemption;

/// Reason why an address is refused. The text is for the caller and names no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Metadata service that hands out credentials of this machine.
    #[error("a cloud metadata service")]
    Metadata,
    /// "This host": Linux dials it as loopback.
    #[error("an unspecified address")]
    Unspecified,
    /// This machine itself.
    #[error("a loopback address")]
    Loopback,
    /// Private, unique-local or site-local network.
    #[error("a private network")]
    Private,
    /// Shared space between a carrier and its customers.
    #[error("a shared carrier network")]
    Shared,
    /// Link that this machine is attached to.
    #[error("a link-local address")]
    LinkLocal,
    /// Multicast group.
    #[error("a multicast address")]
    Multicast,
    /// Every machine on the link.
    #[error("a broadcast address")]
    Broadcast,
    /// Reserved for documentation.
    #[error("a documentation address")]
    Documentation,
    /// Reserved for benchmarks of network devices.
    #[error("a benchmarking address")]
    Benchmarking,
    /// Not assigned to the public internet.
    #[error("a reserved address")]
    Reserved,
}

/// Refuses every address outside the public internet.
pub fn vet(address: IpAddr) -> Result<(), Refused> {
    if is_metadata(address) {
        return Err(Refused::Metadata);
    }
    match address {
        IpAddr::V4(address) => vet_v4(address),
        IpAddr::V6(address) => vet_v6(address),
    }
}

/// Like [`vet`], with exemptions, which never cover a metadata service.
pub fn vet_with(exemptions: &[Exemption], address: SocketAddr) -> Result<(), Refused> {
    match vet(address.ip()) {
        Err(Refused::Metadata) => Err(Refused::Metadata),
        Err(_) if exemptions.iter().any(|exemption| exemption.covers(address)) => Ok(()),
        verdict => verdict,
    }
}

/// Whether an address is a metadata service. Checked first, so that no other reason (which an exemption
/// may lift) hides this one.
fn is_metadata(address: IpAddr) -> bool {
    let listed = |address| ranges::METADATA.iter().any(|block| block.contains(address));
    let carried = match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(address) => embedded::addresses(address),
    };
    listed(address) || carried.into_iter().any(|address| listed(address.into()))
}

fn vet_v4(address: Ipv4Addr) -> Result<(), Refused> {
    named(ranges::V4, address.into())
}

fn vet_v6(address: Ipv6Addr) -> Result<(), Refused> {
    named(ranges::V6, address.into())?;
    embedded::addresses(address).into_iter().try_for_each(vet_v4)?;
    if is_public(address.into()) { Ok(()) } else { Err(Refused::Reserved) }
}

/// Whether an address is public. Mapped and NAT64 addresses count as public here, because the embedded
/// ones were vetted before.
fn is_public(address: IpAddr) -> bool {
    let assigned = ranges::ASSIGNMENTS_V6.contains(address) && !ranges::TEREDO.contains(address);
    let public = ranges::PUBLIC_V6.contains(address) && !assigned;
    public || ranges::MAPPED.contains(address) || ranges::NAT64.contains(address)
}

fn named(table: &[ranges::Range], address: IpAddr) -> Result<(), Refused> {
    match table.iter().find(|(block, _)| block.contains(address)) {
        Some((_, why)) => Err(*why),
        None => Ok(()),
    }
}
