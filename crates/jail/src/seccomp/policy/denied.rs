//! Refused calls, grouped by reason.
//!
//! `EPERM` shows that the sandbox refused the call. `ENOSYS` is for calls that libraries probe for:
//! they take the kernel for an older one and fall back. A few calls succeed without effect, because
//! there is nothing to do.

use super::super::Action;
use super::Rule;
use rustix::io::Errno;

struct DeniedGroup {
    reason: &'static str,
    action: Action,
    names: &'static [&'static str],
}

pub(super) fn rules() -> impl Iterator<Item = Rule> {
    GROUPS.iter().flat_map(|group| {
        let (action, reason) = (group.action, group.reason);
        group.names.iter().map(move |name| Rule { name, action, reason })
    })
}

const fn refused(reason: &'static str, names: &'static [&'static str]) -> DeniedGroup {
    DeniedGroup { reason, action: Action::Errno(Errno::PERM), names }
}

const fn missing(reason: &'static str, names: &'static [&'static str]) -> DeniedGroup {
    DeniedGroup { reason, action: Action::Errno(Errno::NOSYS), names }
}

const fn nothing(reason: &'static str, names: &'static [&'static str]) -> DeniedGroup {
    DeniedGroup { reason, action: Action::Nothing, names }
}

const GROUPS: &[DeniedGroup] = &[
    refused(
        "namespaces are made before the program starts; a new user namespace would hand out \
         capabilities and with them most of the kernel's attack surface",
        &["unshare", "setns", "sethostname", "setdomainname"],
    ),
    refused(
        "the tree is built before the program starts and stays as it is",
        &[
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "mount_setattr",
        ],
    ),
    refused(
        "a filter of the program's own could answer calls in the kernel's place, or listen to them",
        &["seccomp"],
    ),
    refused("there is no capability to change and none to gain", &["capset"]),
    refused(
        "reads, writes or steers other processes, and has been a way around filters",
        &[
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "process_madvise",
            "process_mrelease",
            "pidfd_getfd",
            "kcmp",
        ],
    ),
    refused(
        "large kernel interfaces that programs do not need and exploits do",
        &["bpf", "perf_event_open", "userfaultfd", "modify_ldt", "memfd_secret"],
    ),
    refused(
        "keyrings are shared by user id across sandboxes",
        &["add_key", "request_key", "keyctl"],
    ),
    refused(
        "handles name files by inode, past every mount and directory permission",
        &["open_by_handle_at", "name_to_handle_at"],
    ),
    refused("watches whole file systems of the host", &["fanotify_init", "fanotify_mark"]),
    refused(
        "loads code into the host's kernel",
        &[
            "init_module",
            "finit_module",
            "delete_module",
            "create_module",
            "get_kernel_syms",
            "query_module",
            "kexec_load",
            "kexec_file_load",
        ],
    ),
    refused(
        "administers the host",
        &[
            "reboot",
            "swapon",
            "swapoff",
            "acct",
            "syslog",
            "vhangup",
            "quotactl",
            "quotactl_fd",
            "nfsservctl",
            "_sysctl",
        ],
    ),
    refused("talks to hardware", &["iopl", "ioperm"]),
    refused(
        "chooses time slices and utilisation at the expense of others; libc sets priorities by \
         sched_setscheduler",
        &["sched_setattr"],
    ),
    DeniedGroup {
        reason: "an access control list of 64 KiB on each file is charged to no cgroup, and the name \
                 of the attribute is in memory, where a filter cannot see it; the error is that of \
                 a file system without attributes, which copying tools expect",
        action: Action::Errno(Errno::OPNOTSUPP),
        names: &["setxattr", "lsetxattr", "fsetxattr", "setxattrat"],
    },
    DeniedGroup {
        reason: "pages of a file wait in a pipe or a socket, where they cannot be reclaimed and are \
                 charged to their first reader; the error is that of a file that cannot be \
                 spliced, after which callers read and write",
        action: Action::Errno(Errno::INVAL),
        names: &["sendfile", "splice"],
    },
    refused(
        "the host's clock is not the sandbox's to set",
        &["clock_settime", "settimeofday", "adjtimex", "clock_adjtime"],
    ),
    refused(
        "flushes file systems of the whole host; sync has no result in C, so its callers \
         do not notice",
        &["sync", "syncfs"],
    ),
    nothing(
        "all that a sandbox can write is in memory, where there is nothing to flush; of a file of \
         the root it would flush the host's disk, without a limit",
        &["fsync", "fdatasync", "sync_file_range", "msync"],
    ),
    refused(
        "moves pages between memory nodes, also those of others",
        &["migrate_pages", "move_pages"],
    ),
    missing(
        "immutable flags and project ids would hinder the removal of files; tools \
         fall back to an ioctl, which is refused as well",
        &["file_setattr"],
    ),
    missing(
        "its flags are in memory, where a filter cannot see them; libc falls back to clone",
        &["clone3"],
    ),
    missing(
        "its flags are in memory, where a filter cannot see them; callers fall back to openat",
        &["openat2"],
    ),
    missing(
        "performs calls that no filter sees; libuv and others probe it and fall back to epoll",
        &["io_uring_setup", "io_uring_enter", "io_uring_register"],
    ),
    missing(
        "contexts count against one limit of the whole host, which a single sandbox could use up; \
         databases fall back to threads",
        &["io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents"],
    ),
    missing(
        "message queues that programs have replaced by sockets and pipes; bounded by user, and a \
         notification each",
        &[
            "msgget",
            "msgsnd",
            "msgrcv",
            "msgctl",
            "mq_open",
            "mq_unlink",
            "mq_timedsend",
            "mq_timedreceive",
            "mq_notify",
            "mq_getsetattr",
        ],
    ),
    missing(
        "shares pages between pipes, files and memory, with a history of bugs; its few users copy \
         instead",
        &["tee", "vmsplice"],
    ),
    missing(
        "emulated by one mapping for each piece since Linux 4.0; nothing uses it any more",
        &["remap_file_pages"],
    ),
    missing(
        "placement is the operator's matter; libnuma and OpenBLAS then take the machine for one \
         without memory nodes and stay silent, where EPERM makes them complain",
        &["mbind", "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node"],
    ),
    missing(
        "reveals which pages of a file were read; kernels before 6.12 do so for every file",
        &["cachestat"],
    ),
    missing(
        "newer ways to read the mount table; libmount falls back to mountinfo",
        &["statmount", "listmount"],
    ),
    missing(
        "newer ways to ask for security modules, which libraries find in /proc otherwise",
        &["lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"],
    ),
    missing(
        "entered by the kernel's own trampolines, which pass the filter without being asked",
        &["uretprobe", "uprobe"],
    ),
    missing(
        "obsolete: the kernel has removed it, never had it, or keeps it for programs of the last \
         century",
        &[
            "uselib",
            "ustat",
            "sysfs",
            "getpmsg",
            "putpmsg",
            "afs_syscall",
            "tuxcall",
            "security",
            "vserver",
            "lookup_dcookie",
            "epoll_ctl_old",
            "epoll_wait_old",
            "set_thread_area",
            "get_thread_area",
        ],
    ),
];
