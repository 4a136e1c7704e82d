//! The compiled program gives exactly the answers of the table (K21).

use super::super::{
    Action, Entry, Filter, Otherwise, Profile, Requirement, UNKNOWN, Values, arch, table,
};
use super::interpreter::{Call, Interpreter};
use rustix::io::Errno;

const PROFILES: [Profile; 3] = [Profile::Program, Profile::Loopback, Profile::Zygote];
const I386: u32 = 0x4000_0003;
const AARCH64: u32 = 0xc000_00b7;
const HIGH: u64 = 0xdead_beef_0000_0000;

#[test]
fn the_program_equals_the_table_and_every_step_of_it_is_used() {
    for profile in PROFILES {
        let filter = Filter::compile(profile);
        let entries = table(profile);
        let mut interpreter = Interpreter::new(filter.instructions());
        for call in all_calls(&entries) {
            let expected = code(decide(&entries, &call));
            assert_eq!(interpreter.evaluate(call), expected, "{profile:?}: {call:x?}");
        }
        assert_eq!(interpreter.untaken(), [], "{profile:?}: steps no call takes");
    }
}

/// Bounds on the program. Its depth is what a start costs: see `compile`. Its length hardly
/// matters: 354 instructions take as long to install as 256 did, 80 to 100 µs.
#[test]
fn the_filter_is_short_and_shallow() {
    for profile in PROFILES {
        let filter = Filter::compile(profile);
        let mut interpreter = Interpreter::new(filter.instructions());
        for entry in table(profile).iter().filter(|entry| entry.action == Action::Allow) {
            interpreter.evaluate(Call::native(entry.number, [0; 6]));
        }
        let (length, deepest) = (filter.instructions().len(), interpreter.deepest);
        assert!(length <= 384, "{profile:?}: {length} instructions");
        assert!(deepest <= 14, "{profile:?}: {deepest} steps");
    }
}

#[test]
fn foreign_interfaces_kill() {
    for profile in PROFILES {
        let filter = Filter::compile(profile);
        let mut interpreter = Interpreter::new(filter.instructions());
        for arch in [I386, AARCH64, 0, u32::MAX, arch::AUDIT ^ 1] {
            for number in [0, 1, 20, 56, 600] {
                let call = Call { arch, number, arguments: [0; 6] };
                assert_eq!(interpreter.evaluate(call), libc::SECCOMP_RET_KILL_PROCESS, "{call:x?}");
            }
        }
        for number in [0x4000_0000, 0x4000_0001, 0x4000_0208, 0x8000_0000, u32::MAX] {
            let call = Call::native(number, [0; 6]);
            assert_eq!(interpreter.evaluate(call), libc::SECCOMP_RET_KILL_PROCESS, "{call:x?}");
        }
    }
}

#[test]
fn arguments_decide_as_the_policy_promises() {
    let clone = |flags: i32| ("clone", [flags as u64, 0, 0, 0, 0, 0]);
    let socket = |family: i32, kind: i32, protocol: i32| {
        ("socket", [family as u64, kind as u64, protocol as u64, 0, 0, 0])
    };
    let first = |name: &'static str, value: u64| (name, [value, 0, 0, 0, 0, 0]);
    let second = |name: &'static str, value: u64| (name, [0, value, 0, 0, 0, 0]);
    let third = |name: &'static str, value: u64| (name, [0, 0, value, 0, 0, 0]);
    let fcntl = |what: i32, with: i32| ("fcntl", [0, what as u64, with as u64, 0, 0, 0]);
    let pair = |family: i32, kind: i32| ("socketpair", [family as u64, kind as u64, 0, 0, 0, 0]);
    let advice = |advice: i32| ("fadvise64", [0, 0, 0, advice as u64, 0, 0]);
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
    let ok = None;
    for (call, expected) in [
        (clone(libc::SIGCHLD), ok),
        (clone(thread | libc::CLONE_THREAD | libc::CLONE_SETTLS), ok),
        (clone(thread ^ libc::CLONE_FILES | libc::CLONE_THREAD), Some(Errno::INVAL)),
        (clone(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD), ok),
        (clone(0x80 | libc::SIGCHLD), ok),
        (clone(libc::CLONE_NEWUSER | libc::SIGCHLD), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWNS), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWPID), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWNET), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWIPC), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWUTS), Some(Errno::PERM)),
        (clone(libc::CLONE_NEWCGROUP), Some(Errno::PERM)),
        (clone(libc::CLONE_PARENT | libc::SIGCHLD), Some(Errno::PERM)),
        (socket(libc::AF_UNIX, libc::SOCK_STREAM, 0), ok),
        (socket(libc::AF_UNIX, libc::SOCK_DGRAM | flags, 0), ok),
        (socket(libc::AF_INET, libc::SOCK_RAW, 0), Some(Errno::PERM)),
        (socket(libc::AF_INET, libc::SOCK_RAW | flags, libc::IPPROTO_TCP), Some(Errno::PERM)),
        (socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0), Some(Errno::PERM)),
        (socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP), Some(Errno::PROTONOSUPPORT)),
        (socket(libc::AF_NETLINK, libc::SOCK_RAW, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_PACKET, libc::SOCK_RAW, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_XDP, libc::SOCK_RAW, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 0), Some(Errno::AFNOSUPPORT)),
        (socket(libc::AF_KEY, libc::SOCK_RAW, 0), Some(Errno::AFNOSUPPORT)),
        (pair(libc::AF_UNIX, libc::SOCK_STREAM | flags), ok),
        (pair(libc::AF_UNIX, libc::SOCK_SEQPACKET), Some(Errno::PERM)),
        (pair(libc::AF_TIPC, libc::SOCK_STREAM), Some(Errno::AFNOSUPPORT)),
        (second("ioctl", libc::TCGETS), ok),
        (second("ioctl", libc::FIONREAD), ok),
        (second("ioctl", HIGH | libc::TCGETS), ok),
        (second("ioctl", libc::TIOCSTI), Some(Errno::NOTTY)),
        (second("ioctl", HIGH | libc::TIOCSTI), Some(Errno::NOTTY)),
        (second("ioctl", libc::TIOCLINUX), Some(Errno::NOTTY)),
        (second("ioctl", libc::TIOCCONS), Some(Errno::NOTTY)),
        (second("ioctl", libc::TIOCSETD), Some(Errno::NOTTY)),
        (second("ioctl", libc::SIOCSIFFLAGS), Some(Errno::NOTTY)),
        (first("prctl", libc::PR_SET_NAME as u64), ok),
        (first("prctl", libc::PR_SET_VMA as u64), Some(Errno::INVAL)),
        (first("prctl", libc::PR_SET_SECCOMP as u64), Some(Errno::INVAL)),
        (first("prctl", HIGH | libc::PR_SET_SECCOMP as u64), Some(Errno::INVAL)),
        (first("prctl", libc::PR_SET_MM as u64), Some(Errno::INVAL)),
        (first("personality", 0), ok),
        (first("personality", 0xffff_ffff), ok),
        (first("personality", libc::ADDR_NO_RANDOMIZE as u64), Some(Errno::PERM)),
        (second("mknod", u64::from(libc::S_IFIFO | 0o644)), ok),
        (second("mknod", u64::from(libc::S_IFCHR | 0o644)), Some(Errno::PERM)),
        (third("mknodat", u64::from(libc::S_IFSOCK | 0o777)), ok),
        (third("mknodat", 0o644), ok),
        (third("mknodat", u64::from(libc::S_IFBLK | 0o644)), Some(Errno::PERM)),
        (second("open", (libc::O_RDWR | libc::O_CREAT) as u64), ok),
        (second("open", libc::O_DIRECT as u64), Some(Errno::INVAL)),
        (third("openat", (libc::O_RDONLY | libc::O_CLOEXEC) as u64), ok),
        (third("openat", HIGH | libc::O_DIRECT as u64), Some(Errno::INVAL)),
        (fcntl(libc::F_SETFL, libc::O_NONBLOCK), ok),
        (fcntl(libc::F_SETFL, libc::O_DIRECT), Some(Errno::INVAL)),
        (fcntl(libc::F_DUPFD, libc::O_DIRECT), ok),
        (fcntl(libc::F_GETLK, libc::O_DIRECT), ok),
        (fcntl(libc::F_OFD_SETLK, 0), Some(Errno::INVAL)),
        (fcntl(libc::F_SETLEASE, libc::F_RDLCK), Some(Errno::INVAL)),
        (("preadv2", [0, 0, 0, 0, 0, libc::RWF_HIPRI as u64]), ok),
        (("preadv2", [0, 0, 0, 0, 0, libc::RWF_NOWAIT as u64]), Some(Errno::OPNOTSUPP)),
        (("preadv2", [0, 0, 0, 0, 0, 0x80]), Some(Errno::OPNOTSUPP)),
        (third("inotify_add_watch", u64::from(libc::IN_MODIFY | libc::IN_CLOSE_WRITE)), ok),
        (third("inotify_add_watch", u64::from(libc::IN_OPEN)), Some(Errno::PERM)),
        (third("inotify_add_watch", u64::from(libc::IN_ALL_EVENTS)), Some(Errno::PERM)),
        (fcntl(libc::F_NOTIFY, 2), Some(Errno::INVAL)),
        (("prlimit64", [0, 7, 1, 0, 0, 0]), ok),
        (("prlimit64", [1, 7, 1, 0, 0, 0]), Some(Errno::PERM)),
        (third("madvise", libc::MADV_DONTNEED as u64), ok),
        (third("madvise", libc::MADV_MERGEABLE as u64), Some(Errno::INVAL)),
        (third("madvise", libc::MADV_PAGEOUT as u64), Some(Errno::INVAL)),
        (("mmap", [0, 0, 0, libc::MAP_ANONYMOUS as u64, 0, 0]), ok),
        (("mmap", [0, 0, 0, libc::MAP_HUGETLB as u64, 0, 0]), Some(Errno::NOMEM)),
        (second("memfd_create", libc::MFD_CLOEXEC.into()), ok),
        (second("memfd_create", libc::MFD_HUGETLB.into()), Some(Errno::INVAL)),
        (advice(libc::POSIX_FADV_SEQUENTIAL), ok),
        (advice(libc::POSIX_FADV_DONTNEED), Some(Errno::INVAL)),
    ] {
        let answer = answer(Profile::Loopback, call);
        let expected = expected.map_or(Action::Allow, Action::Errno);
        assert_eq!(answer, code(expected), "{call:x?}: expected {expected:?}, came {answer:#x}");
    }
}

#[test]
fn internet_sockets_exist_only_with_a_loopback_network() {
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let call = ("socket", [family as u64, kind as u64, 0, 0, 0, 0]);
            let refused = code(Action::Errno(Errno::AFNOSUPPORT));
            assert_eq!(answer(Profile::Program, call), refused, "{call:?}");
            assert_eq!(answer(Profile::Loopback, call), code(Action::Ask), "{call:?}");
            assert_eq!(answer(Profile::Zygote, call), libc::SECCOMP_RET_ALLOW, "{call:?}");
        }
    }
    let local = ("socket", [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]);
    assert_eq!(answer(Profile::Program, local), libc::SECCOMP_RET_ALLOW);
}

/// Refused options attach memory to a socket that is charged to no cgroup, load modules of the host
/// or reveal facts about the service, which is the peer on the channels of a sandbox.
#[test]
fn socket_options_are_an_allow_list() {
    let refused = code(Action::Errno(Errno::NOPROTOOPT));
    let (socket, tcp, ip, ip6) =
        (libc::SOL_SOCKET, libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6);
    for (level, option) in [
        (socket, libc::SO_ATTACH_FILTER),
        (socket, libc::SO_ATTACH_BPF),
        (socket, libc::SO_ATTACH_REUSEPORT_CBPF),
        (socket, libc::SO_ATTACH_REUSEPORT_EBPF),
        (socket, libc::SO_LOCK_FILTER),
        (socket, libc::SO_ZEROCOPY),
        (socket, libc::SO_TIMESTAMP),
        (socket, libc::SO_RCVBUFFORCE),
        (socket, libc::SO_PEERSEC),
        (socket, 59), // SO_PEERGROUPS
        (socket, 76), // SO_PASSPIDFD
        (socket, 77), // SO_PEERPIDFD
        (tcp, libc::TCP_MD5SIG),
        (tcp, libc::TCP_ULP),
        (tcp, libc::TCP_CONGESTION),
        (tcp, libc::TCP_FASTOPEN_CONNECT),
        (ip, libc::IP_ADD_MEMBERSHIP),
        (ip, libc::IP_MSFILTER),
        (ip6, libc::IPV6_ADD_MEMBERSHIP),
        (ip6, 32),                 // IPV6_FLOWLABEL_MGR
        (libc::IPPROTO_UDP, 100),  // UDP_ENCAP
        (libc::SOL_NETLINK, 1),    // a level of another family
        (libc::IPPROTO_ICMPV6, 1), // a level of raw sockets
    ] {
        for name in ["setsockopt", "getsockopt"] {
            let call = (name, [3, HIGH | level as u64, HIGH | option as u64, 0, 0, 0]);
            for profile in PROFILES {
                assert_eq!(answer(profile, call), refused, "{profile:?}: {call:x?}");
            }
        }
    }
    for (level, option) in [
        (socket, libc::SO_REUSEADDR),
        (socket, libc::SO_REUSEPORT),
        (socket, libc::SO_ERROR),
        (socket, libc::SO_PEERCRED),
        (socket, libc::SO_SNDBUF),
        (tcp, libc::TCP_NODELAY),
        (tcp, libc::TCP_USER_TIMEOUT),
        (ip, libc::IP_TOS),
        (ip6, libc::IPV6_V6ONLY),
        (ip6, libc::IPV6_MULTICAST_HOPS),
    ] {
        for name in ["setsockopt", "getsockopt"] {
            let call = (name, [3, level as u64, option as u64, 0, 0, 0]);
            assert_eq!(answer(Profile::Program, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
        }
    }
    for (level, option) in [
        (socket, libc::SO_RCVBUF),
        (socket, libc::SO_RCVLOWAT),
        (ip, libc::IP_RECVERR),
        (ip6, libc::IPV6_RECVERR),
    ] {
        for profile in PROFILES {
            let call = |name| (name, [3, HIGH | level as u64, HIGH | option as u64, 0, 0, 0]);
            let set = answer(profile, call("setsockopt"));
            assert_eq!(set, code(Action::Nothing), "taken, without effect");
            assert_eq!(answer(profile, call("getsockopt")), libc::SECCOMP_RET_ALLOW);
        }
    }
}

#[test]
fn out_of_band_data_and_fast_open_are_refused() {
    for (name, at) in [
        ("sendto", 3),
        ("recvfrom", 3),
        ("sendmsg", 2),
        ("recvmsg", 2),
        ("sendmmsg", 3),
        ("recvmmsg", 3),
    ] {
        let with = |flags: i32| {
            let mut arguments = [0; 6];
            arguments[at] = HIGH | flags as u64;
            answer(Profile::Program, (name, arguments))
        };
        let refused = code(Action::Errno(Errno::OPNOTSUPP));
        assert_eq!(with(libc::MSG_OOB), refused, "{name}");
        assert_eq!(with(libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL), refused, "{name}");
        let ordinary = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK;
        assert_eq!(with(ordinary), libc::SECCOMP_RET_ALLOW, "{name}");
    }
}

/// The service counts the calls that it is asked about; a zygote has no listener.
#[test]
fn locks_and_connections_are_asked_about() {
    let lock = |command: i32| ("fcntl", [3, HIGH | command as u64, 0, 0, 0, 0]);
    let connect = ("connect", [3, 0, 0, 0, 0, 0]);
    for call in [lock(libc::F_SETLK), lock(libc::F_SETLKW)] {
        assert_eq!(answer(Profile::Program, call), code(Action::Ask), "{call:x?}");
        assert_eq!(answer(Profile::Zygote, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
    }
    for call in [connect, ("listen", [3, 4096, 0, 0, 0, 0])] {
        assert_eq!(answer(Profile::Program, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
        assert_eq!(answer(Profile::Loopback, call), code(Action::Ask), "{call:x?}");
        assert_eq!(answer(Profile::Zygote, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
    }
}

#[test]
fn the_zygote_may_do_what_the_program_may_not() {
    let flags = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_PARENT) as u64;
    let seccomp = libc::PR_SET_SECCOMP as u64;
    for call in [
        ("clone", [flags, 0, 0, 0, 0, 0]),
        ("clone3", [0; 6]),
        ("unshare", [flags, 0, 0, 0, 0, 0]),
        ("mount", [0; 6]),
        ("seccomp", [1, 0, 0, 0, 0, 0]),
        ("prctl", [seccomp, 2, 0, 0, 0, 0]),
        ("ioctl", [0, libc::SIOCSIFFLAGS, 0, 0, 0, 0]),
    ] {
        assert_eq!(answer(Profile::Zygote, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
        assert_ne!(answer(Profile::Program, call), libc::SECCOMP_RET_ALLOW, "{call:x?}");
    }
}

#[test]
fn the_program_may_nothing_that_the_zygote_may_not() {
    let zygote = table(Profile::Zygote);
    for program in [table(Profile::Program), table(Profile::Loopback)] {
        for call in all_calls(&zygote).chain(all_calls(&program)) {
            if decide(&program, &call) == Action::Allow {
                assert_eq!(decide(&zygote, &call), Action::Allow, "{call:x?}");
            }
        }
    }
}

fn answer(profile: Profile, (name, arguments): (&str, [u64; 6])) -> u32 {
    let entry = table(profile).into_iter().find(|entry| entry.name == name).expect("a known call");
    let filter = Filter::compile(profile);
    Interpreter::new(filter.instructions()).evaluate(Call::native(entry.number, arguments))
}

/// All numbers and some more, by every interface, and every argument rule at its edges.
fn all_calls(entries: &[Entry]) -> impl Iterator<Item = Call> {
    let numbers = (0..=600).chain([1023, 65_536, 0x3fff_ffff, 0x4000_0000, 0x4000_003b, u32::MAX]);
    let arguments = [[0; 6], [u64::MAX; 6]];
    let by_number = numbers.flat_map(move |number| {
        [arch::AUDIT, I386, AARCH64, 0].into_iter().flat_map(move |arch| {
            arguments.into_iter().map(move |arguments| Call { arch, number, arguments })
        })
    });
    let by_argument = entries.iter().flat_map(|entry| match entry.action {
        Action::Check(requirements) => edges(entry.number, requirements),
        _ => Vec::new(),
    });
    by_number.chain(by_argument.collect::<Vec<_>>())
}

/// Calls that pass all requirements but one, which they meet or miss by one or by one bit.
fn edges(number: u32, requirements: &'static [Requirement]) -> Vec<Call> {
    let passing = requirements.iter().fold([0; 6], |mut arguments, requirement| {
        if let Values::OneOf(values) = requirement.values {
            arguments[usize::from(requirement.argument)] = u64::from(values[0]);
        }
        if let Some((at, value)) = requirement.when {
            arguments[usize::from(at)] = u64::from(value);
        }
        arguments
    });
    let mut calls = Vec::new();
    for requirement in requirements {
        let mut passing = passing;
        if let Some((at, value)) = requirement.when {
            passing[usize::from(at)] = u64::from(value);
        }
        for value in interesting(requirement) {
            let mut arguments = passing;
            arguments[usize::from(requirement.argument)] = value;
            calls.push(Call::native(number, arguments));
            if let Some((at, value)) = requirement.when {
                for other in [value ^ 1, u32::MAX, 0] {
                    let mut arguments = arguments;
                    arguments[usize::from(at)] = HIGH | u64::from(other);
                    calls.push(Call::native(number, arguments));
                }
            }
            for pointer in requirement.or_null.into_iter().flat_map(|at| POINTERS.map(|p| (at, p)))
            {
                arguments[usize::from(pointer.0)] = pointer.1;
                calls.push(Call::native(number, arguments));
            }
        }
    }
    calls
}

/// Null, and pointers of which one half is null.
const POINTERS: [u64; 4] = [0, 0x7fff_0000_1000, 0x1_0000_0000, 0x1000];

fn interesting(requirement: &Requirement) -> Vec<u64> {
    // The next value that differs under the mask.
    let step = 1 << requirement.mask.trailing_zeros();
    let near = requirement
        .values
        .listed()
        .iter()
        .flat_map(|&value| [value.wrapping_sub(step), value, value.wrapping_add(step), !value]);
    let single_bits = (0..32).map(|bit| 1 << bit);
    let low = near.chain(single_bits).chain([0, u32::MAX, requirement.mask, !requirement.mask]);
    low.flat_map(|low| [u64::from(low), HIGH | u64::from(low)]).collect()
}

/// Naive evaluation of the table for this call.
fn decide(entries: &[Entry], call: &Call) -> Action {
    if call.arch != arch::AUDIT || call.number >= 0x4000_0000 {
        return Action::KillProcess;
    }
    match entries.iter().find(|entry| entry.number == call.number).map(|entry| entry.action) {
        None => UNKNOWN,
        Some(Action::Check(requirements)) => {
            let failed = requirements.iter().find(|requirement| !holds(requirement, call));
            failed.map_or(Action::Allow, |requirement| match requirement.otherwise {
                Otherwise::Errno(errno) => Action::Errno(errno),
                Otherwise::Ask => Action::Ask,
                Otherwise::Nothing => Action::Nothing,
            })
        }
        Some(action) => action,
    }
}

fn holds(requirement: &Requirement, call: &Call) -> bool {
    let value = call.arguments[usize::from(requirement.argument)] as u32 & requirement.mask;
    let is_idle = |(at, value)| call.arguments[usize::from(at)] as u32 != value;
    if requirement.when.is_some_and(is_idle) {
        return true;
    }
    let is_null = requirement.or_null.is_some_and(|at| call.arguments[usize::from(at)] == 0);
    let is_met = match requirement.values {
        Values::OneOf(values) => values.contains(&value),
        Values::NoneOf(values) => !values.contains(&value),
    };
    is_met || is_null
}

fn code(action: Action) -> u32 {
    match action {
        Action::Allow => 0x7fff_0000,
        Action::Ask => 0x7fc0_0000,
        Action::Nothing => 0x0005_0000,
        Action::Errno(errno) => 0x0005_0000 | errno.raw_os_error() as u32,
        Action::KillProcess => 0x8000_0000,
        Action::Check(_) => unreachable!("a decided call has no check left"),
    }
}
