//! Identity and size of the host.

use std::fs;

use ringfence_jail::attack;

use crate::{
    AttackContext, Case, Finding, Group,
    finding::{broken, escaped, held, not_applicable},
};

use super::canaries;

pub(super) fn cases() -> Vec<Case> {
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Information, id, promise, attack)
    };
    vec![
        case("I01.hostname", "the host's name is not told", hostname),
        case("I01.machine-id", "the host's machine id is not told", |context| {
            same_as_host(context, "machine-id", "/etc/machine-id")
        }),
        case("I01.boot-id", "the host's boot id is not told", |context| {
            same_as_host(context, "boot-id", "/proc/sys/kernel/random/boot_id")
        }),
        case("I02.sys", "there is no /sys", |context| {
            let entries = fs::read_dir("/sys").map(|entries| entries.take(1).count());
            match entries {
                Ok(0) => held("empty"),
                Ok(_) => escaped("/sys can be read"),
                Err(error) => context.refused_or_absent("/sys", &error),
            }
        }),
        case("I04.affinity", "a program counts its own processors", affinity),
        case("I04.online", "sysconf tells the sandbox's processors", online),
        case("I04.cpuinfo", "/proc/cpuinfo tells the sandbox's processors", cpuinfo),
        case("I04.memory", "/proc/meminfo tells the sandbox's memory", memory),
        case("I04.cgroup", "the place in the host's cgroups is not told", cgroup),
    ]
}

/// Facts about the host for attacks; reversed, so that they do not find their own arguments.
pub(crate) fn host_facts() -> Vec<String> {
    let backwards = |text: &str| text.trim().chars().rev().collect::<String>();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    vec![
        format!("hostname={}", backwards(&name)),
        format!("machine-id={}", backwards(&read("/etc/machine-id"))),
        format!("boot-id={}", backwards(&read("/proc/sys/kernel/random/boot_id"))),
        canaries::environment_fact(),
    ]
}

fn hostname(context: &AttackContext) -> Finding {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let files = ["/etc/hostname", "/proc/sys/kernel/hostname"];
    let host = context.secret("hostname").unwrap_or_default();
    let read = |path: &&str| fs::read_to_string(path).is_ok_and(|text| text.trim() == host);
    match files.iter().find(|path| read(path)) {
        _ if name == host => escaped("uname tells it"),
        Some(path) => escaped(format!("{path} tells it")),
        None => held(format!("it is called `{name}`")),
    }
}

fn same_as_host(context: &AttackContext, fact: &str, path: &str) -> Finding {
    let host = context.secret(fact).unwrap_or_default();
    match fs::read_to_string(path) {
        _ if host.is_empty() && context.is_outside() => not_applicable("the host has none"),
        Ok(text) if text.trim() == host && !host.is_empty() => escaped("it is the host's"),
        Ok(_) => held("it is another one"),
        Err(error) => context.refused_or_absent(path, &error),
    }
}

/// Compares the number of processors with the sandbox's share; the control needs a host with
/// several.
fn count(context: &AttackContext, seen: usize) -> Finding {
    let share = context.number("cpus").unwrap_or(1000).div_ceil(1000) as usize;
    match seen {
        1 if context.is_outside() => not_applicable("this host has one processor"),
        _ if seen > share => escaped(format!("{seen} processors, {share} are given")),
        _ => held(format!("{seen} processors")),
    }
}

fn affinity(context: &AttackContext) -> Finding {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => count(context, set.count() as usize),
        Err(error) => broken(error.to_string()),
    }
}

fn online(context: &AttackContext) -> Finding {
    match attack::online_processors() {
        Ok(seen) => count(context, seen as usize),
        Err(error) => broken(error.to_string()),
    }
}

fn cpuinfo(context: &AttackContext) -> Finding {
    match fs::read_to_string("/proc/cpuinfo") {
        Ok(text) => {
            count(context, text.lines().filter(|line| line.starts_with("processor")).count())
        }
        Err(error) => context.refused_or_absent("/proc/cpuinfo", &error),
    }
}

fn memory(context: &AttackContext) -> Finding {
    let text = match fs::read_to_string("/proc/meminfo") {
        Ok(text) => text,
        Err(error) => return context.refused_or_absent("/proc/meminfo", &error),
    };
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let given = context.number("memory").unwrap_or(u64::MAX);
    match kib {
        Some(kib) if kib * 1024 > given => escaped(format!("{kib} KiB, {given} bytes are given")),
        Some(kib) => held(format!("{kib} KiB")),
        None => broken("meminfo has no total"),
    }
}

/// Looks for cgroup paths of the host: a cgroup namespace shows every path from its own root.
fn cgroup(context: &AttackContext) -> Finding {
    let text = match fs::read_to_string("/proc/self/cgroup") {
        Ok(text) => text,
        Err(error) => return context.refused_or_absent("/proc/self/cgroup", &error),
    };
    let path = text.lines().filter_map(|line| line.rsplit(':').next()).find(|path| *path != "/");
    match path {
        Some(path) => escaped(format!("it is in {path}")),
        None if context.is_outside() => not_applicable("the suite runs in the host's root cgroup"),
        None => held("every path is /"),
    }
}
