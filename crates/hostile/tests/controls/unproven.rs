//! Cases whose control cannot work on every host, by kind of host.
//!
//! A control that says `not_applicable` and is not listed here fails the test: the case has lost its
//! proof. An entry that ends in a dot stands for all cases with that prefix.

/// Cases whose control needs a feature, file or device that a kernel or host may lack, for any user.
const HOST: &[&str] = &[
    "F28.setuid",
    "I01.machine-id",
    "I02.boot",
    "I02.etc-sudoers",
    "I02.proc-acpi",
    "I02.proc-kcore",
    "I02.proc-modules",
    "I02.proc-sched_debug",
    "I02.proc-scsi",
    "I02.sys-kernel-debug",
    "I02.sys-kernel-security",
    "I04.affinity",
    "I04.cgroup",
    "I04.cpuinfo",
    "I04.online",
    "K05.delete_module",
    "K05.finit_module",
    "K05.fsopen",
    "K05.i386",
    "K05.init_module",
    "K05.ioperm",
    "K05.iopl",
    "K05.kexec_file_load",
    "K05.kexec_load",
    "K05.tiocsti",
    "K05.x32",
    "K08.",
    "K16.binfmt",
    "K16.cgroup",
    "K16.modprobe",
    "K16.sysrq",
    "K16.uevent_helper",
    "N01.interfaces",
    "N01.routes",
    "N01.tcp6",
    "R03",
    "R03.children",
    "R03.memfd",
    "R03.shm",
    "R06.direct",
    "R07.huge-pages",
    "R07.rlimits",
    "R21.names",
];

/// Cases whose control needs root.
const ORDINARY_USER: &[&str] = &[
    "F27.mknod.disk",
    "F27.mknod.kmsg",
    "F27.mknod.mem",
    "F27.mknod.virtio",
    "F27.open",
    "F28.filecaps",
    "F28.setid-calls",
    "I02.etc-shadow",
    "I02.proc-kmsg",
    "I02.proc-kpagecount",
    "I02.proc-kpageflags",
    "I02.proc-pagetypeinfo",
    "I02.proc-slabinfo",
    "I02.proc-timer_list",
    "I02.proc-vmallocinfo",
    "I02.root",
    "K04.proc1.stack",
    "K05.acct",
    "K05.bpf",
    "K05.open_by_handle_at",
    "K05.reboot",
    "K05.swapoff",
    "K05.swapon",
    "K05.syslog",
    "K05.vhangup",
    "K06",
    "K16.core_pattern",
    "K16.drop_caches",
    "K16.hostname",
    "K16.ip_forward",
    "K16.mtrr",
    "K16.panic",
    "K16.release_agent",
    "K24.pagemap",
];

/// Whether the control of a case may say that it does not apply.
pub(crate) fn may_be_unproven(id: &str, is_root: bool) -> bool {
    let is_listed = |list: &[&str]| list.iter().any(|entry| covers(entry, id));
    is_listed(HOST) || (!is_root && is_listed(ORDINARY_USER))
}

/// Entries for which there is no case any more.
pub(crate) fn entries_without_a_case(ids: &[&str]) -> Vec<&'static str> {
    let is_used = |entry: &&str| ids.iter().any(|id| covers(entry, id));
    HOST.iter().chain(ORDINARY_USER).copied().filter(|entry| !is_used(entry)).collect()
}

fn covers(entry: &str, id: &str) -> bool {
    entry == id || (entry.ends_with('.') && id.starts_with(entry))
}
