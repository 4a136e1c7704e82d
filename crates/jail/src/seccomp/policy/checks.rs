//! Calls that are allowed for some arguments only.

use super::super::{Action, Otherwise, Requirement, Values};
use super::{Rule, sockets};
use libc as c;
use rustix::io::Errno;

pub(super) const RULES: &[Rule] = &[
    check("clone", CLONE, "starts processes and threads, but no namespaces and no siblings"),
    check("ioctl", IOCTL, "terminals, readiness and file clones; every driver has its own ioctls"),
    check("socket", SOCKET, "local stream and datagram sockets; internet ones where asked for"),
    check("socketpair", SOCKETPAIR, "pairs of local sockets; other families have none"),
    check("prctl", PRCTL, "names, death signals and queries of the caller's own process"),
    check("personality", PERSONALITY, "query, and return to the default; no executable heaps"),
    check("setrlimit", SETRLIMIT, "may lower limits, but not the one of core dumps"),
    check("prlimit64", PRLIMIT, "may read and lower limits, but not the one of core dumps"),
    ask("sysinfo", "answered with the sandbox's own memory; libc and Java size themselves by it"),
    check("mknod", MKNOD, "named pipes, local sockets and plain files; never a device"),
    check("mknodat", MKNODAT, "named pipes, local sockets and plain files; never a device"),
    check("open", OPEN, "opens files the mount tree shows, but not past the page cache"),
    check("openat", OPENAT, "opens files the mount tree shows, but not past the page cache"),
    check("fcntl", FCNTL, "descriptor flags, pipes, seals; file locks are counted by the service"),
    check("setsockopt", sockets::SETSOCKOPT, "options whose memory is charged or that take none"),
    check("getsockopt", sockets::GETSOCKOPT, "own sockets; nothing about a peer outside"),
    check("sendto", sockets::FLAGS_FOURTH, "own sockets"),
    check("recvfrom", sockets::FLAGS_FOURTH, "own sockets"),
    check("sendmsg", sockets::FLAGS_THIRD, "own sockets; descriptors travel only over a socket"),
    check("recvmsg", sockets::FLAGS_THIRD, "own sockets; descriptors travel only over a socket"),
    check("sendmmsg", sockets::FLAGS_FOURTH, "several sendmsg at once; name resolution"),
    check("recvmmsg", sockets::FLAGS_FOURTH, "several recvmsg at once"),
    check("madvise", MADVISE, "hints for allocators and garbage collectors, on own memory"),
    check("inotify_add_watch", INOTIFY, "tells who changes a visible file, but not who reads it"),
    check("mmap", MMAP, "memory and mapped files, run-time compilers too; but no huge pages"),
    check("memfd_create", MEMFD, "a file in memory, charged to the cgroup; but no huge pages"),
    check("preadv2", PREADV, "preadv with flags, but not past the page cache"),
    check("fadvise64", FADVISE, "hints on an open file; what others read stays in memory"),
];

/// Rules of a program with a loopback network. The service checks how many sockets the network
/// namespace has, and nothing that the program could change after the check.
pub(super) const LOOPBACK: &[Rule] = &[
    check("socket", LOOPBACK_SOCKET, "internet sockets as well, counted by the service"),
    ask(
        "connect",
        "connections that are never accepted are charged to no cgroup: counted by the service",
    ),
    ask("listen", "each listening socket holds such connections: counted by the service"),
];

/// Rules of a zygote, which has no listener: its children are checked by their own filter.
pub(super) const ZYGOTE_UNCOUNTED: &[Rule] = &[
    check("socket", ZYGOTE_SOCKET, "what a child with a loopback network may have"),
    check("fcntl", ZYGOTE_FCNTL, "what a program may; a zygote's locks are not counted"),
];

/// Rule for a zygote, which also raises the loopback interface of a child's network namespace.
pub(super) const ZYGOTE_IOCTL: Rule = check(
    "ioctl",
    &[requirement(1, u32::MAX, &ZYGOTE_IOCTLS, Errno::NOTTY)],
    "what a program may, and raising the loopback interface of a child's network",
);

/// Flags of `clone`. `CLONE_NEWTIME` is absent: in `clone` its bit belongs to the exit signal.
///
/// `CLONE_PARENT` would make a child of the caller's parent, which may be outside the sandbox and
/// takes its children for processes it started.
///
/// Threads must share their descriptors, so that the descriptors of a process can be counted once:
/// see the file locks below. Every libc does it.
const CLONE: &[Requirement] = &[
    requirement(0, bits(NAMESPACES | c::CLONE_PARENT), &[0], Errno::PERM),
    requirement(0, bits(c::CLONE_THREAD | c::CLONE_FILES), &THREADS, Errno::INVAL),
];
const THREADS: [u32; 3] = [0, bits(c::CLONE_FILES), bits(c::CLONE_THREAD | c::CLONE_FILES)];

const NAMESPACES: i32 = c::CLONE_NEWNS
    | c::CLONE_NEWCGROUP
    | c::CLONE_NEWUTS
    | c::CLONE_NEWIPC
    | c::CLONE_NEWUSER
    | c::CLONE_NEWPID
    | c::CLONE_NEWNET;

/// Internet sockets. The protocol is checked as well, because the kernel loads a module of the
/// *host* for a protocol it does not have yet: SCTP, DCCP, SMC and their history of bugs. 1 is
/// `PF_UNIX` for local sockets; for internet ones it is ICMP, which the empty `ping_group_range`
/// refuses.
const LOOPBACK_SOCKET: &[Requirement] = &[
    requirement(0, u32::MAX, &FAMILIES, Errno::AFNOSUPPORT),
    SOCKET_TYPE,
    SOCKET_PROTOCOL,
    Requirement {
        otherwise: Otherwise::Ask,
        ..requirement(0, u32::MAX, LOCAL, Errno::AFNOSUPPORT)
    },
];
const ZYGOTE_SOCKET: &[Requirement] = LOOPBACK_SOCKET.split_at(3).0;
/// Local sockets only: the error is that of a kernel without internet protocols.
const SOCKET: &[Requirement] =
    &[requirement(0, u32::MAX, LOCAL, Errno::AFNOSUPPORT), SOCKET_TYPE, SOCKET_PROTOCOL];
const SOCKET_TYPE: Requirement =
    requirement(1, !bits(c::SOCK_CLOEXEC | c::SOCK_NONBLOCK), &SOCKET_TYPES, Errno::PERM);
const SOCKET_PROTOCOL: Requirement = requirement(2, u32::MAX, &PROTOCOLS, Errno::PROTONOSUPPORT);
const LOCAL: &[u32] = &[bits(c::AF_UNIX)];
const FAMILIES: [u32; 3] = [bits(c::AF_UNIX), bits(c::AF_INET), bits(c::AF_INET6)];
const SOCKET_TYPES: [u32; 2] = [bits(c::SOCK_STREAM), bits(c::SOCK_DGRAM)];
const PROTOCOLS: [u32; 4] = [0, bits(c::PF_UNIX), bits(c::IPPROTO_TCP), bits(c::IPPROTO_UDP)];

const SOCKETPAIR: &[Requirement] =
    &[requirement(0, u32::MAX, LOCAL, Errno::AFNOSUPPORT), SOCKET_TYPE];

/// Special values of `personality`: the default, and a query.
const PERSONALITY: &[Requirement] = &[requirement(0, u32::MAX, &[0, u32::MAX], Errno::PERM)];

/// Limits without that of core dumps. A core limit of 1 is the only one with which the kernel never
/// starts the host's handler of a piped `core_pattern`; a program that could lower it to 0 would
/// have its crash passed there.
const SETRLIMIT: &[Requirement] = &[requirement(0, u32::MAX, &RLIMITS, Errno::PERM)];
/// Without a new limit it only reads, which libraries need.
///
/// Only for the caller itself, as libc does: init and other processes of the sandbox have the same
/// user, so the kernel would let a program lower theirs.
const PRLIMIT: &[Requirement] = &[
    requirement(0, u32::MAX, &[0], Errno::PERM),
    Requirement { or_null: Some(2), ..requirement(1, u32::MAX, &RLIMITS, Errno::PERM) },
];
/// All but `RLIMIT_CORE`, which is 4.
const RLIMITS: [u32; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

const MKNOD: &[Requirement] = &[requirement(1, c::S_IFMT, &NODES, Errno::PERM)];
const MKNODAT: &[Requirement] = &[requirement(2, c::S_IFMT, &NODES, Errno::PERM)];
/// A type of 0 means a plain file.
const NODES: [u32; 4] = [0, c::S_IFREG, c::S_IFIFO, c::S_IFSOCK];

/// Flags of `open` without `O_DIRECT`. Files of the root are on the host's disk. Read past the page
/// cache, or evicted from it repeatedly, they would keep that disk busy for all processes. `EINVAL`
/// is the answer of a file system without direct I/O, such as the workspace's.
const OPEN: &[Requirement] = &[requirement(1, bits(c::O_DIRECT), &[0], Errno::INVAL)];
const OPENAT: &[Requirement] = &[requirement(2, bits(c::O_DIRECT), &[0], Errno::INVAL)];
/// Commands of `fcntl`. `EINVAL` is what a kernel without the command answers. Absent on purpose:
/// leases, which delay processes that open the file, on the host as well; `F_NOTIFY`, which reveals
/// readers of a file of the root; and locks that belong to an open file (`F_OFD_*`), which show no
/// owner to count them for. Programs that need those (QEMU, Samba) do not run here, and gdbm falls
/// back.
///
/// A lock takes some 200 bytes of kernel memory that is charged to no cgroup, and the kernel has no
/// limit on their number. So the service counts the calls: see [`crate::syscall_responder`].
const FCNTL: &[Requirement] = &[
    requirement(1, u32::MAX, &COMMANDS, Errno::INVAL),
    Requirement {
        when: Some((1, bits(c::F_SETFL))),
        ..requirement(2, bits(c::O_DIRECT), &[0], Errno::INVAL)
    },
    Requirement {
        values: Values::NoneOf(&[bits(c::F_SETLK), bits(c::F_SETLKW)]),
        otherwise: Otherwise::Ask,
        ..requirement(1, u32::MAX, &COMMANDS, Errno::INVAL)
    },
];
const ZYGOTE_FCNTL: &[Requirement] = FCNTL.split_at(2).0;
const COMMANDS: [u32; 15] = [
    bits(c::F_DUPFD),
    bits(c::F_GETFD),
    bits(c::F_SETFD),
    bits(c::F_GETFL),
    bits(c::F_SETFL),
    bits(c::F_GETLK),
    bits(c::F_SETLK),
    bits(c::F_SETLKW),
    8, // F_SETOWN
    9, // F_GETOWN
    bits(c::F_DUPFD_CLOEXEC),
    bits(c::F_SETPIPE_SZ), // charged to the memory limit
    bits(c::F_GETPIPE_SZ),
    bits(c::F_ADD_SEALS),
    bits(c::F_GET_SEALS),
];
/// Events of inotify without reads. A file of the root is the same for the host and for all
/// sandboxes: watching reads would reveal which commands the host runs, and which modules another
/// sandbox imports. It never changes, so watching for changes reveals nothing.
const INOTIFY: &[Requirement] = &[requirement(2, READING, &[0], Errno::PERM)];
const READING: u32 = c::IN_ACCESS | c::IN_OPEN | c::IN_CLOSE_NOWRITE;
/// Flags of `mmap` without huge pages: those that an administrator set aside are one pool for the
/// whole host, and no memory limit counts them. `ENOMEM` is what an empty pool answers.
const MMAP: &[Requirement] = &[requirement(3, bits(c::MAP_HUGETLB), &[0], Errno::NOMEM)];
const MEMFD: &[Requirement] = &[requirement(1, c::MFD_HUGETLB, &[0], Errno::INVAL)];
/// Flags of `preadv2` without `RWF_DONTCACHE`, which libc does not name yet, and `RWF_NOWAIT`,
/// which reveals whether a page was read before. Kernels or file systems without them answer the
/// same.
const PREADV: &[Requirement] =
    &[requirement(5, 0x80 | bits(c::RWF_NOWAIT), &[0], Errno::OPNOTSUPP)];
/// Advice of `madvise`. Absent on purpose: `MADV_MERGEABLE`, with which a kernel thread works for
/// the program and reveals what others have in memory; `MADV_COLD` and `MADV_PAGEOUT`, which evict
/// shared pages and write to the host's swap; advice that breaks memory on purpose.
const MADVISE: &[Requirement] = &[requirement(2, u32::MAX, &ADVICE, Errno::INVAL)];
const ADVICE: [u32; 20] = [
    bits(c::MADV_NORMAL),
    bits(c::MADV_RANDOM),
    bits(c::MADV_SEQUENTIAL),
    bits(c::MADV_WILLNEED),
    bits(c::MADV_DONTNEED),
    bits(c::MADV_FREE),
    bits(c::MADV_REMOVE),
    bits(c::MADV_DONTFORK),
    bits(c::MADV_DOFORK),
    bits(c::MADV_HUGEPAGE),
    bits(c::MADV_NOHUGEPAGE),
    bits(c::MADV_DONTDUMP),
    bits(c::MADV_DODUMP),
    bits(c::MADV_WIPEONFORK),
    bits(c::MADV_KEEPONFORK),
    bits(c::MADV_POPULATE_READ),
    bits(c::MADV_POPULATE_WRITE),
    24,  // MADV_DONTNEED_LOCKED
    102, // MADV_GUARD_INSTALL: stacks of newer libcs
    103, // MADV_GUARD_REMOVE
];
/// All but `POSIX_FADV_DONTNEED`, which is 4.
const FADVISE: &[Requirement] = &[requirement(3, u32::MAX, &[0, 1, 2, 3, 5], Errno::INVAL)];

/// Operations of `prctl`. `PR_SET_SECCOMP`, `PR_SET_MM` and everything about other processes are
/// absent on purpose, and so is `PR_SET_VMA`: names of mappings are charged to no cgroup, and many
/// kernels have none.
const PRCTL: &[Requirement] = &[requirement(0, u32::MAX, &PRCTLS, Errno::INVAL)];
const PRCTLS: [u32; 19] = [
    bits(c::PR_SET_NAME),
    bits(c::PR_GET_NAME),
    bits(c::PR_SET_PDEATHSIG),
    bits(c::PR_GET_PDEATHSIG),
    bits(c::PR_SET_DUMPABLE),
    bits(c::PR_GET_DUMPABLE),
    bits(c::PR_SET_NO_NEW_PRIVS),
    bits(c::PR_GET_NO_NEW_PRIVS),
    bits(c::PR_GET_SECCOMP),
    bits(c::PR_CAPBSET_READ),
    bits(c::PR_GET_KEEPCAPS),
    bits(c::PR_GET_SECUREBITS),
    bits(c::PR_SET_TIMERSLACK),
    bits(c::PR_GET_TIMERSLACK),
    bits(c::PR_SET_CHILD_SUBREAPER),
    bits(c::PR_GET_CHILD_SUBREAPER),
    bits(c::PR_GET_TID_ADDRESS),
    bits(c::PR_SET_THP_DISABLE),
    bits(c::PR_GET_THP_DISABLE),
];

/// Requests of `ioctl`. The error is that of a file that is not a terminal, so probing programs
/// continue.
const IOCTL: &[Requirement] = &[requirement(1, u32::MAX, &IOCTLS, Errno::NOTTY)];

const ZYGOTE_IOCTLS: [u32; IOCTLS.len() + 1] = {
    let mut all = [low(c::SIOCSIFFLAGS); IOCTLS.len() + 1];
    let mut index = 0;
    while index < IOCTLS.len() {
        all[index] = IOCTLS[index];
        index += 1;
    }
    all
};

/// Absent on purpose: `TIOCSTI` and `TIOCLINUX` type into another user's terminal, `TIOCCONS` takes
/// the console, `TIOCSETD` loads line disciplines, `FS_IOC_SETFLAGS` makes undeletable files,
/// `FIBMAP` and `FS_IOC_FIEMAP` show the host's disk layout, `NS_GET_*` open namespaces.
const IOCTLS: [u32; 57] = [
    // Terminal settings.
    low(c::TCGETS),
    low(c::TCSETS),
    low(c::TCSETSW),
    low(c::TCSETSF),
    low(c::TCGETA),
    low(c::TCSETA),
    low(c::TCSETAW),
    low(c::TCSETAF),
    low(c::TCGETS2),
    low(c::TCSETS2),
    low(c::TCSETSW2),
    low(c::TCSETSF2),
    low(c::TIOCGWINSZ),
    low(c::TIOCSWINSZ),
    low(c::TIOCEXCL),
    low(c::TIOCNXCL),
    low(c::TIOCGEXCL),
    // Terminal queues and breaks.
    low(c::TCSBRK),
    low(c::TCSBRKP),
    low(c::TCXONC),
    low(c::TCFLSH),
    low(c::TIOCSBRK),
    low(c::TIOCCBRK),
    low(c::TIOCOUTQ),
    // Job control.
    low(c::TIOCGPGRP),
    low(c::TIOCSPGRP),
    low(c::TIOCGSID),
    low(c::TIOCSCTTY),
    low(c::TIOCNOTTY),
    // Pseudo terminals: expect, script, tmux and Python's `pty` make their own.
    low(c::TIOCGPTN),
    low(c::TIOCSPTLCK),
    low(c::TIOCGPTLCK),
    low(c::TIOCGPTPEER),
    low(c::TIOCPKT),
    low(c::TIOCGPKT),
    // Any descriptor: readiness, close on exec, signals on input.
    low(c::FIONREAD),
    low(c::FIONBIO),
    low(c::FIOASYNC),
    low(c::FIOCLEX),
    low(c::FIONCLEX),
    low(c::FIOQSIZE),
    0x8901, // FIOSETOWN
    0x8903, // FIOGETOWN
    0x8902, // SIOCSPGRP
    0x8904, // SIOCGPGRP
    0x8905, // SIOCATMARK
    // Files: cheap copies, block size, attributes.
    low(c::FICLONE),
    low(c::FICLONERANGE),
    low(c::FS_IOC_GETFLAGS),
    2, // FIGETBSZ
    // The interfaces of the sandbox's own network namespace, to read.
    low(c::SIOCGIFCONF),
    low(c::SIOCGIFNAME),
    low(c::SIOCGIFINDEX),
    low(c::SIOCGIFFLAGS),
    low(c::SIOCGIFADDR),
    low(c::SIOCGIFNETMASK),
    low(c::SIOCGIFMTU),
];

const fn ask(name: &'static str, reason: &'static str) -> Rule {
    Rule { name, action: Action::Ask, reason }
}

const fn check(name: &'static str, rules: &'static [Requirement], reason: &'static str) -> Rule {
    Rule { name, action: Action::Check(rules), reason }
}

pub(super) const fn requirement(
    argument: u8,
    mask: u32,
    one_of: &'static [u32],
    otherwise: Errno,
) -> Requirement {
    let (values, otherwise) = (Values::OneOf(one_of), Otherwise::Errno(otherwise));
    Requirement { argument, mask, values, when: None, or_null: None, otherwise }
}

/// C constants are `int`; the filter sees the same bits without a sign.
pub(super) const fn bits(constant: i32) -> u32 {
    constant.cast_unsigned()
}

/// Requests are `unsigned long` in libc and `unsigned int` in the kernel.
const fn low(request: c::Ioctl) -> u32 {
    request as u32
}
