//! The service's side of a zygote: an interpreter with its libraries loaded, forked for each call.
//!
//! A zygote is not trusted: it has run library code. It can only hand us sandboxes; each of them
//! waits for us to put it into its cgroup, locks itself in, and is used once.

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
    cell::{self, Cell, Maker, Shape},
    groups::{Groups, Place, Plot, Remains, kill},
    ids::Ids,
    job::{Job, Said},
    launch,
    link::Link,
    module::Module,
    prepared::Prepared,
    streams::{Streams, job_channel},
    template::Template,
};

/// A child that takes longer than this to be ready never will be.
const PATIENCE: Duration = Duration::from_secs(20);
/// A zygote importing its libraries may take its time.
const IMPORT_PATIENCE: Duration = Duration::from_secs(120);

/// All its children share one memory layout and hash seed; so none lives for ever.
const MOST_AGE: Duration = Duration::from_secs(15 * 60);

/// What it may use itself, imports included.
fn own_limits() -> Limits {
    Limits { memory: Bytes::gib(2), cpus: Cpus(2000), processes: 4096, ..Limits::default() }
}

/// A zygote ends without a word where `ctypes` or our library cannot be loaded, but also when
/// somebody kills it: only one that does so again and again is hopeless.
pub(crate) const EARLY_END: &str = "zygote, before it was ready";

/// A running zygote. Its end is the end of all its children, so each of them holds it.
#[derive(Debug)]
pub(crate) struct Zygote {
    link: Link<ForkRequest, ()>,
    pidfd: OwnedFd,
    group: Option<Group>,
    place: Option<Place>,
    groups: Arc<Groups>,
    /// Its own uid and those of its children; `None` where all have the service's.
    ids: Option<Ids>,
    template: Arc<Template>,
    started: Instant,
    forks: AtomicU64,
    /// After so many a fresh one takes its place.
    most_forks: u64,
    /// It has executed the code of its children's calls.
    loaded: bool,
    /// Modules it could not import, with the reason.
    pub(crate) failed_imports: Vec<FailedImport>,
}

/// A module that could not be loaded ahead; programs that import it get the error themselves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FailedImport {
    /// The module.
    pub name: String,
    /// Python's words.
    pub error: String,
}

/// The zygote's first and only word.
#[derive(Debug, Deserialize)]
struct Announcement {
    #[serde(default)]
    failed: Vec<FailedImport>,
    /// Why the module cannot be loaded ahead.
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
        most_forks: u64,
    ) -> Result<Self, Error> {
        let mut plot = Plot::for_helper(groups, &own_limits())?;
        plot.ids = cell::own_ids(template.mode, || Ids::for_zygote(most_forks))?;
        let most_forks = plot.ids.as_ref().map_or(most_forks, |ids| ids.forks().min(most_forks));
        let (link, theirs) = Link::pair().map_err(Error::io("make a zygote's socket"))?;
        let pidfd = launch(template, &plot, imports, module, theirs).await?;
        let (place, group, ids) = plot.hand_over();
        let mut zygote = Self {
            link,
            pidfd,
            group,
            place,
            groups: groups.clone(),
            ids,
            template: template.clone(),
            started: Instant::now(),
            forks: AtomicU64::new(0),
            most_forks,
            loaded: module.is_some(),
            failed_imports: Vec::new(),
        };
        zygote.failed_imports = zygote.announcement().await?.failed;
        Ok(zygote)
    }

    async fn announcement(&self) -> Result<Announcement, Error> {
        let packet = timeout(IMPORT_PATIENCE, self.link.receive_bytes()).await;
        let unforkable = |reason: &str| Error::Unforkable(reason.to_owned());
        let packet = packet.map_err(|_| unforkable("its imports take too long"))?;
        let packet = packet.map_err(|_| Error::Gone(EARLY_END))?;
        let body = packet.get(4..).unwrap_or_default();
        let said: Announcement =
            serde_json::from_slice(body).map_err(|_| unforkable("it did not start"))?;
        if let Some(reason) = said.refused {
            return Err(Error::Unforkable(reason));
        }
        match said.threads {
            1 => Ok(said),
            more => Err(Error::Unforkable(format!(
                "its imports start {} threads, which a fork would lose",
                more - 1
            ))),
        }
    }

    /// Whether a fresh one should take its place.
    pub(crate) fn is_old(&self) -> bool {
        cell::has_ended(&self.pidfd)
            || self.forks.load(Ordering::Relaxed) >= self.most_forks
            || self.started.elapsed() >= MOST_AGE
    }

    /// Who is gone, if it or what it stands on is.
    pub(crate) fn gone(&self) -> Option<&'static str> {
        if self.template.is_gone() {
            return Some("template");
        }
        (self.link.is_closed() || cell::has_ended(&self.pidfd)).then_some("zygote")
    }

    /// Forks a sandbox, locked in and waiting for its one job; warmed up, unless that job waits too.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        shape: &Shape,
        at_once: bool,
    ) -> Result<Prepared, Error> {
        cell::demand_cgroup(&self.groups, &shape.may_miss)?;
        let named = self.next_uid()?;
        let plot = Plot::open(&self.groups, &shape.limits, shape.freezer).await?;
        let born = timeout(PATIENCE, self.beget(shape, named, plot.group.as_ref(), at_once)).await;
        let (control, pidfd, streams, job) = born.map_err(|_| Error::Gone("zygote"))??;
        let (place, group, ids) = plot.hand_over();
        let cell = Cell::adopt(
            cell::Adopted {
                maker: Maker::Zygote(self.clone()),
                control,
                pidfd,
                group,
                uid: self.ids.as_ref().map_or_else(cell::service_uid, |ids| ids.first() + named),
                mode: self.template.mode,
                memory: shape.limits.memory.0,
                place,
                ids,
            },
            &self.groups,
            Isolation::Zygote,
        );
        let prepared = Prepared::new(cell, streams, job, shape, PATIENCE).await?;
        Ok(Prepared { loaded: self.loaded, ..prepared })
    }

    /// The uid of the next child as the zygote numbers it. No child has that of another, so one that
    /// was forked too often forks no more.
    fn next_uid(&self) -> Result<u32, Error> {
        let number = self.forks.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(ids) = &self.ids else { return Ok(0) };
        let number = u32::try_from(number).ok().filter(|number| *number < ids.count());
        number.ok_or(Error::Gone("zygote"))
    }

    /// Asks for a child and puts it into its cgroup as soon as it says hello.
    async fn beget(
        &self,
        shape: &Shape,
        uid: u32,
        group: Option<&Group>,
        at_once: bool,
    ) -> Result<(Link<ToInit, FromInit>, OwnedFd, Streams, Job), Error> {
        let (control, control_inside) =
            Link::<ToInit, FromInit>::pair().map_err(Error::io("make a control socket"))?;
        control.ask_for_pid().map_err(Error::io("ask for a pid"))?;
        let (streams, inside) =
            Streams::open(shape.limits.output.0).map_err(Error::io("make pipes"))?;
        let (job, job_inside) = job_channel().map_err(Error::io("make a job channel"))?;
        let confine = cell::confine(shape, uid, &self.groups);
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
            && let Err(error) = see_to_it(group, pid, joins_itself)
        {
            let is_gone = cell::has_ended(&pidfd);
            return Err(if is_gone { Error::Gone("zygote's child") } else { error.into() });
        }
        control.send(&ToInit::Go, &[]).await?;
        Ok((control, pidfd, streams, Job::new(job)))
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        kill(&self.pidfd);
        let pidfd = rustix::io::fcntl_dupfd_cloexec(&self.pidfd, 3).ok();
        if let Some(place) = self.place.take() {
            let (group, ids) = (self.group.take().map(Arc::new), self.ids.take());
            self.groups.bury(place, Remains { pidfd, group, ids, ..Remains::default() });
        }
    }
}

/// A child joins its cgroup itself where it can, because that stops nobody else; but only what we
/// see counts, and a child that is not there is moved.
fn see_to_it(group: &Group, pid: Pid, joins_itself: bool) -> Result<(), cgroup::Error> {
    let pid = pid.as_raw_nonzero().get().cast_unsigned();
    match joins_itself && group.holds(pid).unwrap_or(false) {
        true => Ok(()),
        false => group.attach(pid),
    }
}

async fn launch(
    template: &Template,
    plot: &Plot,
    imports: &[String],
    module: Option<&Module>,
    control: OwnedFd,
) -> Result<OwnedFd, Error> {
    let (join, cgroup_fds) = cell::joining(plot.group.as_ref())?;
    let stdin = Module::file(module).map_err(Error::io("hand over a module"))?;
    let mut fds = vec![control.as_fd(), stdin.as_fd(), rustix::stdio::stderr()];
    fds.extend(cgroup_fds.iter().map(AsFd::as_fd));
    let imports = imports.join(",");
    let argv =
        ["python3", "-I", "-B", "/.ringfence/zygote.py", "3", "/.ringfence/preload.so", &imports];
    let argv = argv.map(|arg| arg.as_bytes().to_vec()).to_vec();
    let (uid, ids) = plot.ids.as_ref().map_or((0, 1), |ids| (ids.first(), ids.count()));
    let env = environment();
    template.request(|id| ToTemplate::Zygote { id, uid, ids, argv, env, join }, &fds).await
}

/// Libraries that start threads of their own would lose them in the fork, so they are told not to.
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

/// Whether the driver said what a driver says first.
pub(crate) fn is_ready(said: Option<&Said>) -> bool {
    said == Some(&Said::Ready)
}
