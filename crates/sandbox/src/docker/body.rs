//! Description of a container for the engine.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering},
};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountType, ResourcesUlimits,
};
use ringfence_jail::container::{DIRECTORY, PROGRAM, WORKSPACE};
use ringfence_types::{Bytes, Limits};

use super::engine::{EngineInfo, Image};
use crate::Request;

/// Everything that is fixed when a container is created. Containers of one shape are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Id of the image.
    pub(super) image: String,
    /// Name of the image in the request.
    pub(super) name: String,
    pub(super) runtime: String,
    memory: Bytes,
    cpu_millis: u32,
    cpu_secs: Option<u64>,
    processes: u32,
    disk: Bytes,
    inodes: u64,
    open_files: u64,
}

impl Shape {
    pub(super) fn of(request: &Request, image: &Image, runtime: String) -> Self {
        let Limits { memory, cpus, processes, disk, inodes, open_files, .. } = request.limits;
        let cpu_secs = request.limits.cpu_time.map(|time| time.as_secs_f64().ceil() as u64);
        Self {
            image: image.id.clone(),
            name: image.name.clone(),
            runtime,
            memory,
            cpu_millis: cpus.0,
            cpu_secs: cpu_secs.map(|secs| secs.max(1)),
            processes,
            disk,
            inodes,
            open_files,
        }
    }

    /// Description of one container with the next uid.
    pub(super) fn body(
        &self,
        info: &EngineInfo,
        labels: HashMap<String, String>,
    ) -> ContainerCreateBody {
        let uid = next_uid();
        let memory = self.memory.0 as i64;
        let host = HostConfig {
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(i64::from(self.cpu_millis) * 1_000_000),
            // One more: the first process is ours.
            pids_limit: Some(i64::from(self.processes) + 1),
            ulimits: Some(self.ulimits()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            network_mode: Some("none".to_owned()),
            ipc_mode: Some("private".to_owned()),
            cgroupns_mode: info.private_cgroups.then_some(HostConfigCgroupnsModeEnum::PRIVATE),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
            readonly_rootfs: Some(true),
            tmpfs: Some(self.writable(uid)),
            shm_size: Some(self.disk.0.min(64 << 20) as i64),
            mounts: Some(vec![init_mount(&info.init_volume, true)]),
            runtime: Some(self.runtime.clone()),
            masked_paths: Some(MASKED.map(str::to_owned).to_vec()),
            sysctls: Some([("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned())].into()),
            ..HostConfig::default()
        };
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec![PROGRAM.to_owned()]),
            cmd: Some(Vec::new()),
            user: Some(format!("{uid}:{uid}")),
            working_dir: Some("/".to_owned()),
            hostname: Some("sandbox".to_owned()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            network_disabled: Some(true),
            // One in the image would run beside the program.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            labels: Some(labels),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
    }

    fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let of = |name: &str, value: u64| {
            let value = Some(value as i64);
            ResourcesUlimits { name: Some(name.to_owned()), soft: value, hard: value }
        };
        let mut all = vec![
            of("nofile", self.open_files),
            of("fsize", self.disk.0),
            of("memlock", 64 << 10),
            of("msgqueue", 819_200),
            of("sigpending", 1024),
            of("rtprio", 0),
            of("nice", 0),
            // With 1 the kernel never starts a piped `core_pattern` handler; with 0 it would.
            of("core", 1),
        ];
        // The soft limit is a signal that explains itself.
        all.extend(self.cpu_secs.map(|secs| ResourcesUlimits {
            name: Some("cpu".to_owned()),
            soft: Some(secs as i64),
            hard: Some(secs as i64 + 1),
        }));
        all
    }

    /// Writable directories with their mount options. All of them are memory of the container.
    fn writable(&self, uid: u32) -> HashMap<String, String> {
        let of = |size: u64, inodes: u64| {
            format!(
                "rw,exec,nosuid,nodev,size={size},nr_inodes={inodes},mode=755,uid={uid},gid={uid}"
            )
        };
        // The root of each takes one more.
        let full = of(self.disk.0, self.inodes + 1);
        [(WORKSPACE, full.clone()), ("/tmp", full), ("/box", of(MAX_CODE, 16))]
            .map(|(path, options)| (path.to_owned(), options))
            .into()
    }
}

/// Paths that tell of the host and of no container: those that engines mask, and more.
const MASKED: [&str; 26] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/class",
    "/sys/devices",
    "/sys/firmware",
];

/// Bytes of code that a container takes.
const MAX_CODE: u64 = 64 << 20;

/// The volume with the first process.
pub(super) fn init_mount(volume: &str, read_only: bool) -> Mount {
    Mount {
        target: Some(DIRECTORY.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(read_only),
        ..Mount::default()
    }
}

/// First uid of containers, above those of users and of native sandboxes.
const FIRST_UID: u32 = 2_000_000_000;
/// Number of uids, taken in turn: limits that the kernel counts per user are then per container.
const UIDS: u32 = 65_536;

fn next_uid() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    FIRST_UID + NEXT.fetch_add(1, Ordering::Relaxed) % UIDS
}
