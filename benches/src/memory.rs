//! Memory of an idle zygote child.
//!
//! A child is two processes: the init and the worker. Proportional size divides shared pages among
//! the sharers, so it depends on the number of children.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use ringfence_sandbox::{Config, Language, Native, PoolConfig};

use crate::{
    findings::Idle,
    library::wait_for_members,
    processes::{Family, command_line, weight},
};

/// Measures `members` children of one zygote.
pub(crate) async fn measure(members: usize) -> Result<Idle> {
    let pools = PoolConfig { min_ready: members, ..PoolConfig::default() };
    let native = Native::open(Config { pools: Some(pools), ..Config::service() });
    let filled = wait_for_members(&native, Language::Python).await;
    let idle = filled.and_then(weigh);
    native.close().await;
    idle
}

fn weigh(members: usize) -> Result<Idle> {
    let family = Family::read();
    let is_zygote = |pid: &u32| command_line(*pid).contains("/.ringfence/zygote.py");
    let descendants = family.descendants(std::process::id());
    let zygote = descendants.into_iter().find(is_zygote).context("find the zygote")?;
    let inits = family.children(zygote);
    ensure!(inits.len() == members, "the pool says {members}, the zygote has {}", inits.len());
    let mut idle = Idle {
        members,
        processes: 0,
        pss_kib: 0,
        private_kib: 0,
        kernel_kib: kernel_memory(inits),
        zygote_pss_kib: weight(zygote).context("weigh the zygote")?.0,
    };
    for init in inits {
        for pid in std::iter::once(*init).chain(family.descendants(*init)) {
            let (pss, private) = weight(pid).with_context(|| format!("weigh process {pid}"))?;
            idle.processes += 1;
            idle.pss_kib += pss;
            idle.private_kib += private;
        }
    }
    Ok(idle)
}

/// Kernel memory of these groups: page tables, stacks, slab. Network namespaces were made by the zygote
/// and are charged to it, so they are not included.
fn kernel_memory(inits: &[u32]) -> Option<u64> {
    inits.iter().map(|pid| kernel_memory_of(*pid)).sum()
}

fn kernel_memory_of(pid: u32) -> Option<u64> {
    let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = |controller: &str| {
        memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let has_it = fields.next()?.split(',').any(|name| name == controller);
            fields.next().filter(|_| has_it).map(|path| path.trim_start_matches('/').to_owned())
        })
    };
    let bytes: u64 = if let Some(path) = path("memory") {
        let file = Path::new("/sys/fs/cgroup/memory").join(path).join("memory.kmem.usage_in_bytes");
        fs::read_to_string(file).ok()?.trim().parse().ok()?
    } else {
        let stat = Path::new("/sys/fs/cgroup").join(path("")?).join("memory.stat");
        let text = fs::read_to_string(stat).ok()?;
        text.lines().find_map(|line| line.strip_prefix("kernel "))?.parse().ok()?
    };
    Some(bytes / 1024)
}
