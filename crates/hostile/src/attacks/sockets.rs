//! Socket families beyond the few that programs need.

use ringfence_jail::attack;
use ringfence_types::SandboxNetwork;

use crate::{
    AttackContext, Case, Finding, Group,
    child::or_with_own_namespaces,
    finding::{escaped, held, not_applicable},
};

/// Name, family, kind, protocol, as numbers because no library has all names.
const FAMILIES: &[(&str, i32, i32, i32)] = &[
    ("packet", 17, RAW, 0x0300),
    ("packet-dgram", 17, DGRAM, 0x0300),
    ("vsock", 40, STREAM, 0),
    ("alg", 38, SEQPACKET, 0),
    ("netlink-route", 16, RAW, 0),
    ("netlink-diag", 16, RAW, 4),
    ("netlink-audit", 16, RAW, 9),
    ("netlink-netfilter", 16, RAW, 12),
    ("netlink-uevent", 16, RAW, 15),
    ("netlink-generic", 16, RAW, 16),
    ("xdp", 44, RAW, 0),
    ("bluetooth", 31, RAW, 1),
    ("key", 15, RAW, 2),
    ("can", 29, RAW, 1),
    ("tipc", 30, SEQPACKET, 0),
    ("rds", 21, SEQPACKET, 0),
    ("smc", 43, STREAM, 0),
    ("kcm", 41, DGRAM, 0),
    ("qipcrtr", 42, DGRAM, 0),
    ("raw-icmp", 2, RAW, 1),
    ("raw-ip", 2, RAW, 255),
    ("raw-icmp6", 10, RAW, 58),
    ("sctp", 2, STREAM, 132),
    ("dccp", 2, 6, 33),
    ("mptcp", 2, STREAM, 262),
];

const STREAM: i32 = 1;
const DGRAM: i32 = 2;
const RAW: i32 = 3;
const SEQPACKET: i32 = 5;

pub(super) fn cases() -> Vec<Case> {
    let case = |&(name, family, kind, protocol): &(&str, i32, i32, i32)| {
        let promise = format!("no {name} socket can be had");
        let attack = move |context: &AttackContext| {
            or_with_own_namespaces(context, || open(context, family, kind, protocol))
        };
        Case::new(Group::Kernel, format!("K08.{name}"), promise, attack)
            .limited(|limits| limits.network = SandboxNetwork::Loopback)
    };
    FAMILIES.iter().map(case).collect()
}

fn open(context: &AttackContext, family: i32, kind: i32, protocol: i32) -> Finding {
    match attack::open_socket(family, kind, protocol) {
        Ok(_) => escaped("the socket was given"),
        Err(error) if context.is_outside() => {
            not_applicable(format!("neither this kernel nor this user has it: {error}"))
        }
        Err(error) => held(error.to_string()),
    }
}
