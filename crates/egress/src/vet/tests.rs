use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{Refused, ranges, vet, vet_with};
use crate::network::Exemption;

fn check(address: &str, expected: Result<(), Refused>) {
    let parsed: IpAddr = address.parse().unwrap();
    assert_eq!(vet(parsed), expected, "{address}");
}

#[test]
fn public_addresses_pass() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "168.63.129.15",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:0808:0808::1",
    ] {
        check(address, Ok(()));
    }
}

#[test]
fn each_range_is_refused_at_both_of_its_ends_with_its_reason() {
    use Refused::*;
    for (first, last, why) in [
        ("0.0.0.0", "0.255.255.255", Unspecified),
        ("10.0.0.0", "10.255.255.255", Private),
        ("100.64.0.0", "100.127.255.255", Shared),
        ("127.0.0.0", "127.255.255.255", Loopback),
        ("169.254.0.0", "169.254.255.255", LinkLocal),
        ("172.16.0.0", "172.31.255.255", Private),
        ("192.0.0.0", "192.0.0.255", Reserved),
        ("192.0.2.0", "192.0.2.255", Documentation),
        ("192.88.99.0", "192.88.99.255", Reserved),
        ("192.168.0.0", "192.168.255.255", Private),
        ("198.18.0.0", "198.19.255.255", Benchmarking),
        ("198.51.100.0", "198.51.100.255", Documentation),
        ("203.0.113.0", "203.0.113.255", Documentation),
        ("224.0.0.0", "239.255.255.255", Multicast),
        ("240.0.0.0", "255.255.255.254", Reserved),
        ("255.255.255.255", "255.255.255.255", Broadcast),
        ("::", "::", Unspecified),
        ("::1", "::1", Loopback),
        ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Private),
        ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", Benchmarking),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
        ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
        ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", LinkLocal),
        ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Multicast),
        // Without a reason of their own: discard-only, segment routing, ORCHID, the unassigned rest.
        ("100::", "100::ffff:ffff:ffff:ffff", Reserved),
        ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("2001:10::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
        ("::8.8.8.8", "::ffff:0:8.8.8.8", Reserved),
    ] {
        check(first, Err(why));
        check(last, Err(why));
    }
}

#[test]
fn metadata_services_are_named_as_such() {
    for address in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.42.42",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
        "fd00:c1::a9fe:a9fe",
        "fe80::a9fe:a9fe",
    ] {
        check(address, Err(Refused::Metadata));
    }
}

/// Every form of an IPv4 address inside an IPv6 address.
fn embedded_forms(address: Ipv4Addr) -> Vec<Ipv6Addr> {
    let bits = u128::from(address.to_bits());
    let public = u128::from(Ipv4Addr::new(8, 8, 8, 8).to_bits());
    let teredo = 0x2001_0000_u128 << 96;
    let routed = 0x2a00_1450_0000_0000_u128 << 64;
    [
        0xffff << 32 | bits,                          // mapped
        bits,                                         // compatible
        0xffff << 48 | bits,                          // translated
        0x0064_ff9b << 96 | bits,                     // NAT64
        0x2002 << 112 | bits << 80 | 1,               // 6to4
        teredo | bits << 64 | (public ^ 0xffff_ffff), // Teredo, as its server
        teredo | public << 64 | (bits ^ 0xffff_ffff), // Teredo, as its client
        routed | 0x5efe << 32 | bits,                 // ISATAP
        routed | 0x0200_5efe << 32 | bits,            // ISATAP, universal bit
    ]
    .map(Ipv6Addr::from_bits)
    .into()
}

#[test]
fn a_metadata_service_is_refused_as_such_in_each_embedded_form_and_despite_exemptions() {
    let everything: Vec<Exemption> =
        vec!["[::/0]:80".parse().unwrap(), "0.0.0.0/0:80".parse().unwrap()];
    for block in ranges::METADATA.iter().map(|block| block.to_string()) {
        let Ok(address) = block.trim_end_matches("/32").parse::<Ipv4Addr>() else { continue };
        for form in embedded_forms(address) {
            assert_eq!(vet(form.into()), Err(Refused::Metadata), "{form}");
            assert_eq!(vet_with(&everything, (form, 80).into()), Err(Refused::Metadata), "{form}");
        }
        assert_eq!(
            vet_with(&everything, (address, 80).into()),
            Err(Refused::Metadata),
            "{address}"
        );
    }
    // Control: the same exemptions do open everything else.
    assert_eq!(vet_with(&everything, ([127, 0, 0, 1], 80).into()), Ok(()));
    assert_eq!(vet_with(&everything, (Ipv6Addr::LOCALHOST, 80).into()), Ok(()));
}

#[test]
fn a_public_address_passes_in_the_forms_that_reach_it() {
    // Control for the property below: the forms themselves do not cause the refusal.
    let forms = embedded_forms(Ipv4Addr::new(93, 184, 216, 34));
    let passing = forms.into_iter().filter(|form| vet((*form).into()).is_ok()).count();
    assert_eq!(passing, 7, "all but the deprecated compatible and translated forms");
}

proptest! {
    #[test]
    fn every_refused_ipv4_address_is_refused_in_each_embedded_form(
        row in 0..ranges::V4.len(), offset in any::<u32>()
    ) {
        let (block, _) = ranges::V4[row];
        let address = inside(&block.to_string(), offset);
        prop_assert!(block.contains(address.into()), "{address} is of {block}");
        prop_assert!(vet(address.into()).is_err(), "{address}");
        for form in embedded_forms(address) {
            prop_assert!(vet(form.into()).is_err(), "{form} embeds {address}");
        }
    }

    #[test]
    fn any_ipv4_address_and_its_mapped_form_get_the_same_verdict(bits in any::<u32>()) {
        let address = Ipv4Addr::from_bits(bits);
        prop_assert_eq!(vet(address.into()), vet(address.to_ipv6_mapped().into()));
    }

    #[test]
    fn nothing_outside_the_public_block_passes_without_carrying_a_public_address(
        bits in any::<u128>()
    ) {
        let address = Ipv6Addr::from_bits(bits);
        if vet(address.into()).is_ok() {
            prop_assert!(address.segments()[0] >> 13 == 1 || address.to_ipv4_mapped().is_some());
        }
    }
}

/// Address `offset` places into the block, modulo its size.
fn inside(block: &str, offset: u32) -> Ipv4Addr {
    let (base, prefix) = block.split_once('/').unwrap();
    let base: Ipv4Addr = base.parse().unwrap();
    let mask = u32::MAX.checked_shr(prefix.parse().unwrap()).unwrap_or(0);
    Ipv4Addr::from_bits(base.to_bits() | (offset & mask))
}
