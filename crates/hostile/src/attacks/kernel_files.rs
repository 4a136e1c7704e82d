//! Files of the kernel: writing switches, and reading facts.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use ringfence_jail::attack;

use crate::{
    AttackContext, Case, Finding, Group,
    finding::{broken, escaped, held, not_applicable},
};

/// Files that are opened for writing and closed again; nothing is written, inside or outside.
const SWITCHES: &[(&str, &str)] = &[
    ("core_pattern", "/proc/sys/kernel/core_pattern"),
    ("modprobe", "/proc/sys/kernel/modprobe"),
    ("panic", "/proc/sys/kernel/panic"),
    ("hostname", "/proc/sys/kernel/hostname"),
    ("ns_last_pid", "/proc/sys/kernel/ns_last_pid"),
    ("ip_forward", "/proc/sys/net/ipv4/ip_forward"),
    ("drop_caches", "/proc/sys/vm/drop_caches"),
    ("binfmt", "/proc/sys/fs/binfmt_misc/register"),
    ("sysrq", "/proc/sysrq-trigger"),
    ("uevent_helper", "/sys/kernel/uevent_helper"),
    ("cgroup", "/sys/fs/cgroup/cgroup.procs"),
    ("release_agent", "/sys/fs/cgroup/memory/release_agent"),
    ("mtrr", "/proc/mtrr"),
];

/// Files that reveal the host's kernel and hardware.
const TELLTALES: &[&str] = &[
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/config.gz",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/kpageflags",
    "/proc/kpagecount",
    "/proc/pagetypeinfo",
    "/proc/modules",
    "/proc/interrupts",
    "/proc/cmdline",
    "/proc/diskstats",
    "/proc/partitions",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/bus",
    "/proc/fs",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/class",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/etc/shadow",
    "/etc/sudoers",
    "/etc/ssh",
    "/root",
    "/home",
    "/boot",
    "/var/log",
    "/var/lib",
    "/var/spool",
];

pub(super) fn cases() -> Vec<Case> {
    let switch = |&(name, path): &(&str, &'static str)| {
        let promise = format!("{path} cannot be written");
        let attack = move |context: &AttackContext| match OpenOptions::new().write(true).open(path)
        {
            Ok(_) => escaped(format!("{path} is open for writing")),
            Err(error) => context.refused_or_absent(path, &error),
        };
        Case::new(Group::Kernel, format!("K16.{name}"), promise, attack)
    };
    let mut cases: Vec<Case> = SWITCHES.iter().map(switch).collect();
    let promise = "nothing under /proc/sys can be written";
    cases.push(Case::new(Group::Kernel, "K16.all", promise, every_switch));
    let promise = "physical addresses are hidden";
    cases.push(Case::new(Group::Kernel, "K24.pagemap", promise, pagemap));
    cases.extend(TELLTALES.iter().map(|path| {
        let name = path.trim_start_matches('/').replace('/', "-");
        let promise = format!("{path} tells nothing");
        let attack = move |context: &AttackContext| read(context, path);
        Case::new(Group::Information, format!("I02.{name}"), promise, attack)
    }));
    cases
}

fn every_switch(context: &AttackContext) -> Finding {
    let mut open = Vec::new();
    walk(Path::new("/proc/sys"), 0, &mut |path| {
        if OpenOptions::new().write(true).open(path).is_ok() {
            open.push(path.display().to_string());
        }
    });
    match open.first() {
        Some(first) => escaped(format!("{} can be written, such as {first}", open.len())),
        None if context.is_outside() => not_applicable("this user may write none of them"),
        None => held("none can be written"),
    }
}

fn walk(directory: &Path, depth: usize, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < 8 => walk(&entry.path(), depth + 1, visit),
            Ok(kind) if kind.is_file() => visit(&entry.path()),
            _ => {}
        }
    }
}

fn pagemap(context: &AttackContext) -> Finding {
    match attack::physical_page() {
        Ok(0) if context.is_outside() => not_applicable("the kernel hides them from this user"),
        Ok(0) => held("the page number reads as zero"),
        Ok(_) => escaped("the kernel told a physical page"),
        Err(error) => context.refused("pagemap", &error),
    }
}

/// Reads a file. One that reads as empty is masked, and so is a directory without entries.
fn read(context: &AttackContext, path: &str) -> Finding {
    match content(path) {
        Ok(0) if context.is_outside() => not_applicable("empty on this host"),
        Ok(0) => held("empty"),
        Ok(_) => escaped(format!("{path} can be read")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => broken(error.to_string()),
        Err(error) => context.refused_or_absent(path, &error),
    }
}

/// Amount of content, up to a few bytes or entries.
fn content(path: &str) -> io::Result<usize> {
    if fs::metadata(path)?.is_dir() {
        return Ok(fs::read_dir(path)?.take(8).count());
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Reading kernel messages takes them from the host's logger; opening is enough.
    if path == "/proc/kmsg" { Ok(1) } else { file.read(&mut [0; 64]) }
}
