//! Calls no sandboxed program needs, each with arguments that do nothing.
//!
//! If a call is dangerous, its arguments are wrong on purpose, and the kernel checks them only
//! after it admitted the call: any answer but a refusal means that the attacker reached the
//! kernel's code for that call. The reason beside each row says why the row is harmless.

use super::{Answer, call};

/// One system call, tried with harmless arguments.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The call's name, as in the manual.
    pub name: &'static str,
    /// Gain for an attacker.
    pub gain: &'static str,
    /// Makes the call in this process.
    pub call: fn() -> Answer,
}

/// All probes, in the order of the table.
pub fn probes() -> &'static [Probe] {
    PROBES
}

/// Path that no host has: the kernel looks it up only after the permission check.
const NOWHERE: &std::ffi::CStr = c"/ringfence-no-such-path";

/// Clock id that does not exist.
const NO_CLOCK: i64 = 9999;

macro_rules! probes {
    ($($(#[$attr:meta])* $name:ident, $gain:literal, $harmless:literal, [$($arg:expr),* $(,)?];)*) => {
        const PROBES: &[Probe] = &[$($(#[$attr])* Probe {
            name: stringify!($name),
            gain: $gain,
            call: || {
                #[doc = $harmless]
                const NUMBER: i64 = paste_number!($name);
                // SAFETY: pointers among the arguments are null or refer to constants and locals
                // of this expression that outlive the call and are as large as the call reads.
                unsafe { call!(NUMBER, $($arg),*) }
            },
        }),*];
    };
}

macro_rules! paste_number {
    (bpf) => {
        libc::SYS_bpf
    };
    (perf_event_open) => {
        libc::SYS_perf_event_open
    };
    (userfaultfd) => {
        libc::SYS_userfaultfd
    };
    (keyctl) => {
        libc::SYS_keyctl
    };
    (add_key) => {
        libc::SYS_add_key
    };
    (request_key) => {
        libc::SYS_request_key
    };
    (kexec_load) => {
        libc::SYS_kexec_load
    };
    (kexec_file_load) => {
        libc::SYS_kexec_file_load
    };
    (init_module) => {
        libc::SYS_init_module
    };
    (finit_module) => {
        libc::SYS_finit_module
    };
    (delete_module) => {
        libc::SYS_delete_module
    };
    (open_by_handle_at) => {
        libc::SYS_open_by_handle_at
    };
    (quotactl) => {
        libc::SYS_quotactl
    };
    (quotactl_fd) => {
        libc::SYS_quotactl_fd
    };
    (swapon) => {
        libc::SYS_swapon
    };
    (swapoff) => {
        libc::SYS_swapoff
    };
    (reboot) => {
        libc::SYS_reboot
    };
    (clock_settime) => {
        libc::SYS_clock_settime
    };
    (settimeofday) => {
        libc::SYS_settimeofday
    };
    (clock_adjtime) => {
        libc::SYS_clock_adjtime
    };
    (syslog) => {
        libc::SYS_syslog
    };
    (iopl) => {
        libc::SYS_iopl
    };
    (ioperm) => {
        libc::SYS_ioperm
    };
    (fanotify_init) => {
        libc::SYS_fanotify_init
    };
    (acct) => {
        libc::SYS_acct
    };
    (mount) => {
        libc::SYS_mount
    };
    (umount2) => {
        libc::SYS_umount2
    };
    (pivot_root) => {
        libc::SYS_pivot_root
    };
    (fsopen) => {
        libc::SYS_fsopen
    };
    (fspick) => {
        libc::SYS_fspick
    };
    (open_tree) => {
        libc::SYS_open_tree
    };
    (move_mount) => {
        libc::SYS_move_mount
    };
    (mount_setattr) => {
        libc::SYS_mount_setattr
    };
    (chroot) => {
        libc::SYS_chroot
    };
    (sethostname) => {
        libc::SYS_sethostname
    };
    (setdomainname) => {
        libc::SYS_setdomainname
    };
    (vhangup) => {
        libc::SYS_vhangup
    };
    (move_pages) => {
        libc::SYS_move_pages
    };
    (migrate_pages) => {
        libc::SYS_migrate_pages
    };
    (kcmp) => {
        libc::SYS_kcmp
    };
    (modify_ldt) => {
        libc::SYS_modify_ldt
    };
    (io_uring_setup) => {
        libc::SYS_io_uring_setup
    };
    (io_uring_enter) => {
        libc::SYS_io_uring_enter
    };
    (io_uring_register) => {
        libc::SYS_io_uring_register
    };
}

/// `bpf(BPF_MAP_CREATE)` of an array of one word.
static ARRAY_MAP: [u32; 18] = [2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// `perf_event_attr`: software clock, size 64 (version 0), counting user mode of this thread only
/// (`exclude_kernel | exclude_hv`).
static COUNTER: [u64; 8] = [1 | 64 << 32, 0, 0, 0, 0, 0b11 << 5, 0, 0];
/// A `timeval` with more microseconds than a second has.
static NO_TIME: [i64; 2] = [0, 2_000_000];
/// A `file_handle` of a type and length no file system made.
static NO_HANDLE: [u32; 4] = [8, 0xff, 0, 0];

probes! {
    bpf, "code in the kernel", "Makes a map of four bytes that dies with the process.",
        [0, ARRAY_MAP.as_ptr(), size_of_val(&ARRAY_MAP)];
    perf_event_open, "counters over other processes",
        "Counts this thread's own user time.",
        [COUNTER.as_ptr(), 0, -1, -1, 0];
    userfaultfd, "stalling the kernel in the middle of a copy", "User mode only.", [libc::O_CLOEXEC | 1];
    keyctl, "keyrings that no namespace separates", "Asks for the number of its own keyring.", [0, -3, 0];
    add_key, "keyrings that no namespace separates", "One byte in a keyring that dies with the process.",
        [c"user".as_ptr(), c"ringfence-probe".as_ptr(), c"x".as_ptr(), 1, -2];
    request_key, "starting the host's key helper", "Without call-out text no helper starts.",
        [c"user".as_ptr(), c"ringfence-no-such-key".as_ptr(), 0, 0];
    kexec_load, "booting another kernel", "A flag that does not exist; nothing is unloaded.",
        [0, 0x7fff_ffff_i64, 0, 0x8000];
    #[cfg(target_arch = "x86_64")]
    kexec_file_load, "booting another kernel", "Flags that do not exist and no file.",
        [-1, -1, 0, 0, 0xffff_i64];
    init_module, "code in the kernel", "An image of no bytes.", [0, 0, c"".as_ptr()];
    finit_module, "code in the kernel", "Flags that do not exist and no file.", [-1, c"".as_ptr(), 0xffff];
    delete_module, "unloading a driver", "A module that does not exist.",
        [c"ringfence_no_such_module".as_ptr(), libc::O_NONBLOCK];
    open_by_handle_at, "files outside the root", "A handle of a type that does not exist.",
        [libc::AT_FDCWD, NO_HANDLE.as_ptr(), libc::O_RDONLY];
    quotactl, "the host's quotas", "Asks about a device that does not exist.",
        [0x8000_0500_u32, NOWHERE.as_ptr(), 0, 0];
    quotactl_fd, "the host's quotas", "Asks about no descriptor.", [-1, 0x8000_0500_u32, 0, 0];
    swapon, "the host's swap", "A path that does not exist.", [NOWHERE.as_ptr(), 0];
    swapoff, "the host's swap", "A path that does not exist.", [NOWHERE.as_ptr()];
    reboot, "the host's power", "Without the magic numbers the call does nothing.", [0, 0, 0, 0];
    clock_settime, "the host's clock", "A clock that does not exist.", [NO_CLOCK, NO_TIME.as_ptr()];
    settimeofday, "the host's clock", "A time that does not exist.", [NO_TIME.as_ptr(), 0];
    clock_adjtime, "the host's clock", "A clock that does not exist.", [NO_CLOCK, 0];
    syslog, "kernel messages with addresses", "Asks for the buffer's size.", [10, 0, 0];
    #[cfg(target_arch = "x86_64")]
    iopl, "hardware ports", "Level 0 is what every process has.", [0];
    #[cfg(target_arch = "x86_64")]
    ioperm, "hardware ports", "Takes away a permission that it does not have.", [0x80, 1, 0];
    fanotify_init, "watching or stalling other processes' files", "An empty group.", [0x200, 0];
    acct, "a log of every process, to a file of choice", "A path that does not exist.", [NOWHERE.as_ptr()];
    mount, "another view of the files", "A target that does not exist.",
        [c"none".as_ptr(), NOWHERE.as_ptr(), c"tmpfs".as_ptr(), 0, 0];
    umount2, "what lies beneath a mount", "A target that does not exist.", [NOWHERE.as_ptr(), libc::MNT_DETACH];
    pivot_root, "another root", "Paths that do not exist.", [NOWHERE.as_ptr(), NOWHERE.as_ptr()];
    fsopen, "another view of the files", "A file system that does not exist.",
        [c"ringfence-no-such-fs".as_ptr(), 0];
    fspick, "reconfiguring a mount", "A path that does not exist.", [libc::AT_FDCWD, NOWHERE.as_ptr(), 0];
    open_tree, "a copy of a mount to change", "A path that does not exist.",
        [libc::AT_FDCWD, NOWHERE.as_ptr(), 1];
    move_mount, "another view of the files", "Descriptors that do not exist.",
        [-1, c"".as_ptr(), -1, c"".as_ptr(), 0x44];
    mount_setattr, "writing to what is read-only", "A path that does not exist.",
        [libc::AT_FDCWD, NOWHERE.as_ptr(), 0, NO_TIME.as_ptr(), 0];
    chroot, "a root to break out of", "A path that does not exist.", [NOWHERE.as_ptr()];
    sethostname, "the host's name", "Longer than any name may be.", [0, 4096];
    setdomainname, "the host's domain", "Longer than any name may be.", [0, 4096];
    vhangup, "terminals of all users", "The process has left its terminal.", [];
    move_pages, "where other processes' memory lies", "No pages of this process.", [0, 0, 0, 0, 0, 0];
    migrate_pages, "moving other processes' memory", "No nodes.", [0, 0, 0, 0];
    kcmp, "order of kernel addresses", "Compares the process with itself.",
        [std::process::id(), std::process::id(), 1, 0, 0];
    #[cfg(target_arch = "x86_64")]
    modify_ldt, "segments, a source of kernel bugs", "Reads no bytes.", [0, 0, 0];
    io_uring_setup, "file and network calls past the filter", "A ring of no entries.", [0, 0];
    io_uring_enter, "file and network calls past the filter", "No ring.", [-1, 0, 0, 0, 0, 0];
    io_uring_register, "file and network calls past the filter", "No ring.", [-1, 0, 0, 0];
}
