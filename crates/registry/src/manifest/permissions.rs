//! Permissions of a manifest: flat in format (a), nested in format (b).

use super::fields::Fields;

/// Permissions that a manifest wishes for, in its units.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) internet: bool,
    pub(super) hosts: Vec<String>,
    pub(super) storage_mb: u64,
    /// Whether files are to be kept between calls.
    pub(super) persistent: bool,
    pub(super) memory_mb: u64,
    pub(super) cpu_percent: u32,
}

/// Defaults of Slovo.
const STORAGE_MB: u64 = 100;
const CPU_PERCENT: u64 = 50;
const MEMORY_MB: u64 = 512;

/// Reads both forms; none if a problem was noted.
pub(super) fn read(fields: &mut Fields) -> Option<Wishes> {
    let map = fields.object("permissions").unwrap_or_default();
    let mut all = fields.within("permissions", map);
    let mut persistent = false;
    let mut internet = all.truth("internet_access");
    let mut hosts = all.texts("allowed_hosts");
    let mut storage = all.whole("storage_quota_mb", 0..=10_240);
    let mut cpu = all.whole("cpu_limit_percent", 1..=6_400);
    let mut memory = all.whole("memory_limit_mb", 8..=262_144);
    if let Some(map) = all.object("network") {
        let mut network = all.within("network", map);
        internet = internet.or(network.truth("outbound"));
        hosts.extend(network.texts("allowedHosts"));
        all.merge(network);
    }
    if let Some(map) = all.object("storage") {
        let mut inner = all.within("storage", map);
        persistent = inner.truth("persistent").unwrap_or(false);
        storage = storage.or(inner.whole("maxSizeMB", 0..=10_240));
        all.merge(inner);
    }
    if let Some(map) = all.object("resources") {
        let mut inner = all.within("resources", map);
        memory = memory.or(inner.whole("maxMemoryMB", 8..=262_144));
        cpu = cpu.or(inner.whole("maxCpuPercent", 1..=6_400));
        all.merge(inner);
    }
    fields.merge(all);
    Some(Wishes {
        internet: internet.unwrap_or(false),
        hosts,
        storage_mb: storage.unwrap_or(STORAGE_MB),
        persistent,
        memory_mb: memory.unwrap_or(MEMORY_MB),
        cpu_percent: u32::try_from(cpu.unwrap_or(CPU_PERCENT)).unwrap_or(u32::MAX),
    })
}
