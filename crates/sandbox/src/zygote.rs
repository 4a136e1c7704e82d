//! The service's side of a zygote: an interpreter with its libraries loaded, forked for each call.
//!
//! A zygote is not trusted: it has run library code. It can only hand us sandboxes; each of them
//! waits until we put it into its cgroup, locks itself down, and is used once.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_jail::{
    base_environment,
    cgroup::{self, Group},
    wire::{ForkRequest, FromInit, ToInit, ToTemplate},
};
use ringfence_types::{Bytes, Cpus, Isolation, Limits};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    Error,
    groups::{Groups, Leftovers, Reservation, SandboxSlot, kill},
    ids::Ids,
    jailed::{self, Jailed, ParentProcess, Shape},
    job::{DriverEvent, JobChannel},
    launch,
    link::Link,
    module::Module,
    prepared::Prepared,
    streams::{Streams, job_channel},
    template::Template,
};

/// Time limit for a child to become ready.
const CHILD_READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the imports of a zygote.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(120);

/// Largest age: all its children share one memory layout and hash seed.
const MAX_AGE: Duration = Duration::from_secs(15 * 60);

/// Limits of the zygote itself, imports included.
fn own_limits() -> Limits {
    Limits { memory: Bytes::gib(2), cpus: Cpus(2000), processes: 4096, ..Limits::default() }
}

/// Error of a zygote that ended early. It does so where `ctypes` or our library cannot be loaded,
/// but also when it is killed: only repeated early ends count as permanent.
pub(crate) const EARLY_END: &str = "zygote, before it was ready";

/// A running zygote. Its children end with it, so each of them holds it.
#[derive(Debug)]
pub(crate) struct Zygote {
    link: Link<ForkRequest, ()>,
    pidfd: OwnedFd,
    group: Option<Group>,
    slot: Option<SandboxSlot>,
    groups: Arc<Groups>,
    /// Its own uid and those of its children; `None` where all use the service's.
    ids: Option<Ids>,
    template: Arc<Template>,
    started: Instant,
    forks: AtomicU64,
    /// Number of forks after which it is replaced.
    max_forks: u64,
    /// Whether it has executed the code of its children's calls.
    loaded: bool,
    /// Modules it could not import, with the reason.
    pub(crate) failed_imports: Vec<FailedImport>,
}

/// A module that could not be loaded ahead; programs that import it get the error themselves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FailedImport {
    /// Name of the module.
    pub name: String,
    /// Error text of Python.
    pub error: String,
}

/// First and only message of the zygote.
#[derive(Debug, Deserialize)]
struct Announcement {
    #[serde(default)]
    failed: Vec<FailedImport>,
    /// Reason why the module cannot be loaded ahead.
    #[serde(default)]
    refused: Option<String>,
    threads: u32,
}

impl Zygote {
    /// Starts an interpreter in the template's root and waits for its imports and its module.
    pub(crate) async fn start(
        template: &Arc<Template>,
        groups: &Arc<Groups>,
        imports: &[String],
        module: Option<&Module>,
        max_forks: u64,
    ) -> Result<Self, Error> {
        let mut reservation = Reservation::for_helper(groups, &own_limits())?;
        reservation.ids = jailed::own_ids(template.mode, || Ids::for_zygote(max_forks))?;
        let max_forks =
            reservation.ids.as_ref().map_or(max_forks, |ids| ids.forks().min(max_forks));
        let (link, theirs) = Link::pair().map_err(Error::io("make a zygote's socket"))?;
        let pidfd = launch(template, &reservation, imports, module, theirs).await?;
        let (slot, group, ids) = reservation.hand_over();
        let mut zygote = Self {
            link,
            pidfd,
            group,
            slot,
            groups: groups.clone(),
            ids,
            template: template.clone(),
            started: Instant::now(),
            forks: AtomicU64::new(0),
            max_forks,
            loaded: module.is_some(),
            failed_imports: Vec::new(),
        };
        zygote.failed_imports = zygote.announcement().await?.failed;
        Ok(zygote)
    }

    async fn announcement(&self) -> Result<Announcement, Error> {
        let packet = timeout(IMPORT_TIMEOUT, self.link.receive_bytes()).await;
        let unforkable = |reason: &str| Error::Unforkable(reason.to_owned());
        let packet = packet.map_err(|_| unforkable("its imports take too long"))?;
        let packet = packet.map_err(|_| Error::Gone(EARLY_END))?;
        let body = packet.get(4..).unwrap_or_default();
        let event: Announcement =
            serde_json::from_slice(body).map_err(|_| unforkable("it did not start"))?;
        if let Some(reason) = event.refused {
            return Err(Error::Unforkable(reason));
        }
        match event.threads {
            1 => Ok(event),
            more => Err(Error::Unforkable(format!(
                "its imports start {} threads, which a fork would lose",
                more - 1
            ))),
        }
    }

    /// Whether it is to be replaced.
    pub(crate) fn is_old(&self) -> bool {
        jailed::has_ended(&self.pidfd)
            || self.forks.load(Ordering::Relaxed) >= self.max_forks
            || self.started.elapsed() >= MAX_AGE
    }

    /// Name of the process that is gone: the zygote or its template.
    pub(crate) fn gone(&self) -> Option<&'static str> {
        if self.template.is_gone() {
            return Some("template");
        }
        (self.link.is_closed() || jailed::has_ended(&self.pidfd)).then_some("zygote")
    }

    /// Forks a sandbox that is locked down and waits for its one job; it is warmed up unless the
    /// job waits already.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        shape: &Shape,
        at_once: bool,
    ) -> Result<Prepared, Error> {
        jailed::demand_cgroup(&self.groups, &shape.may_miss)?;
        let named = self.next_uid()?;
        let reservation = Reservation::open(&self.groups, &shape.limits, shape.freezer).await?;
        let forked = timeout(
            CHILD_READY_TIMEOUT,
            self.fork_child(shape, named, reservation.group.as_ref(), at_once),
        )
        .await;
        let (control, pidfd, streams, job) = forked.map_err(|_| Error::Gone("zygote"))??;
        let (slot, group, ids) = reservation.hand_over();
        let jailed = Jailed::adopt(
            jailed::Adopted {
                parent: ParentProcess::Zygote(self.clone()),
                control,
                pidfd,
                group,
                uid: self.ids.as_ref().map_or_else(jailed::service_uid, |ids| ids.first() + named),
                mode: self.template.mode,
                memory: shape.limits.memory.0,
                slot,
                ids,
            },
            &self.groups,
            Isolation::Zygote,
        );
        let prepared = Prepared::new(jailed, streams, job, shape, CHILD_READY_TIMEOUT).await?;
        Ok(Prepared { loaded: self.loaded, ..prepared })
    }

    /// Uid of the next child in the zygote's numbering. No child shares one, so a zygote whose ids
    /// are used up forks no more.
    fn next_uid(&self) -> Result<u32, Error> {
        let number = self.forks.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(ids) = &self.ids else { return Ok(0) };
        let number = u32::try_from(number).ok().filter(|number| *number < ids.count());
        number.ok_or(Error::Gone("zygote"))
    }

    /// Requests a child and puts it into its cgroup when its first message arrives.
    async fn fork_child(
        &self,
        shape: &Shape,
        uid: u32,
        group: Option<&Group>,
        at_once: bool,
    ) -> Result<(Link<ToInit, FromInit>, OwnedFd, Streams, JobChannel), Error> {
        let (control, control_inside) =
            Link::<ToInit, FromInit>::pair().map_err(Error::io("make a control socket"))?;
        control.ask_for_pid().map_err(Error::io("ask for a pid"))?;
        let (streams, inside) =
            Streams::open(shape.limits.output.0).map_err(Error::io("make pipes"))?;
        let (job, job_inside) = job_channel().map_err(Error::io("make a job channel"))?;
        let confine = jailed::confine(shape, uid, &self.groups);
        let mut fds = vec![control_inside.as_fd()];
        fds.extend(inside.iter().map(AsFd::as_fd));
        fds.push(job_inside.as_fd());
        let join = group.map(Group::join_fds).transpose()?.unwrap_or_default();
        fds.extend(join.iter().map(AsFd::as_fd));
        self.link.send(&ForkRequest { confine, join: join.len() as u32, at_once }, &fds).await?;
        let joins_itself = !join.is_empty();
        drop((control_inside, inside, job_inside, join));
        let hello = control.receive().await?;
        let pid = match (hello.message, hello.pid.and_then(Pid::from_raw)) {
            (FromInit::Hello, Some(pid)) => pid,
            (FromInit::Failed(error), _) => return Err(error.into()),
            _ => return Err(Error::Gone("zygote's child")),
        };
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(std::io::Error::from);
        let pidfd = pidfd.map_err(Error::io("hold a zygote's child"))?;
        if let Some(group) = group
            && let Err(error) = ensure_in_cgroup(group, pid, joins_itself)
        {
            let is_gone = jailed::has_ended(&pidfd);
            return Err(if is_gone { Error::Gone("zygote's child") } else { error.into() });
        }
        control.send(&ToInit::Go, &[]).await?;
        Ok((control, pidfd, streams, JobChannel::new(job)))
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        kill(&self.pidfd);
        let pidfd = rustix::io::fcntl_dupfd_cloexec(&self.pidfd, 3).ok();
        if let Some(slot) = self.slot.take() {
            let (group, ids) = (self.group.take().map(Arc::new), self.ids.take());
            self.groups.tear_down(slot, Leftovers { pidfd, group, ids, ..Leftovers::default() });
        }
    }
}

/// Makes sure that a child is in its cgroup. It joins by itself where it can, because that blocks
/// no other process; what counts is what we see, and a child that is not there is moved.
fn ensure_in_cgroup(group: &Group, pid: Pid, joins_itself: bool) -> Result<(), cgroup::Error> {
    let pid = pid.as_raw_nonzero().get().cast_unsigned();
    match joins_itself && group.holds(pid).unwrap_or(false) {
        true => Ok(()),
        false => group.attach(pid),
    }
}

async fn launch(
    template: &Template,
    reservation: &Reservation,
    imports: &[String],
    module: Option<&Module>,
    control: OwnedFd,
) -> Result<OwnedFd, Error> {
    let (join, cgroup_fds) = jailed::joining(reservation.group.as_ref())?;
    let stdin = Module::file(module).map_err(Error::io("hand over a module"))?;
    let mut fds = vec![control.as_fd(), stdin.as_fd(), rustix::stdio::stderr()];
    fds.extend(cgroup_fds.iter().map(AsFd::as_fd));
    let imports = imports.join(",");
    let argv =
        ["python3", "-I", "-B", "/.ringfence/zygote.py", "3", "/.ringfence/preload.so", &imports];
    let argv = argv.map(|arg| arg.as_bytes().to_vec()).to_vec();
    let (uid, ids) = reservation.ids.as_ref().map_or((0, 1), |ids| (ids.first(), ids.count()));
    let env = environment();
    template.request(|id| ToTemplate::Zygote { id, uid, ids, argv, env, join }, &fds).await
}

/// Environment of a zygote, in which libraries are told to start no threads, because a fork would
/// lose them.
fn environment() -> Vec<Vec<u8>> {
    let own = [
        ("OPENBLAS_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "1"),
        ("MKL_NUM_THREADS", "1"),
        ("MPLBACKEND", "Agg"),
    ];
    let job = ("RINGFENCE_JOB_FD", launch::JOB_FD.to_string());
    let result = ("RINGFENCE_RESULT_FD", launch::RESULT_FD.to_string());
    base_environment()
        .into_iter()
        .chain(own)
        .map(|(key, value)| format!("{key}={value}"))
        .chain([job, result].map(|(key, value)| format!("{key}={value}")))
        .map(String::into_bytes)
        .collect()
}

/// Whether this is the first message of a driver.
pub(crate) fn is_ready(event: Option<&DriverEvent>) -> bool {
    event == Some(&DriverEvent::Ready)
}
