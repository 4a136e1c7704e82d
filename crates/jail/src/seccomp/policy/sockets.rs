//! Operations on sockets: options by level and name, and message flags.
//!
//! Options are an allow-list, because the kernel has hundreds and several of them take memory that
//! is charged to no cgroup: a socket filter is compiled into executable memory, which is bounded
//! for the whole host, and keys, memberships and flow labels stay attached to a socket.
//! `ENOPROTOOPT` is what a kernel without the option answers, so libraries that probe continue.
//!
//! One list serves `setsockopt` and `getsockopt`: the kernel itself refuses to set read-only
//! options.

use super::super::{Otherwise, Requirement, Values};
use super::checks::{bits, requirement};
use libc as c;
use rustix::io::Errno;

/// Options that would enlarge the receive buffer, and so what connections hold that are never
/// accepted, which is charged to no cgroup; `SO_RCVLOWAT` enlarges it too. Both are hints, so
/// programs are told that they succeeded.
const RECEIVE_BUFFER: Requirement = Requirement {
    when: Some((LEVEL, bits(c::SOL_SOCKET))),
    values: Values::NoneOf(&[bits(c::SO_RCVBUF), bits(c::SO_RCVLOWAT)]),
    otherwise: Otherwise::Nothing,
    ..requirement(OPTION, u32::MAX, &[0], Errno::NOPROTOOPT)
};

/// Options that would keep the errors of sent datagrams, up to a receive buffer for each socket, until
/// they are read: charged to no cgroup. libc's resolver gives up where setting one fails, so programs
/// are told that they succeeded; a connected socket still reports a refused datagram.
const ERROR_QUEUE: Requirement = kept_errors(c::IPPROTO_IP, &[bits(c::IP_RECVERR)]);
const ERROR_QUEUE6: Requirement = kept_errors(c::IPPROTO_IPV6, &[bits(c::IPV6_RECVERR)]);

const fn kept_errors(level: i32, options: &'static [u32]) -> Requirement {
    Requirement {
        values: Values::NoneOf(options),
        otherwise: Otherwise::Nothing,
        ..of_level(level, &[0])
    }
}

pub(super) const SETSOCKOPT: &[Requirement] = &[
    RECEIVE_BUFFER,
    ERROR_QUEUE,
    ERROR_QUEUE6,
    requirement(LEVEL, u32::MAX, &LEVELS, Errno::NOPROTOOPT),
    of_level(c::SOL_SOCKET, &SOCKET_OPTIONS),
    of_level(c::IPPROTO_TCP, &TCP_OPTIONS),
    of_level(c::IPPROTO_IP, &IP_OPTIONS),
    of_level(c::IPPROTO_IPV6, &IPV6_OPTIONS),
];

/// All of the above but those that succeed without effect.
pub(super) const GETSOCKOPT: &[Requirement] = SETSOCKOPT.split_at(3).1;

/// Refused flags: `MSG_OOB` on local sockets has been exploited more than once and is unused;
/// `MSG_FASTOPEN` would connect without `connect`, which is counted.
const MESSAGE_FLAGS: u32 = bits(c::MSG_OOB | c::MSG_FASTOPEN);
pub(super) const FLAGS_THIRD: &[Requirement] =
    &[requirement(2, MESSAGE_FLAGS, &[0], Errno::OPNOTSUPP)];
pub(super) const FLAGS_FOURTH: &[Requirement] =
    &[requirement(3, MESSAGE_FLAGS, &[0], Errno::OPNOTSUPP)];

/// Positions of the arguments.
const LEVEL: u8 = 1;
const OPTION: u8 = 2;

/// Levels of options. UDP's own level, for encapsulation and segmentation, is not needed by
/// programs here.
const LEVELS: [u32; 4] =
    [bits(c::SOL_SOCKET), bits(c::IPPROTO_TCP), bits(c::IPPROTO_IP), bits(c::IPPROTO_IPV6)];

const fn of_level(level: i32, options: &'static [u32]) -> Requirement {
    Requirement {
        when: Some((LEVEL, bits(level))),
        ..requirement(OPTION, u32::MAX, options, Errno::NOPROTOOPT)
    }
}

/// Absent on purpose: filters (`SO_ATTACH_*`, `SO_LOCK_FILTER`), memory charged to no cgroup
/// (`SO_ZEROCOPY`), switches of the whole host (`SO_TIMESTAMP*`), and facts about a peer outside
/// (`SO_PEERPIDFD`, `SO_PASSPIDFD`, `SO_PEERSEC`, `SO_PEERGROUPS`): on the channels of a sandbox
/// the peer is the service.
const SOCKET_OPTIONS: [u32; 19] = [
    bits(c::SO_REUSEADDR),  // every server
    bits(c::SO_TYPE),       // read by libraries that are handed a descriptor
    bits(c::SO_ERROR),      // result of a connection made without waiting
    bits(c::SO_BROADCAST),  // a flag
    bits(c::SO_SNDBUF),     // what is sent is charged to the sender
    bits(c::SO_RCVBUF),     // read; setting it has no effect
    bits(c::SO_RCVLOWAT),   // read by gRPC; setting it has no effect
    bits(c::SO_KEEPALIVE),  // HTTP clients, databases
    bits(c::SO_OOBINLINE),  // a flag
    bits(c::SO_LINGER),     // a flag and a time
    bits(c::SO_REUSEPORT),  // servers with several processes, gRPC
    bits(c::SO_PASSCRED),   // local services that ask who calls
    bits(c::SO_PEERCRED),   // local services that ask who calls; ids as seen in the sandbox
    bits(c::SO_RCVTIMEO),   // timeouts of libc and Python
    bits(c::SO_SNDTIMEO),   // timeouts of libc and Python
    bits(c::SO_ACCEPTCONN), // read by libraries that are handed a descriptor
    bits(c::SO_PROTOCOL),   // read by libraries that are handed a descriptor
    bits(c::SO_DOMAIN),     // read by libraries that are handed a descriptor
    bits(c::SO_PRIORITY),   // a number on packets that stay in the namespace
];

/// Absent on purpose: `TCP_MD5SIG` and `TCP_AO_*` (keys charged to no cgroup), `TCP_ULP` and
/// `TCP_CONGESTION` (modules of the host), `TCP_REPAIR`, `TCP_FASTOPEN*`, `TCP_ZEROCOPY_RECEIVE`.
const TCP_OPTIONS: [u32; 12] = [
    bits(c::TCP_NODELAY),      // every HTTP library
    bits(c::TCP_MAXSEG),       // read by Java and proxies
    bits(c::TCP_CORK),         // web servers
    bits(c::TCP_KEEPIDLE),     // HTTP clients, databases
    bits(c::TCP_KEEPINTVL),    // HTTP clients, databases
    bits(c::TCP_KEEPCNT),      // HTTP clients, databases
    bits(c::TCP_SYNCNT),       // a number
    bits(c::TCP_LINGER2),      // a time; closing connections are counted
    bits(c::TCP_DEFER_ACCEPT), // web servers; each waiting connection has a counted client
    bits(c::TCP_INFO),         // statistics, to read
    bits(c::TCP_QUICKACK),     // Java, gRPC
    bits(c::TCP_USER_TIMEOUT), // gRPC, databases
];

/// Absent on purpose: memberships (charged to no cgroup), options and headers of one's own.
const IP_OPTIONS: [u32; 7] = [
    bits(c::IP_TOS),            // ssh, Java
    bits(c::IP_TTL),            // a number
    bits(c::IP_MTU_DISCOVER),   // QUIC libraries
    bits(c::IP_RECVERR),        // libc's resolver; setting it has no effect
    bits(c::IP_MTU),            // read by QUIC libraries
    bits(c::IP_MULTICAST_TTL),  // Java sets it on every datagram socket
    bits(c::IP_MULTICAST_LOOP), // a flag
];

/// Absent on purpose: memberships and flow labels (charged to no cgroup), headers, address changes.
const IPV6_OPTIONS: [u32; 8] = [
    bits(c::IPV6_UNICAST_HOPS),   // a number
    bits(c::IPV6_MULTICAST_HOPS), // Java sets it on every datagram socket
    bits(c::IPV6_MULTICAST_LOOP), // a flag
    bits(c::IPV6_MTU_DISCOVER),   // QUIC libraries
    bits(c::IPV6_MTU),            // read by QUIC libraries
    bits(c::IPV6_RECVERR),        // libc's resolver; setting it has no effect
    bits(c::IPV6_V6ONLY),         // every server on both families
    bits(c::IPV6_TCLASS),         // Java
];
