//! Refused address blocks, each with its reason.
//!
//! Sources: the IANA special-purpose registries for IPv4 and IPv6, and the manuals of the clouds.

use super::Refused;
use crate::network::Network;

/// Block with the reason for its refusal.
pub(super) type Range = (Network, Refused);

/// Services that hand credentials to any program on this machine. No exemption covers them.
pub(super) const METADATA: &[Network] = &[
    Network::v4(169, 254, 169, 254, 32), // AWS, Azure, Google, Oracle, OpenStack, DigitalOcean.
    Network::v4(169, 254, 170, 2, 32),   // Credentials of AWS container tasks.
    Network::v4(169, 254, 170, 23, 32),  // Credentials of AWS Kubernetes pods.
    Network::v4(169, 254, 42, 42, 32),   // Scaleway.
    Network::v4(100, 100, 100, 200, 32), // Alibaba.
    Network::v4(168, 63, 129, 16, 32),   // The Azure host agent: a public address that is not.
    Network::v4(192, 0, 0, 192, 32),     // Oracle classic.
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), // AWS.
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), // Credentials of AWS Kubernetes pods.
    Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), // Google.
    Network::v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128), // Scaleway.
    Network::v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), // Oracle.
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), // OpenStack.
];

/// IPv4 blocks outside the public internet.
pub(super) const V4: &[Range] = &[
    (Network::v4(0, 0, 0, 0, 8), Refused::Unspecified), // RFC 1122; Linux dials 0.0.0.0 as itself.
    (Network::v4(10, 0, 0, 0, 8), Refused::Private),    // RFC 1918.
    (Network::v4(100, 64, 0, 0, 10), Refused::Shared),  // RFC 6598, carrier NAT; also overlays.
    (Network::v4(127, 0, 0, 0, 8), Refused::Loopback),  // RFC 1122; all of it, not only .1.
    (Network::v4(169, 254, 0, 0, 16), Refused::LinkLocal), // RFC 3927.
    (Network::v4(172, 16, 0, 0, 12), Refused::Private), // RFC 1918.
    (Network::v4(192, 0, 0, 0, 24), Refused::Reserved), // RFC 6890, protocol assignments.
    (Network::v4(192, 0, 2, 0, 24), Refused::Documentation), // RFC 5737.
    (Network::v4(192, 88, 99, 0, 24), Refused::Reserved), // RFC 7526, the former 6to4 relay.
    (Network::v4(192, 168, 0, 0, 16), Refused::Private), // RFC 1918.
    (Network::v4(198, 18, 0, 0, 15), Refused::Benchmarking), // RFC 2544.
    (Network::v4(198, 51, 100, 0, 24), Refused::Documentation), // RFC 5737.
    (Network::v4(203, 0, 113, 0, 24), Refused::Documentation), // RFC 5737.
    (Network::v4(224, 0, 0, 0, 4), Refused::Multicast), // RFC 5771.
    (Network::v4(255, 255, 255, 255, 32), Refused::Broadcast), // RFC 919; before its block.
    (Network::v4(240, 0, 0, 0, 4), Refused::Reserved),  // RFC 1112, class E.
];

/// IPv6 blocks with a reason of their own. Others outside [`PUBLIC_V6`] are refused as reserved.
pub(super) const V6: &[Range] = &[
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Refused::Unspecified), // RFC 4291.
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Refused::Loopback),    // RFC 4291.
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Refused::Private), // RFC 8215, local NAT64.
    (Network::v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Refused::Benchmarking), // RFC 5180.
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Refused::Documentation), // RFC 3849.
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Refused::Documentation), // RFC 9637.
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Refused::Private),  // RFC 4193, unique local.
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Refused::LinkLocal), // RFC 4291.
    (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Refused::Private), // RFC 3879, site-local.
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Refused::Multicast), // RFC 4291.
];

/// Protocol assignments (RFC 2928), among them ORCHID. Teredo lies inside and is vetted by content.
pub(super) const ASSIGNMENTS_V6: Network = Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23);

/// The only IPv6 block assigned to the public internet (RFC 4291, 2.4).
pub(super) const PUBLIC_V6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Teredo (RFC 4380): carries the address of its server, and that of its client inverted.
pub(super) const TEREDO: Network = Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);

/// 6to4 (RFC 3056): carries the address of its router behind the prefix.
pub(super) const SIX_TO_FOUR: Network = Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

/// IPv4-mapped (RFC 4291): the kernel dials the IPv4 address in the last four bytes.
pub(super) const MAPPED: Network = Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96);

/// NAT64 (RFC 6052): a translator on the way dials the IPv4 address in the last four bytes.
pub(super) const NAT64: Network = Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// IPv4-compatible (RFC 4291, deprecated): stacks that honour it reach the last four bytes.
pub(super) const COMPATIBLE: Network = Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96);

/// IPv4-translated (RFC 2765): a stateless translator reaches the last four bytes.
pub(super) const TRANSLATED: Network = Network::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96);
