//! Connection to the engine.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bollard::{
    API_DEFAULT_VERSION, Docker as Client,
    errors::Error as ClientError,
    models::{
        ContainerCreateBody, HostConfig, SystemInfoCgroupVersionEnum as CgroupVersion,
        VolumeCreateRequest,
    },
    query_parameters::{
        AttachContainerOptions, ListContainersOptions, RemoveContainerOptions,
        UploadToContainerOptions,
    },
};
use futures_util::StreamExt as _;
use ringfence_jail::container::{DIRECTORY, PROGRAM};
use ringfence_types::{Digest, Layer};
use tokio::task::JoinSet;

use super::{
    DockerConfig,
    body::{Shape, init_mount},
    layers, start,
    supervise::Prepared,
};
use crate::{Error, native::lock};

/// Label with the name of the server that made a container.
const OWNER: &str = "dev.ringfence.owner";
/// Label with the process of that server.
const PROCESS: &str = "dev.ringfence.process";

/// Time limit of one request to the engine.
const REQUEST_SECS: u64 = 60;

/// Time that closing waits for removals of containers.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Our first process, linked statically.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/container-init"));

/// Facts about an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct EngineInfo {
    /// Name and version, such as `docker 20.10.24`.
    pub version: String,
    /// Version of the API that both sides speak.
    pub api: String,
    /// Installed runtimes.
    pub runtimes: Vec<String>,
    /// Runtime of containers that name none.
    pub default_runtime: String,
    /// Storage driver.
    pub storage: String,
    /// Security options, such as `seccomp`, `userns` and `rootless`.
    pub security: Vec<String>,
    /// Whether cgroups are those of version 2.
    pub cgroup_v2: bool,
    /// Whether memory can be limited, swap included.
    pub memory_limit: bool,
    /// Whether processors can be limited.
    pub cpu_quota: bool,
    /// Whether the number of processes can be limited.
    pub pids_limit: bool,
    /// Whether a container can have a cgroup namespace of its own.
    pub private_cgroups: bool,
    #[serde(skip)]
    pub(super) init_volume: String,
}

impl EngineInfo {
    /// Whether a security option is on.
    pub fn has_option(&self, name: &str) -> bool {
        self.security.iter().any(|option| option == name)
    }
}

/// An image of the engine.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// Its digest.
    pub(super) id: String,
    pub(super) name: String,
    /// Entry point and command.
    pub(super) command: Vec<String>,
    pub(super) directory: Option<String>,
}

/// An engine that answered.
pub(super) struct Engine {
    pub(super) client: Client,
    pub(super) info: EngineInfo,
    labels: HashMap<String, String>,
    may_miss: Vec<Layer>,
    /// Whether the volume with the first process is filled.
    filled: tokio::sync::Mutex<bool>,
    removals: Mutex<JoinSet<()>>,
}

/// Turns an error of the client into ours.
pub(super) fn failed(doing: &'static str) -> impl FnOnce(ClientError) -> Error {
    move |error| Error::Engine { doing, source: Box::new(error) }
}

fn is_missing(error: &ClientError) -> bool {
    matches!(error, ClientError::DockerResponseServerError { status_code: 404, .. })
}

impl Engine {
    pub(super) async fn connect(config: &DockerConfig) -> Result<Self, Error> {
        let (client, info) = Self::ask(&config.socket).await?;
        let process = Digest::of(&random()).hex()[..16].to_owned();
        let labels =
            [(OWNER.to_owned(), config.owner.clone()), (PROCESS.to_owned(), process)].into();
        let may_miss = config.may_miss.clone();
        let (filled, removals) = (tokio::sync::Mutex::new(false), Mutex::default());
        let engine = Self { client, info, labels, may_miss, filled, removals };
        engine.remove_leftovers(&config.owner).await?;
        Ok(engine)
    }

    /// Asks an engine what it is.
    pub(super) async fn ask(socket: &Path) -> Result<(Client, EngineInfo), Error> {
        let socket = socket.to_string_lossy();
        let client = Client::connect_with_unix(&socket, REQUEST_SECS, API_DEFAULT_VERSION)
            .map_err(failed("find the socket of the container engine"))?;
        let client = client.negotiate_version().await;
        let client = client.map_err(failed("reach the container engine"))?;
        let info = info(&client).await?;
        Ok((client, info))
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        let answer = self.client.ping().await;
        answer.map(drop).map_err(failed("reach the container engine"))
    }

    /// Removes containers that another process of this server left.
    async fn remove_leftovers(&self, owner: &str) -> Result<(), Error> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{OWNER}={owner}")])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let left = self.client.list_containers(Some(options)).await;
        let left = left.map_err(failed("list containers"))?;
        let mut removed = 0;
        for container in left {
            let labels = container.labels.unwrap_or_default();
            if labels.get(PROCESS) == self.labels.get(PROCESS) {
                continue;
            }
            if let Some(id) = container.id {
                remove(&self.client, &id).await.map_err(failed("remove a container"))?;
                removed += 1;
            }
        }
        if removed > 0 {
            tracing::info!(removed, "containers of an earlier process are removed");
        }
        Ok(())
    }

    /// Refuses if the engine lacks a controller that the request requires.
    pub(super) fn demand(&self, may_miss: &[Layer]) -> Result<(), Error> {
        let stands = layers::of_engine(&self.info);
        for layer in [Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids] {
            let may_miss = may_miss.contains(&layer) || self.may_miss.contains(&layer);
            if let Some(ringfence_types::LayerState::Absent(reason)) = stands.0.get(&layer)
                && !may_miss
            {
                return Err(layers::missing(layer, reason.clone()));
            }
        }
        Ok(())
    }

    /// The wanted runtime, or the engine's own.
    pub(super) fn runtime(&self, wanted: Option<String>) -> Result<String, Error> {
        let Some(wanted) = wanted else { return Ok(self.info.default_runtime.clone()) };
        if self.info.runtimes.contains(&wanted) {
            return Ok(wanted);
        }
        Err(Error::Missing {
            layer: "the required container runtime",
            reason: format!("the engine has no runtime `{wanted}`"),
            hint: format!(
                "install it and name it in the engine's `daemon.json`; it has {}",
                self.info.runtimes.join(", ")
            ),
        })
    }

    pub(super) async fn find_image(&self, name: &str) -> Result<Option<Image>, Error> {
        let name = start::image_name(name)?;
        let found = match self.client.inspect_image(name).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(failed("look for the image")(error)),
        };
        let config = found.config.unwrap_or_default();
        if config.volumes.is_some_and(|volumes| !volumes.is_empty()) {
            let words = "declares volumes, whose size no limit bounds";
            return Err(Error::Invalid(format!("image `{name}` {words}")));
        }
        let id = found.id.ok_or(Error::Gone("image of the container engine"))?;
        let command = [config.entrypoint, config.cmd].into_iter().flatten().flatten().collect();
        let directory = config.working_dir.filter(|directory| !directory.is_empty());
        Ok(Some(Image { id, name: name.to_owned(), command, directory }))
    }

    pub(super) async fn image(&self, name: &str) -> Result<Image, Error> {
        let found = self.find_image(name).await?;
        found.ok_or_else(|| {
            let words = "is not in the container engine: pull, build or import it there";
            Error::Invalid(format!("image `{name}` {words}"))
        })
    }

    /// Creates and starts a container that waits for its program.
    pub(super) async fn prepare(self: &Arc<Self>, shape: &Shape) -> Result<Prepared, Error> {
        self.fill_volume(&shape.image).await?;
        let body = shape.body(&self.info, self.labels.clone());
        let guard = self.create(body).await?;
        let attach = AttachContainerOptions {
            stream: true,
            stdin: true,
            stdout: true,
            stderr: true,
            ..Default::default()
        };
        // Before the start, so that nothing of its output is missed.
        let attached = self.client.attach_container(&guard.id, Some(attach)).await;
        let attached = attached.map_err(failed("attach to a container"))?;
        let started = self.client.start_container(&guard.id, None).await;
        started.map_err(failed("start a container"))?;
        Ok(Prepared::new(guard, attached, shape))
    }

    async fn create(self: &Arc<Self>, body: ContainerCreateBody) -> Result<Guard, Error> {
        let created = self.client.create_container(None, body).await;
        let created = created.map_err(failed("create a container"))?;
        Ok(Guard { engine: self.clone(), id: created.id })
    }

    /// Puts our first process into its volume, unless it is there. A container that is never started gives
    /// access to it.
    async fn fill_volume(self: &Arc<Self>, image: &str) -> Result<(), Error> {
        let mut filled = self.filled.lock().await;
        if *filled {
            return Ok(());
        }
        let volume = &self.info.init_volume;
        let request = VolumeCreateRequest { name: Some(volume.clone()), ..Default::default() };
        self.client.create_volume(request).await.map_err(failed("create a volume"))?;
        let host = HostConfig {
            mounts: Some(vec![init_mount(volume, false)]),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        };
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(vec![PROGRAM.to_owned()]),
            labels: Some(self.labels.clone()),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        };
        let guard = self.create(body).await?;
        let options = UploadToContainerOptions { path: DIRECTORY.to_owned(), ..Default::default() };
        let body = bollard::body_full(archive()?.into());
        let sent = self.client.upload_to_container(&guard.id, Some(options), body).await;
        sent.map_err(failed("put our first process into its volume"))?;
        *filled = true;
        Ok(())
    }

    /// Waits for the removals that were begun.
    pub(super) async fn close(&self) {
        let mut removals = std::mem::take(&mut *lock(&self.removals));
        let all = async { while removals.join_next().await.is_some() {} };
        if tokio::time::timeout(REMOVAL_TIMEOUT, all).await.is_err() {
            tracing::warn!("containers were not removed in time; the next start removes them");
        }
    }
}

/// The first process as an archive.
fn archive() -> Result<Vec<u8>, Error> {
    let mut header = tar::Header::new_gnu();
    header.set_size(INIT.len() as u64);
    header.set_mode(0o755);
    let mut archive = tar::Builder::new(Vec::new());
    let built = archive.append_data(&mut header, "init", INIT);
    built.and_then(|()| archive.into_inner()).map_err(Error::io("make an archive"))
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    // A name that repeats would only keep leftovers a little longer.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes
}

async fn info(client: &Client) -> Result<EngineInfo, Error> {
    let version = client.version().await.map_err(failed("ask the engine for its version"))?;
    let info = client.info().await.map_err(failed("ask the engine what it is"))?;
    // `name=seccomp,profile=default`
    let option = |text: String| {
        let parts = text.split(',').find_map(|part| part.strip_prefix("name=").map(str::to_owned));
        parts.unwrap_or(text)
    };
    let mut runtimes: Vec<_> = info.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    let api = client.client_version();
    let is_podman = version.components.iter().flatten().any(|part| part.name.starts_with("Podman"));
    let name = if is_podman { "podman" } else { "docker" };
    Ok(EngineInfo {
        version: format!("{name} {}", version.version.unwrap_or_else(|| "unknown".to_owned())),
        api: api.to_string(),
        runtimes,
        default_runtime: info.default_runtime.unwrap_or_default(),
        storage: info.driver.unwrap_or_default(),
        security: info.security_options.unwrap_or_default().into_iter().map(option).collect(),
        cgroup_v2: info.cgroup_version == Some(CgroupVersion::_2),
        memory_limit: info.memory_limit == Some(true),
        cpu_quota: info.cpu_cfs_quota == Some(true),
        pids_limit: info.pids_limit == Some(true),
        private_cgroups: (api.major_version, api.minor_version) >= (1, 41),
        init_volume: format!("ringfence-init-{}", &Digest::of(INIT).hex()[..16]),
    })
}

async fn remove(client: &Client, id: &str) -> Result<(), ClientError> {
    let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
    match client.remove_container(id, Some(options)).await {
        // Removed from outside, or being removed.
        Err(ClientError::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        other => other,
    }
}

/// A container that is killed and removed when this is dropped.
pub(super) struct Guard {
    pub(super) engine: Arc<Engine>,
    pub(super) id: String,
}

impl Guard {
    /// Kills everything in the container.
    pub(super) fn kill(&self) -> impl Future<Output = ()> + use<> {
        let (client, id) = (self.engine.client.clone(), self.id.clone());
        async move {
            // It may have ended by itself; the removal ends it in any case.
            let _ = client.kill_container(&id, None).await;
        }
    }

    /// End of the container, as the engine saw it: exit code, and whether memory ran out.
    pub(super) async fn end(&self) -> Result<(Option<i32>, bool), Error> {
        let mut ended = self.engine.client.wait_container(&self.id, None);
        // An exit code other than zero is an error of the client.
        let _ = tokio::time::timeout(Duration::from_secs(5), ended.next()).await;
        let found = self.engine.client.inspect_container(&self.id, None).await;
        let state = found.map_err(failed("look at a container"))?.state.unwrap_or_default();
        let code = state.exit_code.and_then(|code| i32::try_from(code).ok());
        Ok((code, state.oom_killed == Some(true)))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without a runtime the process is ending: the next start removes it.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        // The task holds the engine, which would end it with itself.
        let (engine, id) = (self.engine.clone(), std::mem::take(&mut self.id));
        let mut removals = lock(&self.engine.removals);
        while removals.try_join_next().is_some() {}
        removals.spawn(async move {
            if let Err(error) = remove(&engine.client, &id).await {
                tracing::warn!(%error, id, "a container was not removed; the next start removes it");
            }
        });
    }
}
