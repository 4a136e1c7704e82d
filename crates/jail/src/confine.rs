//! Lock-down of a new process: from new namespaces to the system call filter, in a fixed order.
//!
//! The order matters. Mounts come first, while the builder's rights reach them; the inner user
//! namespace comes late, so those mounts belong to the outer one and no capability gained inside
//! affects them; capabilities are dropped before Landlock and seccomp are enforced. No input of a
//! user is read before [`lock_down`] has returned `Ok`, and on any error the process ends.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode as FileMode, OFlags},
    io::Errno,
};

use crate::{
    SetupError, Stage, landlock, listeners,
    seccomp::Filter,
    stage::At,
    sys::{self, Caps, attr},
    wire::{ActiveLayers, Confine},
};

/// The only uid and gid inside.
pub const INSIDE_ID: u32 = 1000;

/// Results of the lock-down for the service.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) layers: ActiveLayers,
    /// The workspace as a mount of its own that follows no symlink and runs nothing.
    pub(crate) workspace: OwnedFd,
    /// Descriptor of the calls that the service answers.
    pub(crate) questions: OwnedFd,
    /// Sockets of [`Confine::listeners`], in order.
    pub(crate) listeners: Vec<OwnedFd>,
}

/// Locks this process down. It is in fresh mount, pid, network, ipc and uts namespaces and, if it
/// has one, in its cgroup.
pub(crate) fn lock_down(confine: &Confine, filter: &Filter) -> Result<Locked, SetupError> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at(Stage::Clone)?;
    // `/proc` is still the builder's here.
    set_oom_score(OOM_SCORE_SANDBOX).at(Stage::OomScore)?;
    sys::unshare(libc::CLONE_NEWCGROUP).at(Stage::CgroupNamespace)?;
    if confine.loopback {
        raise_loopback().at(Stage::Loopback)?;
    }
    let workspace = mount_workspace(confine).at(Stage::Workspace)?;
    let proc_subset = mount_proc().at(Stage::Proc)?;
    if confine.terminals > 0 {
        mount_terminals(confine.terminals).at(Stage::Terminals)?;
    }
    sys::sethostname(confine.hostname.as_bytes()).at(Stage::Hostname)?;
    set_rlimits(confine).at(Stage::Rlimits)?;
    let rules = prepare_landlock(confine)?;
    let user_namespace = enter_user(confine)?;
    let listeners = listeners::open(&confine.listeners).at(Stage::Listeners)?;
    drop_capabilities().at(Stage::Capabilities)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at(Stage::NoNewPrivs)?;
    if let Some(rules) = &rules {
        rules.enforce().at(Stage::Landlock)?;
    }
    // Changing ids clears PR_SET_PDEATHSIG; set it again.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at(Stage::Verify)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at(Stage::Verify)?;
    verify_powerless().at(Stage::Verify)?;
    let questions = filter.install_listening().at(Stage::Seccomp)?;
    let layers = ActiveLayers {
        landlock_abi: rules.as_ref().map_or(0, |rules| rules.abi),
        user_namespace,
        proc_subset,
    };
    Ok(Locked { layers, workspace, questions, listeners })
}

const SHORT_QUEUES: &CStr = c"/proc/sys/net/core/somaxconn";

/// Settings of the sandbox's own network. Data of a TCP connection that no program has accepted is
/// kernel memory charged to no cgroup: few connections may wait on a listening socket, each with
/// little data.
const NETWORK_SETTINGS: [(&CStr, &[u8]); 3] = [
    (SHORT_QUEUES, b"16"),
    (c"/proc/sys/net/ipv4/tcp_rmem", b"4096 65536 131072"),
    (c"/proc/sys/net/ipv4/tcp_max_tw_buckets", b"1024"),
];

/// Brings up the loopback interface of the sandbox's own network namespace. `/proc` is still the
/// complete one of the template or zygote.
fn raise_loopback() -> sys::Result<()> {
    for (path, value) in NETWORK_SETTINGS {
        match write_file(path, value) {
            // Older kernels do not show it to user namespaces of unprivileged users.
            Err(Errno::NOENT) if path == SHORT_QUEUES => {}
            written => written?,
        }
    }
    sys::loopback_up()
}

/// Mounts one tmpfs under four names, so that one quota covers all writable files.
fn mount_workspace(confine: &Confine) -> sys::Result<OwnedFd> {
    let owner = confine.uid;
    let fs = sys::fsopen(c"tmpfs")?;
    let text = |value: String| CString::new(value).map_err(|_| Errno::INVAL);
    sys::fsconfig(&fs, c"source", Some(c"workspace"))?;
    sys::fsconfig(&fs, c"size", Some(&text(confine.disk.to_string())?))?;
    // The root, the three directories below and a program's file in `/box` need five more.
    sys::fsconfig(&fs, c"nr_inodes", Some(&text((confine.inodes + 5).to_string())?))?;
    sys::fsconfig(&fs, c"mode", Some(c"755"))?;
    sys::fsconfig(&fs, c"uid", Some(&text(owner.to_string())?))?;
    sys::fsconfig(&fs, c"gid", Some(&text(owner.to_string())?))?;
    let mount = sys::fsmount(&fs, attr::NOSUID | attr::NODEV)?;
    sys::move_mount(&mount, c"/box")?;
    for (dir, name, mode) in [
        (c"/box/work", c"/workspace", 0o755),
        (c"/box/tmp", c"/tmp", 0o1777),
        (c"/box/shm", c"/dev/shm", 0o1777),
    ] {
        make_owned_dir(dir, owner, mode)?;
        sys::mount(dir, name, libc::MS_BIND)?;
    }
    let outside = sys::open_tree(CWD, c"/workspace", false)?;
    let closed = attr::NOSUID | attr::NODEV | attr::NOEXEC | attr::NOSYMFOLLOW;
    sys::mount_setattr(&outside, closed, false)?;
    Ok(outside)
}

fn make_owned_dir(path: &CStr, owner: u32, mode: u32) -> sys::Result<()> {
    rustix::fs::mkdirat(CWD, path, FileMode::from_raw_mode(0o700))?;
    let id = (rustix::fs::Uid::from_raw(owner), rustix::fs::Gid::from_raw(owner));
    rustix::fs::chownat(CWD, path, Some(id.0), Some(id.1), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    rustix::fs::chmodat(CWD, path, FileMode::from_raw_mode(mode), rustix::fs::AtFlags::empty())
}

/// Replaces the template's `/proc` by one of our own pid namespace. The kernel lets a user
/// namespace mount a new one only while a complete one is visible, hence make, unmount, move.
/// Returns whether it shows processes only; kernels before 5.8 cannot.
fn mount_proc() -> sys::Result<bool> {
    let fs = sys::fsopen(c"proc")?;
    let subset = sys::fsconfig(&fs, c"subset", Some(c"pid")).is_ok();
    sys::fsconfig(&fs, c"hidepid", Some(c"2"))?;
    let mount = sys::fsmount(&fs, attr::NOSUID | attr::NODEV | attr::NOEXEC)?;
    sys::umount_detach(c"/proc")?;
    sys::move_mount(&mount, c"/proc")?;
    if subset { Ok(true) } else { Err(Errno::NOSYS) }
}

/// Mounts terminals that no other sandbox can name. Their number is bounded: each takes kernel
/// memory, and a kernel thread outside the sandbox's cgroup carries its data.
fn mount_terminals(most: u32) -> sys::Result<()> {
    let most = CString::new(most.to_string()).map_err(|_| Errno::INVAL)?;
    let fs = sys::fsopen(c"devpts")?;
    sys::fsconfig(&fs, c"ptmxmode", Some(c"666"))?;
    sys::fsconfig(&fs, c"mode", Some(c"600"))?;
    sys::fsconfig(&fs, c"max", Some(&most))?;
    let mount = sys::fsmount(&fs, attr::NOSUID | attr::NOEXEC)?;
    sys::move_mount(&mount, c"/dev/pts")
}

fn set_rlimits(confine: &Confine) -> sys::Result<()> {
    let limits = [
        (libc::RLIMIT_NOFILE, Some(confine.open_files)),
        (libc::RLIMIT_MEMLOCK, Some(64 << 10)),
        (libc::RLIMIT_MSGQUEUE, Some(819_200)),
        (libc::RLIMIT_SIGPENDING, Some(1024)),
        (libc::RLIMIT_RTPRIO, Some(0)),
        (libc::RLIMIT_NICE, Some(0)),
        (libc::RLIMIT_FSIZE, Some(confine.disk)),
        (libc::RLIMIT_CPU, confine.cpu_secs),
        (libc::RLIMIT_DATA, confine.data),
        (libc::RLIMIT_NPROC, confine.processes),
    ];
    no_core_dumps()?;
    for (resource, value) in limits {
        if let Some(value) = value {
            sys::setrlimit(resource, value.min(sys::hard_limit(resource)?))?;
        }
    }
    Ok(())
}

/// Sets the core limit to 1, with which the kernel never starts a piped `core_pattern` handler of
/// the host; with 0 it would. A host that gives us 0 may not let us raise it.
pub(crate) fn no_core_dumps() -> sys::Result<()> {
    sys::setrlimit(libc::RLIMIT_CORE, 1).or_else(|_| sys::setrlimit(libc::RLIMIT_CORE, 0))
}

fn prepare_landlock(confine: &Confine) -> Result<Option<landlock::Ruleset>, SetupError> {
    match landlock::abi() {
        Ok(abi) => landlock::prepare(abi, confine.loopback).map(Some).at(Stage::LandlockRules),
        Err(_) if confine.may_miss.landlock => Ok(None),
        Err(errno) => Err(errno).at(Stage::LandlockRules),
    }
}

/// Gives up the builder's ids, then enters a user namespace in which only [`INSIDE_ID`] exists.
/// With a uid of its own the capabilities are kept across the change of ids for one purpose: hosts
/// that forbid unprivileged user namespaces still let us make this one.
fn enter_user(confine: &Confine) -> Result<bool, SetupError> {
    let has_own_uid = confine.uid != 0;
    if has_own_uid {
        sys::prctl(libc::PR_SET_KEEPCAPS, 1, 0).at(Stage::Ids)?;
        sys::become_user(confine.uid, confine.uid).at(Stage::Ids)?;
        let kept = sys::capget().at(Stage::Ids)?.permitted;
        sys::capset(Caps { effective: kept, permitted: kept, inheritable: 0 }).at(Stage::Ids)?;
    }
    if let Err(errno) = sys::unshare(libc::CLONE_NEWUSER) {
        let absent = has_own_uid && confine.may_miss.user_namespace;
        return if absent { Ok(false) } else { Err(errno).at(Stage::UserNamespace) };
    }
    // The change of ids made us undumpable, and with that our own id maps unwritable to us.
    sys::prctl(libc::PR_SET_DUMPABLE, 1, 0).at(Stage::IdMaps)?;
    write_id_maps(INSIDE_ID, confine.uid).at(Stage::IdMaps)?;
    Ok(true)
}

/// Maps one id of the namespace we came from to `inside`, for users and groups.
pub(crate) fn write_id_maps(inside: u32, outside: u32) -> sys::Result<()> {
    let map = format!("{inside} {outside} 1");
    write_file(c"/proc/self/uid_map", map.as_bytes())?;
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/gid_map", map.as_bytes())
}

/// `oom_score_adj` of everything inside a sandbox: the kernel kills it before anything of the host.
const OOM_SCORE_SANDBOX: u32 = 1000;
/// `oom_score_adj` of templates and zygotes, whose end would end all of their sandboxes.
pub(crate) const OOM_SCORE_HELPER: u32 = 500;

/// Makes this process and all it starts likelier to be killed when memory runs out. An inherited
/// value such as -1000 would keep the kernel from killing a sandbox at its limit.
pub(crate) fn set_oom_score(score: u32) -> sys::Result<()> {
    write_file(c"/proc/self/oom_score_adj", score.to_string().as_bytes())
}

pub(crate) fn write_file(path: &CStr, bytes: &[u8]) -> sys::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(CWD, path, flags, FileMode::empty())?;
    let written = rustix::io::write(file.as_fd(), bytes)?;
    if written == bytes.len() { Ok(()) } else { Err(Errno::IO) }
}

/// NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off and NO_CAP_AMBIENT_RAISE, each locked.
const SECUREBITS: u64 = 0b1110_1111;

/// Empties the bounding and ambient sets, locks securebits, then drops all capabilities.
fn drop_capabilities() -> sys::Result<()> {
    sys::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0)?;
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            Err(Errno::INVAL) => break, // Past the last capability this kernel knows.
            Err(errno) => return Err(errno),
        }
    }
    sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0)?;
    sys::capset(Caps::default())
}

/// Verifies the steps above: reads every set back and fails if a capability is left.
fn verify_powerless() -> sys::Result<()> {
    let bounding_empty = (0..64)
        .map(|capability| sys::prctl(libc::PR_CAPBSET_READ, capability, 0))
        .take_while(|answer| !matches!(answer, Err(Errno::INVAL)))
        .all(|answer| answer == Ok(0));
    let ambient_empty = (0..41).all(|capability| {
        sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET as u64, capability) != Ok(1)
    });
    let holds = sys::capget()? == Caps::default()
        && bounding_empty
        && ambient_empty
        && sys::prctl(libc::PR_GET_SECUREBITS, 0, 0)? as u64 == SECUREBITS
        && sys::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0)? == 1;
    if holds { Ok(()) } else { Err(Errno::PERM) }
}
