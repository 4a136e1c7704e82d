//! The backend that uses the kernel's own isolation: templates, tiers, and the way from request to
//! report.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
    time::Instant,
};

use ringfence_jail::{
    cgroup::Stats,
    spawner::builds_as_root,
    subordinate,
    wire::{RootSource, RootSpec, ToInit},
};
use ringfence_policy::{Permit, local_permit};
use ringfence_types::{Digest, Isolation, Layer, LayerState, Layers, Limits};
use tokio::{io::AsyncWriteExt, sync::Mutex, task::AbortHandle, time::timeout};

use crate::{
    Error, FailedImport, InputFile, Language, PoolConfig, PoolKey, PoolStatus, Program, Request,
    Root, Running, SetupRules, Stdin, Unavailable, WatchdogRules,
    files::{FileLimits, Workspace},
    groups::{Groups, IdleSandboxes},
    health::SetupTimer,
    jailed::{self, Jailed, Shape},
    job::JobChannel,
    launch::{self, Launch},
    pool::Pool,
    runtime::Runtime,
    spawner::Spawner,
    streams::{Streams, job_channel},
    supervisor::{Supervisor, owner},
    template::Template,
    upkeep,
};

/// Settings of the backend.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our own binary, to be started as the spawner.
    pub exe: PathBuf,
    /// Largest number of sandboxes, those being torn down included.
    pub most_sandboxes: usize,
    /// Interpreters prepared ahead; `None` prepares nothing.
    pub pools: Option<PoolConfig>,
    /// Time limits of set-up, and when to stop trying.
    pub setup: SetupRules,
    /// Rules for ending programs that exhaust the host; `None` turns the watchdog off.
    pub watchdog: Option<WatchdogRules>,
    /// Layers that every sandbox may lack, beside those that its request names.
    pub may_miss: Vec<Layer>,
}

impl Config {
    /// Settings for one program: this process's own binary, nothing prepared ahead.
    pub fn one_shot() -> Self {
        Self {
            exe: PathBuf::from("/proc/self/exe"),
            most_sandboxes: 1024,
            pools: None,
            setup: SetupRules::default(),
            watchdog: None,
            may_miss: Vec::new(),
        }
    }

    /// Settings for a service: this process's own binary, pools of the default size.
    pub fn service() -> Self {
        Self {
            pools: Some(PoolConfig::default()),
            watchdog: Some(WatchdogRules::default()),
            ..Self::one_shot()
        }
    }
}

/// The native backend. Cheap to clone; when the last clone is dropped, all sandboxes end.
#[derive(Debug, Clone)]
pub struct Native {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) groups: Arc<Groups>,
    spawner: Mutex<Option<Spawner>>,
    templates: Mutex<HashMap<RootSpec, Arc<Template>>>,
    pub(crate) pools: std::sync::Mutex<HashMap<PoolKey, Arc<Pool>>>,
    pub(crate) sessions: crate::session::Registry,
    runtime: Runtime,
    /// Optional layers that the trial lacked.
    missing: OnceLock<Vec<Layer>>,
}

impl Native {
    /// Opens the cgroups and starts the first helper process; others start with the first request.
    pub fn open(config: Config) -> Self {
        // Groups first: with cgroup v2 we move out of our own group, which must be empty of other
        // processes.
        let groups = Arc::new(Groups::open(config.most_sandboxes, config.setup));
        // The spawner starts before it is needed. If it cannot, the first request reports why.
        let spawner = Spawner::start(&config.exe, &groups).ok();
        let runtime = Runtime::new(&config.exe);
        if config.pools.is_some() {
            // Taken before an interpreter is started ahead.
            let _ = runtime.unchanged();
        }
        let inner = Inner {
            missing: OnceLock::new(),
            runtime,
            config,
            groups,
            spawner: Mutex::new(spawner),
            templates: Mutex::new(HashMap::new()),
            pools: std::sync::Mutex::new(HashMap::new()),
            sessions: crate::session::Registry::default(),
        };
        let inner = Arc::new(inner);
        let idle: Weak<Inner> = Arc::downgrade(&inner);
        inner.groups.register_idle(idle);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(upkeep::run(Arc::downgrade(&inner)));
            runtime.spawn(upkeep::limit_kernel_objects(Arc::downgrade(&inner)));
        }
        Self { inner }
    }

    /// Runs `true` in a fresh sandbox, to prove that this host can make one.
    pub async fn trial(&self) -> Result<Layers, Error> {
        let program = Program::Command(vec![b"true".to_vec()]);
        let layers = self.run(local_permit(), Request::new(program)).await?.wait().await?.layers;
        let is_absent = |layer: &Layer| !matches!(layers.0.get(layer), Some(LayerState::Active(_)));
        let missing = self.inner.config.may_miss.iter().copied().filter(is_absent).collect();
        let _ = self.inner.missing.set(missing);
        Ok(layers)
    }

    /// Layers that sandboxes of this service lack because [`Config::may_miss`] allows it; empty
    /// before the first [`Native::trial`].
    pub fn missing_layers(&self) -> &[Layer] {
        self.inner.missing.get().map_or(&[], Vec::as_slice)
    }

    /// Reason why no sandboxes are made at the moment, if so.
    pub fn available(&self) -> Result<(), Unavailable> {
        self.inner.groups.health.check()
    }

    /// Like [`Native::available`], and also an error if the last set-ups all failed, though more
    /// are tried.
    pub fn readiness(&self) -> Result<(), Unavailable> {
        self.inner.groups.health.report()
    }

    /// Programs that the watchdog has ended.
    pub fn watchdog_kills(&self) -> u64 {
        self.inner.groups.watchlist.kills()
    }

    /// Starts a program in a fresh sandbox; the permit is used up.
    pub async fn run(&self, _permit: Permit, request: Request) -> Result<Running, Error> {
        let accepted = Instant::now();
        check(&request)?;
        let tier = tier(&request, self.inner.config.pools.is_some())?;
        let setting_up = async {
            match tier {
                Isolation::Cold => self.inner.cold(request, accepted).await,
                ahead @ (Isolation::Zygote | Isolation::Warm) => {
                    self.inner.prepared(request, ahead, accepted).await
                }
            }
        };
        let limit = self.inner.config.setup.total_timeout;
        let supervisor =
            timeout(limit, setting_up).await.unwrap_or(Err(Error::SetupTimeout(limit)));
        Ok(Running::watch(supervisor.inspect_err(Error::log)?))
    }

    /// Refuses if sandboxes of this host lack one of these layers. Layers that every sandbox has,
    /// or that a request requires by not naming them in [`Request::may_miss`], are checked again
    /// when it is made.
    pub fn check(&self, layers: &[Layer]) -> Result<(), Error> {
        let cgroup = [Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids];
        let may_miss: Vec<_> = cgroup.into_iter().filter(|layer| !layers.contains(layer)).collect();
        jailed::demand_cgroup(&self.inner.groups, &may_miss)?;
        if layers.contains(&Layer::OwnUid) && !builds_as_root() {
            return Err(Error::Missing {
                layer: "a uid of its own",
                reason: subordinate::missing().to_string(),
                hint: "run the server as root, or as a user with subordinate ids; `ringfence \
                       doctor` shows what is missing"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Prepares interpreters ahead of the first request.
    pub fn prepare(&self, root: &Root, language: Language) {
        let isolation = match language {
            Language::Python => Isolation::Zygote,
            _ => Isolation::Warm,
        };
        self.inner.pool(root, language, isolation);
    }

    /// Digest of the host's interpreters, libraries and this binary. `None` once they changed,
    /// because interpreters that were started before still have the old ones. Reads files.
    pub fn runtime(&self) -> Option<Digest> {
        self.inner.runtime.unchanged()
    }

    /// Status of every pool.
    pub fn pools(&self) -> Vec<(PoolKey, PoolStatus)> {
        let pools = self.inner.all_pools();
        pools.into_iter().map(|(key, pool)| (key, pool.status())).collect()
    }

    /// Modules that a pool could not load ahead.
    pub async fn failed_imports(&self) -> Vec<FailedImport> {
        let mut failed = Vec::new();
        for (_, pool) in self.inner.all_pools() {
            failed.extend(pool.failed_imports().await);
        }
        failed
    }

    /// Ends all sandboxes and helper processes, and waits until they are gone.
    pub async fn close(self) {
        self.inner.sessions.close().await;
        for (_, pool) in self.inner.all_pools() {
            pool.close().await;
        }
        lock(&self.inner.pools).clear();
        self.inner.templates.lock().await.clear();
        let spawner = self.inner.spawner.lock().await.take();
        let groups = self.inner.groups.clone();
        let ending = tokio::task::spawn_blocking(move || {
            if let Some(spawner) = spawner {
                spawner.stop();
            }
            groups.close();
        });
        let _ = ending.await;
    }
}

fn check(request: &Request) -> Result<(), Error> {
    check_root(&request.root)?;
    if let Some(runtime) = &request.runtime {
        return Err(Error::Missing {
            layer: "the required container runtime",
            reason: format!("`{runtime}` runs containers, and this sandbox is native"),
            hint: "give the tool an image of the container engine: see docs/docker.md".to_owned(),
        });
    }
    check_program(request)
}

/// Refuses a program that no backend can run.
pub(crate) fn check_program(request: &Request) -> Result<(), Error> {
    let invalid = |error: &dyn std::fmt::Display| Error::Invalid(error.to_string());
    request.limits.clone().checked().map_err(|error| invalid(&error))?;
    let nul = |text: &str| text.contains('\0');
    if request
        .env
        .iter()
        .any(|(key, value)| key.is_empty() || key.contains('=') || nul(key) || nul(value))
    {
        return Err(Error::Invalid("environment: a name is empty or holds `=` or NUL".to_owned()));
    }
    let args_hold_nul = match &request.program {
        Program::Command(argv) => argv.iter().any(|arg| arg.contains(&0)),
        Program::Code { args, .. } => args.iter().any(|arg| nul(arg)),
        Program::Call { args, .. } if !args.is_object() => {
            return Err(Error::Invalid("the arguments of a call are an object".to_owned()));
        }
        Program::Call { .. } => false,
    };
    if args_hold_nul || nul(&request.cwd) {
        return Err(Error::Invalid("arguments and directories cannot hold NUL".to_owned()));
    }
    Ok(())
}

/// Refuses the host's own root, which would show every file that all users can read.
pub(crate) fn check_root(root: &Root) -> Result<(), Error> {
    let (Root::Directory(path) | Root::HostWithPackages(path)) = root else {
        return match root {
            Root::Image(name) => {
                let words = "is an image of a container engine; native sandboxes use imported ones";
                Err(Error::Invalid(format!("`{name}` {words}")))
            }
            _ => Ok(()),
        };
    };
    if !path.is_absolute() || path.parent().is_none() {
        let path = path.display();
        return Err(Error::Invalid(format!("root `{path}` is not a directory below `/`")));
    }
    Ok(())
}

impl Inner {
    /// Template of a root, made if it is missing.
    async fn template(&self, root: &Root) -> Result<Arc<Template>, Error> {
        // A template for zygotes serves all, but costs too much to make for one program.
        self.template_of(root_spec(root, self.config.pools.is_some())).await
    }

    /// Template of a root with what a zygote needs.
    pub(crate) async fn zygote_template(&self, root: &Root) -> Result<Arc<Template>, Error> {
        self.template_of(root_spec(root, true)).await
    }

    async fn template_of(&self, spec: RootSpec) -> Result<Arc<Template>, Error> {
        let mut templates = self.templates.lock().await;
        if let Some(template) = templates.get(&spec).filter(|template| template.is_alive()) {
            return Ok(template.clone());
        }
        let _timer = SetupTimer::begin("template");
        let template = Arc::new(self.make_template(&spec).await?);
        templates.insert(spec, template.clone());
        Ok(template)
    }

    /// Makes a template. A spawner that died or does not answer is replaced once; no user code has
    /// run yet.
    async fn make_template(&self, spec: &RootSpec) -> Result<Template, Error> {
        let mut slot = self.spawner.lock().await;
        for last_try in [false, true] {
            if slot.is_none() {
                *slot = Some(Spawner::start(&self.config.exe, &self.groups)?);
            }
            let Some(spawner) = slot.as_ref() else { break };
            match spawner.template(spec).await {
                Err(error) if error.is_lost_helper() => {
                    tracing::warn!(%error, "the spawner is replaced");
                    *slot = None;
                    if last_try {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
        Err(Error::Gone("spawner"))
    }

    /// Layers that a sandbox may lack: those of its request and of the settings.
    pub(crate) fn may_miss(&self, asked: &[Layer]) -> Vec<Layer> {
        let mut all = self.config.may_miss.clone();
        all.extend(asked.iter().filter(|layer| !self.config.may_miss.contains(layer)));
        all
    }

    /// Builds a sandbox for this one request.
    async fn cold(&self, request: Request, accepted: Instant) -> Result<Supervisor, Error> {
        let shape = Shape {
            limits: request.limits.clone(),
            may_miss: self.may_miss(&request.may_miss),
            freezer: false,
            listeners: request.listeners.clone(),
        };
        let jailed = self.cold_sandbox(&request.root, &shape).await?;
        start(jailed, request, accepted).await
    }

    /// An empty cold sandbox; refused while the host cannot make any.
    pub(crate) async fn cold_sandbox(&self, root: &Root, shape: &Shape) -> Result<Jailed, Error> {
        self.groups.health.check()?;
        self.build_sandbox(root, shape).await
    }

    /// An empty cold sandbox; asked for again if its template died meanwhile.
    async fn build_sandbox(&self, root: &Root, shape: &Shape) -> Result<Jailed, Error> {
        let built = self.try_build_sandbox(root, shape).await;
        if let Err(error) = &built
            && error.is_service_failure()
        {
            self.groups.health.failed(error.public_message(), Instant::now());
        }
        built
    }

    async fn try_build_sandbox(&self, root: &Root, shape: &Shape) -> Result<Jailed, Error> {
        let template = self.template(root).await?;
        match Jailed::spawn(&template, &self.groups, shape).await {
            Err(error) if error.is_lost_helper() => {
                let template = self.template(root).await?;
                Jailed::spawn(&template, &self.groups, shape).await
            }
            other => other,
        }
    }
}

impl Inner {
    /// Makes and drops a sandbox, to see whether the host can.
    pub(crate) async fn probe(&self) -> Result<(), Error> {
        let may_miss = self.config.may_miss.clone();
        let shape =
            Shape { limits: Limits::default(), may_miss, freezer: false, listeners: Vec::new() };
        self.build_sandbox(&Root::Host, &shape).await?.ready().await
    }
}

impl IdleSandboxes for Inner {
    /// Takes the idle sandbox from the pool with the most.
    fn end_one_idle(&self) -> bool {
        let pools = self.all_pools();
        let largest = pools.iter().max_by_key(|(_, pool)| pool.idle());
        largest.is_some_and(|(_, pool)| pool.end_one_idle())
    }
}

fn root_spec(root: &Root, with_zygote: bool) -> RootSpec {
    let (source, with_attack) = match root {
        Root::Host | Root::HostWithPackages(_) => (RootSource::HostView, false),
        Root::HostWithAttack => (RootSource::HostView, true),
        Root::Directory(path) => (RootSource::Directory(path.clone()), false),
        // Refused before.
        Root::Image(name) => (RootSource::Directory(PathBuf::from(name)), false),
    };
    let packages = match root {
        Root::HostWithPackages(path) => Some(path.clone()),
        _ => None,
    };
    RootSpec { source, with_attack, with_zygote, packages }
}

/// Tier of the request's sandbox: as requested, or the fastest one available.
fn tier(request: &Request, pools: bool) -> Result<Isolation, Error> {
    let language = launch::language(&request.program);
    let fastest = match language {
        Some(Language::Python) if pools => Isolation::Zygote,
        Some(Language::Javascript) if pools => Isolation::Warm,
        _ => Isolation::Cold,
    };
    match (request.isolation.unwrap_or(fastest), language) {
        (Isolation::Zygote, Some(Language::Javascript)) => {
            Err(Error::Invalid("only python has a zygote; use `warm` or `cold`".to_owned()))
        }
        (Isolation::Zygote, None | Some(Language::Bash)) => {
            Err(Error::Invalid("only python has a zygote; use `cold`".to_owned()))
        }
        (Isolation::Warm, None | Some(Language::Bash)) => {
            Err(Error::Invalid("only python and javascript are kept warm; use `cold`".to_owned()))
        }
        (isolation, _) => Ok(isolation),
    }
}

pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes the files into a cold sandbox, then hands the program over.
async fn start(
    mut jailed: Jailed,
    request: Request,
    accepted: Instant,
) -> Result<Supervisor, Error> {
    let launch = launch::cold(&request)?;
    let program = String::from_utf8_lossy(&launch.argv[0]).into_owned();
    let has_files = !request.files.is_empty() || !request.inputs.is_empty();
    if has_files || !request.listeners.is_empty() {
        jailed.ready().await?;
        put_files(&jailed, &request).await?;
    }
    let frame = launch.job.clone();
    let Started { mut streams, mut job } = hand_over(&mut jailed, &request, launch).await?;
    if let (Some(job), Some(frame)) = (&mut job, frame) {
        job.send(&frame).await.map_err(Error::io("hand over the job"))?;
    }
    let feeder = feed(&mut streams, request.stdin);
    let limits = request.limits;
    let spent = Stats::default();
    Ok(Supervisor { jailed, streams, job, limits, program, feeder, spent, accepted, started: None })
}

/// Our ends of a program that the init was told to start.
pub(crate) struct Started {
    pub(crate) streams: Streams,
    pub(crate) job: Option<JobChannel>,
}

/// Sends the program to the init, which reads it after the lock-down, so the caller does not wait.
pub(crate) async fn hand_over(
    jailed: &mut Jailed,
    request: &Request,
    launch: Launch,
) -> Result<Started, Error> {
    let (streams, inside) =
        Streams::open(request.limits.output.0).map_err(Error::io("make pipes"))?;
    let channel = match &launch.job {
        Some(_) => Some(job_channel().map_err(Error::io("make a job channel"))?),
        None => None,
    };
    let (job, job_inside) = channel.unzip();
    let mut fds: Vec<BorrowedFd<'_>> = inside.iter().map(AsFd::as_fd).collect();
    fds.extend(job_inside.iter().map(AsFd::as_fd));
    let exec = launch::exec(request, launch, 1);
    if let Err(error) = jailed.control.send(&ToInit::Exec(exec), &fds).await {
        // The init may have sent the reason before it ended.
        jailed.ready().await?;
        return Err(error.into());
    }
    Ok(Started { streams, job: job.map(JobChannel::new) })
}

/// Size up to which files are written directly: a workspace is memory, and another thread would
/// take longer to wake.
const MAX_INLINE_PUT: usize = 64 << 10;

/// Writes the request's files into the workspace, before the program can see it.
pub(crate) async fn put_files(jailed: &Jailed, request: &Request) -> Result<(), Error> {
    let _timer = SetupTimer::begin("files");
    let dir = jailed.workspace.as_ref().ok_or(Error::Gone("workspace"))?;
    let dir = rustix::io::fcntl_dupfd_cloexec(dir, 3).map_err(std::io::Error::from);
    let dir = dir.map_err(Error::io("hold the workspace"))?;
    let workspace = Workspace::new(dir, owner(jailed), FileLimits::default());
    let files: Vec<_> = request.files.iter().chain(&request.inputs).cloned().collect();
    if files.iter().map(|file| file.content.len()).sum::<usize>() <= MAX_INLINE_PUT {
        return put_all(&workspace, &files);
    }
    let putting = tokio::task::spawn_blocking(move || put_all(&workspace, &files));
    putting.await.unwrap_or(Err(Error::Gone("task that put files")))
}

fn put_all(workspace: &Workspace, files: &[InputFile]) -> Result<(), Error> {
    for file in files {
        let mut content: &[u8] = &file.content;
        workspace
            .put(&file.path, file.mode, &mut content)
            .map_err(|source| Error::File { path: file.path.to_string(), source })?;
    }
    Ok(())
}

/// Writes standard input in the background, so that a program that never reads it blocks no task.
pub(crate) fn feed(streams: &mut Streams, stdin: Stdin) -> Option<AbortHandle> {
    let mut pipe = streams.stdin.take()?;
    match stdin {
        Stdin::Empty => None,
        Stdin::Bytes(bytes) => {
            let task = tokio::spawn(async move {
                let _ = pipe.write_all(&bytes).await;
            });
            Some(task.abort_handle())
        }
        Stdin::Inherit => {
            let task = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut pipe).await;
            });
            Some(task.abort_handle())
        }
    }
}
