//! One live sandbox: its init, its cgroup, its workspace. Dropping it ends the sandbox.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use ringfence_jail::{
    cgroup::Group,
    wire::{ActiveLayers, Confine, FromInit, Join, Listener, MayMiss, Mode, ToInit, ToTemplate},
};
use ringfence_types::{Isolation, Layer, Limits, SandboxNetwork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::timeout;

use crate::{
    Error,
    groups::{Groups, Leftovers, Reservation, SandboxSlot, kill},
    health::SetupTimer,
    ids::Ids,
    link::Link,
    template::Template,
    watchdog::WatchGuard,
    zygote::Zygote,
};

/// Requirements on a sandbox, independent of its program.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) limits: Limits,
    pub(crate) may_miss: Vec<Layer>,
    /// Whether it must be possible to pause it.
    pub(crate) freezer: bool,
    /// Sockets inside that the service accepts connections on.
    pub(crate) listeners: Vec<Listener>,
}

/// A sandbox that is locked down, or about to be.
#[derive(Debug)]
pub(crate) struct Jailed {
    pub(crate) control: Link<ToInit, FromInit>,
    pub(crate) pidfd: OwnedFd,
    pub(crate) group: Option<Arc<Group>>,
    pub(crate) workspace: Option<OwnedFd>,
    /// Sockets of [`Shape::listeners`], in order; not yet taken by the caller.
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) active_layers: Option<ActiveLayers>,
    pub(crate) isolation: Isolation,
    /// Owner of the workspace's files outside.
    pub(crate) uid: u32,
    pub(crate) mode: Mode,
    /// Memory size that programs are told.
    pub(crate) memory: Arc<AtomicU64>,
    parent: ParentProcess,
    groups: Arc<Groups>,
    slot: Option<SandboxSlot>,
    /// Ids that `uid` is taken from, unless it is the zygote's or the service's own.
    ids: Option<Ids>,
}

/// Process that made a sandbox. The sandbox ends with it, so each sandbox holds it.
#[derive(Debug)]
pub(crate) enum ParentProcess {
    Template(Arc<Template>),
    Zygote(Arc<Zygote>),
}

impl ParentProcess {
    /// Name of the process, if it is gone.
    fn gone(&self) -> Option<&'static str> {
        match self {
            Self::Template(template) => template.is_gone().then_some("template"),
            Self::Zygote(zygote) => zygote.gone(),
        }
    }
}

/// Parts of a sandbox that was just made.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) parent: ParentProcess,
    pub(crate) control: Link<ToInit, FromInit>,
    pub(crate) pidfd: OwnedFd,
    pub(crate) group: Option<Group>,
    pub(crate) uid: u32,
    pub(crate) mode: Mode,
    pub(crate) memory: u64,
    pub(crate) slot: Option<SandboxSlot>,
    pub(crate) ids: Option<Ids>,
}

impl Jailed {
    /// Requests one from the template. The init locks itself down meanwhile: see [`Jailed::ready`].
    pub(crate) async fn spawn(
        template: &Arc<Template>,
        groups: &Arc<Groups>,
        shape: &Shape,
    ) -> Result<Self, Error> {
        demand_cgroup(groups, &shape.may_miss)?;
        let mut reservation = Reservation::open(groups, &shape.limits, shape.freezer).await?;
        reservation.ids = own_ids(template.mode, Ids::one)?;
        let named = reservation.ids.as_ref().map_or(0, Ids::first);
        let (control, theirs) = Link::pair().map_err(Error::io("make a control socket"))?;
        let pidfd =
            request(template, shape, groups, reservation.group.as_ref(), named, &theirs).await?;
        let (slot, group, ids) = reservation.hand_over();
        let (mode, memory) = (template.mode, shape.limits.memory.0);
        let parent = ParentProcess::Template(template.clone());
        let uid = ids.as_ref().map_or_else(service_uid, Ids::first);
        let made = Adopted { parent, control, pidfd, group, uid, mode, memory, slot, ids };
        Ok(Self::adopt(made, groups, Isolation::Cold))
    }

    /// Takes over a sandbox that was just made.
    pub(crate) fn adopt(made: Adopted, groups: &Arc<Groups>, isolation: Isolation) -> Self {
        Self {
            control: made.control,
            pidfd: made.pidfd,
            group: made.group.map(Arc::new),
            workspace: None,
            listeners: Vec::new(),
            active_layers: None,
            isolation,
            uid: made.uid,
            mode: made.mode,
            memory: Arc::new(AtomicU64::new(made.memory)),
            parent: made.parent,
            groups: groups.clone(),
            slot: made.slot,
            ids: made.ids,
        }
    }

    /// Waits until the lock-down is complete.
    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        let _timer = SetupTimer::begin("lock-down");
        let limit = self.setup_timeout();
        match timeout(limit, self.control.receive()).await {
            Ok(Ok(received)) => self.note_ready(received.message, received.fds),
            Ok(Err(error)) => Err(self.lost_parent().unwrap_or_else(|| error.into())),
            Err(_) => Err(Error::SetupTimeout(limit)),
        }
    }

    /// Time limit for the lock-down.
    pub(crate) fn setup_timeout(&self) -> Duration {
        self.groups.health.rules.timeout
    }

    /// Error saying that the template or zygote of this sandbox is gone, if so. It explains the end
    /// of the sandbox best: the kernel kills the sandboxes of a template or zygote after it has
    /// closed their parent's sockets, so this is known by the time the end of an init is seen.
    pub(crate) fn lost_parent(&self) -> Option<Error> {
        self.parent.gone().map(Error::Gone)
    }

    /// Handles the init's message that it is ready.
    pub(crate) fn note_ready(&mut self, message: FromInit, fds: Vec<OwnedFd>) -> Result<(), Error> {
        match message {
            FromInit::Ready(active_layers) => {
                self.active_layers = Some(active_layers);
                self.groups.health.finished();
                let mut fds = fds.into_iter();
                self.workspace = fds.next();
                if let Some(questions) = fds.next() {
                    let group = self.group.clone();
                    self.groups.responder.serve(questions, self.memory.clone(), group);
                }
                self.listeners = fds.collect();
                Ok(())
            }
            FromInit::Failed(error) => Err(error.into()),
            _ => Err(Error::Gone("sandbox")),
        }
    }

    /// Kills everything inside.
    pub(crate) fn kill(&self) {
        kill(&self.pidfd);
    }

    /// Waits until its init, and so everything inside, is gone, at most `limit`. Polls, because a
    /// pidfd can be awaited only by a thread or by unsafe code.
    pub(crate) async fn wait_for_end(&self, limit: Duration) {
        let gone = async {
            while !self.has_ended() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = timeout(limit, gone).await;
    }

    /// Lets the watchdog end the program for as long as the guard is held.
    pub(crate) fn watch(&self) -> WatchGuard {
        self.groups.watchlist.watch(self.group.clone())
    }

    /// Whether its init, and so everything inside, is gone.
    pub(crate) fn has_ended(&self) -> bool {
        has_ended(&self.pidfd)
    }

    /// Cgroups of the service that it belongs to.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }
}

impl Drop for Jailed {
    fn drop(&mut self) {
        self.kill();
        let pidfd = rustix::io::fcntl_dupfd_cloexec(&self.pidfd, 3).ok();
        if let Some(slot) = self.slot.take() {
            let (group, workspace) = (self.group.take(), self.workspace.take());
            let (ids, is_set_up) = (self.ids.take(), self.active_layers.is_some());
            self.groups.tear_down(slot, Leftovers { pidfd, group, workspace, ids, is_set_up });
        }
    }
}

/// Whether the process is gone; does not wait.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Ids for a sandbox or zygote of a template; `None` where all use the service's uid.
pub(crate) fn own_ids(
    mode: Mode,
    take: impl FnOnce() -> Result<Ids, Error>,
) -> Result<Option<Ids>, Error> {
    match mode {
        Mode::Root => take().map(Some),
        Mode::Rootless => Ok(None),
    }
}

/// Uid outside of a sandbox that has none of its own.
pub(crate) fn service_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Refuses a sandbox without the memory, cpu or pids controller unless the request allows it.
pub(crate) fn demand_cgroup(groups: &Groups, may_miss: &[Layer]) -> Result<(), Error> {
    let required = [
        ("memory", Layer::CgroupMemory, "a memory limit"),
        ("cpu", Layer::CgroupCpu, "a cpu limit"),
        ("pids", Layer::CgroupPids, "a process limit"),
    ];
    for (controller, layer, words) in required {
        if let Some(reason) = groups.missing(controller)
            && !may_miss.contains(&layer)
        {
            let fix = reason.fix.as_ref().map(|fix| format!("{fix}; or "));
            let hint = format!(
                "{}pass `--allow-missing cgroup` to go on with per-process limits only",
                fix.unwrap_or_default()
            );
            return Err(Error::Missing { layer: words, reason: reason.detail(), hint });
        }
    }
    Ok(())
}

/// Confinement of a sandbox of this shape. `uid` is in its parent's numbering: see
/// [`Confine::uid`].
pub(crate) fn confine(shape: &Shape, uid: u32, groups: &Groups) -> Confine {
    let limits = &shape.limits;
    let bounded = |controller: &str| groups.missing(controller).is_none();
    Confine {
        uid,
        hostname: "sandbox".to_owned(),
        disk: limits.disk.0,
        inodes: limits.inodes,
        open_files: limits.open_files,
        data: (!bounded("memory")).then_some(limits.memory.0),
        processes: (!bounded("pids")).then(|| u64::from(limits.processes) + 1),
        // One to two seconds above the sandbox's own limit, which is enforced from outside.
        cpu_secs: limits.cpu_time.map(|time| time.as_secs() + 2),
        cpus: limits.cpus.whole(),
        loopback: limits.network == SandboxNetwork::Loopback
            || shape.listeners.contains(&Listener::Proxy),
        terminals: limits.terminals,
        listeners: shape.listeners.clone(),
        may_miss: MayMiss {
            landlock: shape.may_miss.contains(&Layer::Landlock),
            user_namespace: shape.may_miss.contains(&Layer::UserNamespace),
        },
    }
}

async fn request(
    template: &Template,
    shape: &Shape,
    groups: &Groups,
    group: Option<&Group>,
    uid: u32,
    control: &OwnedFd,
) -> Result<OwnedFd, Error> {
    let (join, cgroup_fds) = joining(group)?;
    let mut fds = vec![control.as_fd()];
    fds.extend(cgroup_fds.iter().map(AsFd::as_fd));
    let confine = confine(shape, uid, groups);
    template.request(|id| ToTemplate::Spawn { id, confine, join }, &fds).await
}

pub(crate) fn joining(group: Option<&Group>) -> Result<(Join, Vec<OwnedFd>), Error> {
    let Some(group) = group else { return Ok((Join::None, Vec::new())) };
    if let Some(dir) = group.dir_fd()? {
        return Ok((Join::Born, vec![dir]));
    }
    let files = group.join_fds()?;
    Ok((Join::Files(files.len() as u32), files))
}
