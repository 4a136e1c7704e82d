//! Programs in containers of an engine that speaks Docker's API: a fresh container per program.
//!
//! The engine makes the namespaces, mounts and limits; our own first process, which is mounted into every
//! container, starts the program behind our filter of system calls and reports its end (see
//! `ringfence_jail::container`). So one container fits every program of an image, and some are started
//! ahead, waiting for their one program.
//!
//! Invariant: every container has the labels of this process, and a process removes those that an earlier
//! one of the same server left before it makes any.

mod body;
mod engine;
mod layers;
mod pool;
mod start;
mod supervise;
mod tail;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use ringfence_policy::Permit;
use ringfence_types::{Isolation, Layer, LayerState};
use tokio::sync::{Mutex as AsyncMutex, watch};

pub use self::engine::EngineInfo;
use self::{
    body::Shape,
    engine::Engine,
    pool::Pool,
    supervise::{ContainerRun, Prepared},
};
use crate::{Backend, Error, Request, Root, Running, Unavailable, native::lock};

/// Settings of the container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerConfig {
    /// Socket of the engine.
    pub socket: PathBuf,
    /// Name of this server at the engine, the same after a restart: containers that a server of this name
    /// left are removed.
    pub owner: String,
    /// Runtime of containers, unless policy demands another; the engine's own without one.
    pub runtime: Option<String>,
    /// Containers that are started ahead.
    pub prepared: usize,
    /// Time limit for the set-up of a container.
    pub setup_timeout: Duration,
    /// Layers that may be missing.
    pub may_miss: Vec<Layer>,
}

impl DockerConfig {
    /// Settings for an engine, with everything else at its default.
    pub fn new(socket: PathBuf, owner: String) -> Self {
        let setup_timeout = Duration::from_secs(30);
        Self { socket, owner, runtime: None, prepared: 2, setup_timeout, may_miss: Vec::new() }
    }
}

/// Interval of asking whether the engine answers.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Backend that runs programs in containers.
#[derive(Clone)]
pub struct Docker {
    inner: Arc<Inner>,
}

struct Inner {
    config: DockerConfig,
    /// The engine, once it answered.
    engine: AsyncMutex<Option<Arc<Engine>>>,
    /// The same for callers that cannot wait, or why there is none.
    known: Mutex<Known>,
    pool: Pool,
    is_up: watch::Sender<bool>,
}

#[derive(Default)]
struct Known {
    engine: Option<Arc<Engine>>,
    failures: u32,
    failure: Option<String>,
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docker").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Docker {
    /// A backend that connects when it is first needed.
    pub fn new(config: DockerConfig) -> Self {
        let pool = Pool::new(config.prepared);
        let (engine, known) = (AsyncMutex::default(), Mutex::default());
        let (is_up, _) = watch::channel(false);
        Self { inner: Arc::new(Inner { config, engine, known, pool, is_up }) }
    }

    /// Connects, and removes containers that an earlier process of this server left.
    pub async fn connect(&self) -> Result<EngineInfo, Error> {
        self.inner.engine().await.map(|engine| engine.info.clone())
    }

    /// Asks the engine what it is, and changes nothing there.
    pub async fn ask(&self) -> Result<EngineInfo, Error> {
        let limit = self.inner.config.setup_timeout;
        let asking = tokio::time::timeout(limit, Engine::ask(&self.inner.config.socket)).await;
        asking.unwrap_or(Err(Error::SetupTimeout(limit))).map(|(_, info)| info)
    }

    /// Whether the engine answers; kept by [`Docker::watch`].
    pub fn is_up(&self) -> watch::Receiver<bool> {
        self.inner.is_up.subscribe()
    }

    /// Connects and goes on asking whether the engine answers, until `stop` resolves.
    pub async fn watch(&self, stop: impl Future<Output = ()>) {
        let asking = async {
            loop {
                let answers = match self.inner.engine().await {
                    Ok(engine) => match engine.ping().await {
                        Ok(()) => {
                            self.inner.forget_failures();
                            true
                        }
                        Err(error) => {
                            self.inner.note(&error);
                            false
                        }
                    },
                    Err(_) => false,
                };
                if self.inner.is_up.send_replace(answers) != answers {
                    match answers {
                        true => tracing::info!("the container engine answers"),
                        false => tracing::warn!("the container engine does not answer"),
                    }
                }
                tokio::time::sleep(PING_INTERVAL).await;
            }
        };
        tokio::select! {
            () = asking => {}
            () = stop => {}
        }
    }

    /// The engine, if it answered before.
    pub fn info(&self) -> Option<EngineInfo> {
        lock(&self.inner.known).engine.as_ref().map(|engine| engine.info.clone())
    }

    /// Whether the engine has an image of this name.
    pub async fn has_image(&self, name: &str) -> Result<bool, Error> {
        let engine = self.inner.engine().await?;
        Ok(engine.find_image(name).await?.is_some())
    }

    /// Number of containers that are started and wait for their program.
    pub fn idle(&self) -> usize {
        self.inner.pool.idle()
    }
}

impl Inner {
    async fn engine(&self) -> Result<Arc<Engine>, Error> {
        let mut slot = self.engine.lock().await;
        if let Some(engine) = slot.as_ref() {
            return Ok(engine.clone());
        }
        let limit = self.config.setup_timeout;
        let connecting = tokio::time::timeout(limit, Engine::connect(&self.config)).await;
        match connecting.unwrap_or(Err(Error::SetupTimeout(limit))) {
            Ok(engine) => {
                let engine = Arc::new(engine);
                *slot = Some(engine.clone());
                *lock(&self.known) =
                    Known { engine: Some(engine.clone()), failures: 0, failure: None };
                Ok(engine)
            }
            Err(error) => {
                self.note(&error);
                Err(error)
            }
        }
    }

    /// Remembers a failure of the engine for `/readyz`.
    fn note(&self, error: &Error) {
        let mut known = lock(&self.known);
        known.failures += 1;
        known.failure = Some(error.to_string());
    }

    fn forget_failures(&self) {
        let mut known = lock(&self.known);
        (known.failures, known.failure) = (0, None);
    }

    fn unavailable(&self) -> Result<(), Unavailable> {
        let known = lock(&self.known);
        match &known.failure {
            Some(failure) => Err(Unavailable {
                in_a_row: known.failures,
                processes: Vec::new(),
                failure: Some(failure.clone()),
            }),
            None => Ok(()),
        }
    }

    /// A container for this shape: one that waits, or a new one.
    async fn container(
        &self,
        engine: &Arc<Engine>,
        shape: &Shape,
        wanted: Option<Isolation>,
    ) -> Result<Prepared, Error> {
        if wanted != Some(Isolation::Cold)
            && let Some(ready) = self.pool.take(shape)
        {
            return Ok(ready);
        }
        let limit = self.config.setup_timeout;
        let making = tokio::time::timeout(limit, engine.prepare(shape)).await;
        let made = making.unwrap_or(Err(Error::SetupTimeout(limit)));
        match &made {
            Ok(_) => self.forget_failures(),
            Err(error) if error.is_service_failure() => self.note(error),
            Err(_) => {}
        }
        made
    }

    async fn run(self: &Arc<Self>, request: Request) -> Result<Running, Error> {
        let accepted = Instant::now();
        check(&request)?;
        let engine = self.engine().await?;
        engine.demand(&self.may_miss(&request))?;
        let Root::Image(name) = &request.root else {
            let words = "programs in containers need the name of an image";
            return Err(Error::Invalid(words.to_owned()));
        };
        let image = engine.image(name).await?;
        let runtime = request.runtime.clone().or_else(|| self.config.runtime.clone());
        let shape = Shape::of(&request, &image, engine.runtime(runtime)?);
        let frame = start::frame(&request, &image)?;
        let wanted = request.isolation;
        let prepared = self.container(&engine, &shape, wanted).await?;
        let layers = layers::layers(&engine.info, &shape);
        let running = ContainerRun::start(prepared, request, frame, layers, accepted);
        // The next program of the same kind finds a container that waits.
        if wanted != Some(Isolation::Cold) {
            self.pool.refill(&engine, shape);
        }
        Ok(running)
    }

    fn may_miss(&self, request: &Request) -> Vec<Layer> {
        self.config.may_miss.iter().chain(&request.may_miss).copied().collect()
    }
}

/// Refuses requests that a container cannot keep.
fn check(request: &Request) -> Result<(), Error> {
    crate::native::check_program(request)?;
    if !request.listeners.is_empty() {
        let words =
            "a container has no network: the egress proxy listens inside native sandboxes only";
        return Err(Error::Invalid(words.to_owned()));
    }
    if request.limits.terminals > 0 {
        return Err(Error::Invalid("programs in containers have no terminal".to_owned()));
    }
    match request.isolation {
        Some(Isolation::Zygote) => {
            Err(Error::Invalid("a container has no zygote; use `warm` or `cold`".to_owned()))
        }
        _ => Ok(()),
    }
}

#[async_trait]
impl Backend for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn run(&self, _permit: Permit, request: Request) -> Result<Running, Error> {
        self.inner.run(request).await.inspect_err(Error::log)
    }

    fn check(&self, layers: &[Layer]) -> Result<(), Error> {
        self.inner.unavailable()?;
        let Some(info) = self.info() else { return Ok(()) };
        let stands = layers::of_engine(&info);
        let missing = layers.iter().find_map(|layer| match stands.0.get(layer) {
            Some(LayerState::Active(_)) => None,
            Some(LayerState::Absent(reason)) => Some((layer, reason.clone())),
            None => Some((layer, "containers do not have it".to_owned())),
        });
        match missing {
            None => Ok(()),
            Some((layer, reason)) => Err(layers::missing(*layer, reason)),
        }
    }

    fn available(&self) -> Result<(), Unavailable> {
        // Calls are tried: the engine may be back.
        Ok(())
    }

    fn readiness(&self) -> Result<(), Unavailable> {
        self.inner.unavailable()
    }

    fn missing_layers(&self) -> Vec<Layer> {
        let Some(info) = self.info() else { return Vec::new() };
        let stands = layers::of_engine(&info);
        let is_absent = |layer: &Layer| matches!(stands.0.get(layer), Some(LayerState::Absent(_)));
        self.inner.config.may_miss.iter().copied().filter(is_absent).collect()
    }

    async fn close(&self) {
        self.inner.pool.close().await;
        let engine = self.inner.engine.lock().await.take();
        if let Some(engine) = engine {
            engine.close().await;
        }
    }
}
