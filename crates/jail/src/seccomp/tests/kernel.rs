//! The real kernel under the real filter, each refusal with its control.
//!
//! A probe is one raw call with arguments that do nothing even where it is allowed. It runs in a
//! forked child, once without a filter and once with it: only a *different* answer shows that it
//! came from the filter.

use super::super::{Filter, Profile};
use std::ffi::c_long;

type Probe = (&'static str, c_long, [c_long; 6]);

/// Result of a child and of its calls.
#[derive(Debug, PartialEq, Eq)]
struct Observation {
    /// The wait status: 0 is a clean exit.
    status: i32,
    /// One errno for each call, 0 for success, -1 for a call never reached.
    errnos: Vec<i32>,
}

#[test]
fn dangerous_calls_are_refused_by_the_filter_and_not_by_something_else() {
    let refusals: Vec<(Probe, i32)> = refused().into_iter().chain(checked()).collect();
    let probes: Vec<Probe> = refusals.iter().map(|(probe, _)| *probe).collect();
    let control = observe(&[], &probes);
    let confined = observe(&[&Filter::compile(Profile::Loopback)], &probes);
    assert_eq!((control.status, confined.status), (0, 0), "a probe ended its process");
    for (index, ((name, ..), expected)) in refusals.iter().enumerate() {
        let (control, confined) = (control.errnos[index], confined.errnos[index]);
        assert_eq!(confined, *expected, "{name}: wrong answer under the filter");
        assert_ne!(control, *expected, "{name}: refused without the filter as well");
    }
}

#[test]
fn ordinary_calls_answer_as_without_the_filter() {
    let probes = ordinary();
    let control = observe(&[], &probes);
    assert_eq!(control, observe(&[&Filter::compile(Profile::Loopback)], &probes));
    assert_eq!(control, observe(&[&Filter::compile(Profile::Zygote)], &probes));
}

#[test]
fn a_program_filter_on_top_of_a_zygote_filter_is_as_strict_as_alone() {
    let (program, zygote) = (Filter::compile(Profile::Loopback), Filter::compile(Profile::Zygote));
    let probes: Vec<Probe> =
        refused().into_iter().chain(checked()).map(|(probe, _)| probe).collect();
    assert_eq!(observe(&[&program], &probes), observe(&[&zygote, &program], &probes));
}

#[test]
fn a_program_cannot_stack_another_filter() {
    let (program, zygote) = (Filter::compile(Profile::Loopback), Filter::compile(Profile::Zygote));
    let second_refused = Observation { status: INSTALL_FAILED << 8, errnos: Vec::new() };
    assert_eq!(observe(&[&program, &zygote], &[]), second_refused);
    assert_eq!(observe(&[&zygote, &program], &[]), Observation { status: 0, errnos: Vec::new() });
}

#[test]
fn the_x32_interface_kills() {
    let probes = [call("x32 getpid", 0x4000_0000 | libc::SYS_getpid, [0; 6])];
    assert_eq!(observe(&[], &probes).status, 0, "without the filter the process lives");
    let confined = observe(&[&Filter::compile(Profile::Loopback)], &probes);
    assert_eq!(confined, Observation { status: libc::SIGSYS, errnos: vec![-1] });
}

#[test]
fn the_32_bit_interface_kills() {
    let without = in_child(|| i386_getpid().min(0));
    let filter = Filter::compile(Profile::Loopback);
    let within = in_child(|| if confine(&[&filter]) { i386_getpid() } else { INSTALL_FAILED });
    // A kernel without 32-bit support answers with SIGSEGV, which does not come from the filter.
    assert_ne!(without & 0x7f, libc::SIGSYS, "killed without the filter as well");
    assert_eq!(within & 0x7f, libc::SIGSYS, "wait status {within:#x}");
}

/// Calls refused for all arguments, with arguments that the kernel would reject or ignore.
fn refused() -> Vec<(Probe, i32)> {
    const BAD: c_long = -1;
    let perm = |name, number, arguments| (call(name, number, arguments), libc::EPERM);
    let nosys = |name, number, arguments| (call(name, number, arguments), libc::ENOSYS);
    let bad = [BAD, 0, 0, 0, 0, 0];
    vec![
        perm("unshare", libc::SYS_unshare, [0; 6]),
        perm("setns", libc::SYS_setns, bad),
        perm("mount", libc::SYS_mount, [1, 1, 1, 0, 1, 0]),
        perm("umount2", libc::SYS_umount2, [1, 0, 0, 0, 0, 0]),
        perm("pivot_root", libc::SYS_pivot_root, [1, 1, 0, 0, 0, 0]),
        perm("chroot", libc::SYS_chroot, [1, 0, 0, 0, 0, 0]),
        perm("fsopen", libc::SYS_fsopen, [1, BAD, 0, 0, 0, 0]),
        perm("fsmount", libc::SYS_fsmount, [BAD, 0, 0, 0, 0, 0]),
        perm("open_tree", libc::SYS_open_tree, [BAD, 1, 0, 0, 0, 0]),
        perm("move_mount", libc::SYS_move_mount, [BAD, 1, BAD, 1, BAD, 0]),
        perm("mount_setattr", libc::SYS_mount_setattr, [BAD, 1, BAD, 0, 0, 0]),
        perm("ptrace", libc::SYS_ptrace, [BAD, BAD, 0, 0, 0, 0]),
        perm("process_vm_readv", libc::SYS_process_vm_readv, [0; 6]),
        perm("process_vm_writev", libc::SYS_process_vm_writev, [0; 6]),
        perm("pidfd_getfd", libc::SYS_pidfd_getfd, bad),
        perm("kcmp", libc::SYS_kcmp, [BAD, BAD, 0, 0, 0, 0]),
        perm("bpf", libc::SYS_bpf, bad),
        perm("perf_event_open", libc::SYS_perf_event_open, [1, 0, 0, 0, 0, 0]),
        perm("userfaultfd", libc::SYS_userfaultfd, bad),
        perm("keyctl", libc::SYS_keyctl, bad),
        perm("add_key", libc::SYS_add_key, [1, 1, 1, 0, 0, 0]),
        perm("request_key", libc::SYS_request_key, [1, 1, 1, 0, 0, 0]),
        perm("open_by_handle_at", libc::SYS_open_by_handle_at, [BAD, 1, 0, 0, 0, 0]),
        perm("name_to_handle_at", libc::SYS_name_to_handle_at, [BAD, 1, 1, 1, BAD, 0]),
        perm("fanotify_init", libc::SYS_fanotify_init, bad),
        perm("init_module", libc::SYS_init_module, [1, 1, 1, 0, 0, 0]),
        perm("finit_module", libc::SYS_finit_module, [BAD, 1, 0, 0, 0, 0]),
        perm("kexec_load", libc::SYS_kexec_load, [0, 1, 1, BAD, 0, 0]),
        perm("reboot", libc::SYS_reboot, [0; 6]),
        perm("swapon", libc::SYS_swapon, [1, 0, 0, 0, 0, 0]),
        perm("quotactl", libc::SYS_quotactl, bad),
        perm("syslog", libc::SYS_syslog, [10, 0, 0, 0, 0, 0]),
        perm("clock_settime", libc::SYS_clock_settime, [0, 1, 0, 0, 0, 0]),
        perm("settimeofday", libc::SYS_settimeofday, [1, 0, 0, 0, 0, 0]),
        perm("iopl", libc::SYS_iopl, [0; 6]),
        perm("modify_ldt", libc::SYS_modify_ldt, bad),
        perm("seccomp", libc::SYS_seccomp, [2, 0, 1, 0, 0, 0]),
        perm("memfd_secret", libc::SYS_memfd_secret, bad),
        nosys("clone3", libc::SYS_clone3, [0; 6]),
        nosys("io_uring_setup", libc::SYS_io_uring_setup, [1, 1, 0, 0, 0, 0]),
        nosys("get_mempolicy", libc::SYS_get_mempolicy, [0; 6]),
    ]
}

/// Calls refused for these arguments.
fn checked() -> Vec<(Probe, i32)> {
    let mut probes = Vec::new();
    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        // A thread without shared handlers is invalid, so the control starts nothing.
        let flags = c_long::from(flag | libc::CLONE_THREAD);
        probes.push((call("clone", libc::SYS_clone, [flags, 0, 0, 0, 0, 0]), libc::EPERM));
    }
    let socket = |name, family: i32, kind: i32| {
        call(name, libc::SYS_socket, [family.into(), kind.into(), 0, 0, 0, 0])
    };
    let (no_queue, seccomp) = (-1, libc::PR_SET_SECCOMP.into());
    probes.extend([
        (socket("netlink", libc::AF_NETLINK, libc::SOCK_RAW), libc::EAFNOSUPPORT),
        (socket("packet", libc::AF_PACKET, libc::SOCK_RAW), libc::EAFNOSUPPORT),
        (socket("raw", libc::AF_INET, libc::SOCK_RAW), libc::EPERM),
        (ioctl("TIOCSTI on nothing", no_queue, libc::TIOCSTI), libc::ENOTTY),
        (ioctl("TIOCSETD on nothing", no_queue, libc::TIOCSETD), libc::ENOTTY),
        (call("prctl SET_SECCOMP", libc::SYS_prctl, [seccomp, 2, 1, 0, 0, 0]), libc::EINVAL),
        (first("personality", libc::SYS_personality, libc::ADDR_NO_RANDOMIZE.into()), libc::EPERM),
        (
            call("inotify of readers", libc::SYS_inotify_add_watch, [-1, 1, 0x20, 0, 0, 0]),
            libc::EPERM,
        ),
        (call("dnotify", libc::SYS_fcntl, [-1, 1026, 1, 0, 0, 0]), libc::EINVAL),
        (call("lease", libc::SYS_fcntl, [-1, 1024, 0, 0, 0, 0]), libc::EINVAL),
        (call("lock of an open file", libc::SYS_fcntl, [-1, 37, 1, 0, 0, 0]), libc::EINVAL),
        (call("socket filter", libc::SYS_setsockopt, [-1, 1, 26, 1, 16, 0]), libc::ENOPROTOOPT),
        (call("peer's pidfd", libc::SYS_getsockopt, [-1, 1, 77, 1, 1, 0]), libc::ENOPROTOOPT),
        (call("out of band", libc::SYS_sendto, [-1, 1, 1, 1, 0, 0]), libc::EOPNOTSUPP),
        (call("setxattr", libc::SYS_setxattr, [1, 1, 1, 1, 0, 0]), libc::EOPNOTSUPP),
        (call("another's limits", libc::SYS_prlimit64, [1, 99, 0, 0, 0, 0]), libc::EPERM),
        (call("mmap of huge pages", libc::SYS_mmap, [0, 0, 0, 0x4_0022, -1, 0]), libc::ENOMEM),
        (call("memfd of huge pages", libc::SYS_memfd_create, [1, 4, 0, 0, 0, 0]), libc::EINVAL),
        (call("mknod", libc::SYS_mknod, [1, libc::S_IFCHR.into(), 0, 0, 0, 0]), libc::EPERM),
        (call("mknodat", libc::SYS_mknodat, [-1, 1, libc::S_IFBLK.into(), 0, 0, 0]), libc::EPERM),
    ]);
    probes
}

/// Calls that programs need, and edges of the argument rules on the allowed side.
fn ordinary() -> Vec<Probe> {
    let socket = |family: i32, kind: i32| {
        call("socket", libc::SYS_socket, [family.into(), kind.into(), 0, 0, 0, 0])
    };
    vec![
        call("getpid", libc::SYS_getpid, [0; 6]),
        call("read", libc::SYS_read, [-1, 0, 0, 0, 0, 0]),
        call("openat", libc::SYS_openat, [-1, 1, 0, 0, 0, 0]),
        call("kill", libc::SYS_kill, [0, 0, 0, 0, 0, 0]),
        call("getrandom", libc::SYS_getrandom, [0; 6]),
        call("memfd_create", libc::SYS_memfd_create, [1, 0, 0, 0, 0, 0]),
        call("inotify of writers", libc::SYS_inotify_add_watch, [-1, 1, 0x102, 0, 0, 0]),
        call("descriptor flags", libc::SYS_fcntl, [-1, 1, 0, 0, 0, 0]),
        call("setsockopt", libc::SYS_setsockopt, [-1, 1, 2, 1, 4, 0]),
        call("own limits", libc::SYS_prlimit64, [0, 99, 0, 0, 0, 0]),
        call("madvise", libc::SYS_madvise, [0, 0, 4, 0, 0, 0]),
        call("mmap of nothing", libc::SYS_mmap, [0, 0, 0, 0x22, -1, 0]),
        call("landlock version", libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0, 0]),
        call("unassigned", 400, [0; 6]),
        call("from the future", 1000, [0; 6]),
        socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC),
        socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK),
        ioctl("FIONREAD", -1, libc::FIONREAD),
        ioctl("TCGETS", -1, libc::TCGETS),
        first("prctl GET_DUMPABLE", libc::SYS_prctl, libc::PR_GET_DUMPABLE.into()),
        first("personality query", libc::SYS_personality, 0xffff_ffff),
        call("mknod fifo", libc::SYS_mknod, [1, libc::S_IFIFO.into(), 0, 0, 0, 0]),
    ]
}

fn call(name: &'static str, number: c_long, arguments: [c_long; 6]) -> Probe {
    (name, number, arguments)
}

fn first(name: &'static str, number: c_long, argument: c_long) -> Probe {
    (name, number, [argument, 0, 0, 0, 0, 0])
}

fn ioctl(name: &'static str, descriptor: c_long, request: libc::Ioctl) -> Probe {
    (name, libc::SYS_ioctl, [descriptor, request.cast_signed(), 0, 0, 0, 0])
}

/// The exit code of a child that could not put itself under a filter.
const INSTALL_FAILED: i32 = 99;

/// Runs the probes in a child under the filters and returns their answers.
fn observe(filters: &[&Filter], probes: &[Probe]) -> Observation {
    let shared = SharedPage::new();
    let answers = shared.cells(probes.len());
    let status = in_child(|| {
        if !confine(filters) {
            return INSTALL_FAILED;
        }
        for ((_, number, arguments), answer) in probes.iter().zip(answers) {
            answer.store(errno_of(*number, *arguments), ORDER);
        }
        0
    });
    Observation { status, errnos: answers.iter().map(|answer| answer.load(ORDER)).collect() }
}

const ORDER: std::sync::atomic::Ordering = std::sync::atomic::Ordering::SeqCst;

/// Memory that a child writes and its parent reads.
struct SharedPage(*mut std::sync::atomic::AtomicI32);

impl SharedPage {
    const BYTES: usize = 4096;

    fn new() -> SharedPage {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping aliases nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, kind, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED, "no page to share");
        SharedPage(page.cast())
    }

    fn cells(&self, count: usize) -> &[std::sync::atomic::AtomicI32] {
        assert!(count * 4 <= Self::BYTES, "more probes than fit into the page");
        // SAFETY: the page is mapped until `self` drops, zeroed, aligned and large enough; both
        // processes touch it through atomics only.
        let cells = unsafe { std::slice::from_raw_parts(self.0, count) };
        cells.iter().for_each(|cell| cell.store(-1, ORDER));
        cells
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.0.cast(), Self::BYTES) };
    }
}

/// The wait status of a forked child that exits with the result of `body`.
///
/// `body` must not allocate or lock: the test harness has other threads.
fn in_child(body: impl Fn() -> i32) -> i32 {
    // SAFETY: the child only runs `body`, which makes raw calls on its own stack, and `_exit`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1, "fork failed");
    if pid == 0 {
        let code = body();
        // SAFETY: ends the child without running destructors of the parent's objects.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, not waited for yet, and `status` is ours to write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn confine(filters: &[&Filter]) -> bool {
    // SAFETY: sets a flag of the calling process.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    filters.iter().all(|filter| filter.install().is_ok())
}

fn errno_of(number: c_long, arguments: [c_long; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the probes pass no pointer the kernel could follow to memory of this process: 0 and
    // 1 are never mapped.
    if unsafe { libc::syscall(number, a, b, c, d, e, f) } >= 0 {
        return 0;
    }
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// `getpid` by the 32-bit gate.
fn i386_getpid() -> i32 {
    let result: i32;
    // SAFETY: the call touches no memory; the gate clears r8 to r11, which are declared.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}
