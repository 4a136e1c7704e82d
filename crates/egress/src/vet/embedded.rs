//! IPv4 addresses embedded in an IPv6 address, in every form that a stack or a translator honours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ranges::{COMPATIBLE, MAPPED, NAT64, SIX_TO_FOUR, TEREDO, TRANSLATED};

/// All embedded addresses: Teredo has two, and an interface id can embed one behind any prefix.
pub(super) fn addresses(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let ip = IpAddr::V6(address);
    let bits = address.to_bits();
    let last = Ipv4Addr::from_bits(bits as u32);
    let mut carried = Vec::new();
    if [MAPPED, NAT64, COMPATIBLE, TRANSLATED].iter().any(|form| form.contains(ip)) {
        carried.push(last);
    }
    if SIX_TO_FOUR.contains(ip) {
        carried.push(Ipv4Addr::from_bits((bits >> 80) as u32));
    }
    if TEREDO.contains(ip) {
        carried.push(Ipv4Addr::from_bits((bits >> 64) as u32));
        carried.push(Ipv4Addr::from_bits(!(bits as u32)));
    }
    if is_isatap(address) {
        carried.push(last);
    }
    carried
}

/// Whether the interface id is of ISATAP (RFC 5214): `0000:5efe` or `0200:5efe`, then the IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    let groups = address.segments();
    matches!(groups[4], 0 | 0x0200) && groups[5] == 0x5efe
}
