//! Root file systems of calls: that of the host, an imported image, or that of the host with the
//! packages that a skill requires.
//!
//! Packages are installed once for all skills that require the same, by a call of `packages_install`
//! with a decision, a record and a receipt of its own. What it leaves is a read-only layer, kept by the
//! digest of what was required.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ringfence_registry::Runs;
use ringfence_sandbox::{
    Root,
    files::{BoxPath, Kind, ListOptions, Workspace},
    image::{ImageName, ImageStore},
};
use ringfence_types::{CallError, CallId, Digest, ErrorCode, Json, Produced, State};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{Engine, cause::By, request::CallRequest, runners::Job};

/// Name of the tool that installs packages.
pub(crate) const INSTALL_TOOL: &str = "packages_install";

/// Time that a call waits for the packages of its skill. Calls that come later wait again.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Bounds of a layer: files, and directories below one another.
const MAX_FILES: usize = 100_000;
const MAX_DEPTH: usize = 32;

/// Where images and layers are, and where packages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootSettings {
    /// Imported images.
    pub images: PathBuf,
    /// Layers of packages.
    pub layers: PathBuf,
    /// Index of Python packages; that of the installer without one.
    pub python_index: Option<String>,
    /// Hosts that an installer asks for.
    pub package_hosts: Vec<String>,
}

impl RootSettings {
    /// Settings of a server with this data directory.
    pub fn below(data: &Path) -> Self {
        let (images, layers) = (data.join("images"), data.join("layers"));
        Self { images, layers, ..Self::default() }
    }

    /// Digest of what a layer is made from.
    pub(crate) fn layer_digest(&self, requirements: &[String]) -> Digest {
        let mut sorted = requirements.to_vec();
        sorted.sort();
        sorted.dedup();
        let made_from = json!({"python": sorted, "index": self.python_index});
        Digest::of_json(&Json::of(&made_from).expect("plain data"))
    }

    /// Directory of a layer, which exists once it is whole.
    pub(crate) fn layer(&self, digest: &Digest) -> PathBuf {
        self.layers.join(digest.hex())
    }
}

/// Calls that install packages, by layer.
#[derive(Debug, Default)]
pub(crate) struct Installs(Mutex<HashMap<Digest, CallId>>);

impl Installs {
    fn newest(&self, layer: &Digest) -> Option<CallId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(layer).copied()
    }

    fn set(&self, layer: Digest, call: CallId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(layer, call);
    }
}

/// Root of a call: of the image that it names, or of the host with the packages of its skill.
pub(crate) async fn of_call(job: &Job<'_>) -> Result<Root, CallError> {
    if let Runs::Command(command) = &job.entry.runs
        && let Some(image) = &command.image
    {
        return match job.inner().parts.containers {
            Some(_) => Ok(Root::Image(image.clone())),
            None => of_image(job, image).await.map_err(|mut error| {
                let words = "no container engine is configured (`docker.host`), and there is no";
                error.message =
                    format!("{words} imported image to run natively: {}", error.message);
                error
            }),
        };
    }
    let requirements = &job.entry.tool.requirements;
    match (job.image(), requirements.is_empty()) {
        (Some(image), true) => of_image(job, &image).await,
        (None, true) => Ok(Root::Host),
        (None, false) => with_packages(job, requirements).await,
        (Some(_), false) => {
            Err(unavailable("a skill has either an image or requirements".to_owned()))
        }
    }
}

async fn of_image(job: &Job<'_>, image: &str) -> Result<Root, CallError> {
    let images = job.inner().parts.settings.roots.images.clone();
    let name: ImageName =
        image.parse().map_err(|error| unavailable(format!("image `{image}`: {error}")))?;
    let found = spawn_blocking(move || {
        let store = ImageStore::open(&images)?;
        store.rootfs(&name).map(|found| found.path)
    });
    let found = found.await.map_err(|error| unavailable(error.to_string()))?;
    let path = found.map_err(|error| {
        unavailable(format!("image `{image}`: {error}; see `ringfence image list`"))
    })?;
    Ok(Root::Directory(path))
}

/// The host with a layer, which is installed first if it is missing.
async fn with_packages(job: &Job<'_>, requirements: &[String]) -> Result<Root, CallError> {
    let settings = &job.inner().parts.settings.roots;
    let digest = settings.layer_digest(requirements);
    let layer = settings.layer(&digest);
    if !layer.is_dir() {
        install(job, requirements, digest).await?;
    }
    // Free of symlinks, as a root has to be.
    let layer = layer.canonicalize();
    layer.map(Root::HostWithPackages).map_err(|error| {
        unavailable(format!("the packages of the skill are not installed: {error}"))
    })
}

/// Has the packages installed, or says which call does it and what it waits for.
async fn install(job: &Job<'_>, requirements: &[String], layer: Digest) -> Result<(), CallError> {
    let inner = job.inner();
    let engine = Engine { inner: inner.clone() };
    let who = engine.principal_of(job.asked().id);
    let who = who.ok_or_else(|| unavailable("the call is not running".to_owned()))?;
    if let Some(earlier) = inner.installs.newest(&layer) {
        let call = engine.get(&who, earlier).await.ok().flatten();
        if let Some(call) = call.filter(|call| !call.state.is_final()) {
            let state = call.state.name();
            return Err(unavailable(format!(
                "its packages are being installed by call {earlier}, which is {state}; try again"
            )));
        }
    }
    let hosts = &inner.parts.settings.roots.package_hosts;
    let args = json!({"requirements": requirements, "hosts": hosts});
    let args = Json::of(&args).expect("plain data");
    let tool = INSTALL_TOOL.parse().expect("our own names are valid");
    let request = CallRequest { detached: true, ..CallRequest::new(tool, args) };
    // Not a child: it is for all skills with these requirements, and may wait for a person.
    let made = engine.call_by(&who, request, By::Client).await;
    let mut ticket = made.map_err(|refused| unavailable(format!("not installed: {refused}")))?;
    let id = ticket.id();
    inner.installs.set(layer, id);
    let call = ticket.wait(INSTALL_TIMEOUT).await;
    let call = call.ok_or_else(|| unavailable(format!("call {id} was not recorded")))?;
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Error(error) => {
                Err(unavailable(format!("call {id} did not install them: {}", error.message)))
            }
            _ => Ok(()),
        },
        state => Err(unavailable(format!(
            "its packages are installed by call {id}, which is {}; try again",
            state.name()
        ))),
    }
}

fn unavailable(message: String) -> CallError {
    CallError { code: ErrorCode::RootUnavailable, message, details: None }
}

/// Keeps a directory of a workspace as a layer; returns the number of its files and their digest.
/// Only plain files are kept, with plain permissions.
pub(crate) fn keep_layer(
    workspace: &Workspace,
    from: &str,
    layer: &Path,
) -> io::Result<(usize, Digest)> {
    let top = BoxPath::parse(from).map_err(io::Error::other)?;
    let options = ListOptions { recursive: true, max_entries: MAX_FILES, max_depth: MAX_DEPTH };
    let listing = workspace.list(&top, options).map_err(io::Error::other)?;
    if let Some(left_out) = &listing.left_out {
        return Err(io::Error::other(format!("too many or unreadable files: {left_out:?}")));
    }
    let making = layer.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&making);
    directory(&making)?;
    let (mut files, mut contents) = (0, Vec::new());
    for entry in &listing.entries {
        let inner = entry.path.components().skip(top.depth());
        let inner: PathBuf = inner
            .map(|part| str::from_utf8(part).map_err(io::Error::other))
            .collect::<io::Result<_>>()?;
        match entry.kind {
            Kind::Directory => directory(&making.join(&inner))?,
            Kind::File => {
                let mut content = Vec::new();
                let mut artifact = workspace.get(&entry.path).map_err(io::Error::other)?;
                artifact.copy_to(&mut content)?;
                let mode = if entry.mode & 0o100 != 0 { 0o755 } else { 0o644 };
                let mut options = fs::OpenOptions::new();
                let mut file =
                    options.write(true).create_new(true).mode(mode).open(making.join(&inner))?;
                file.write_all(&content)?;
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                contents.push((inner.display().to_string(), Digest::of(&content).hex()));
                files += 1;
            }
            _ => {}
        }
    }
    fs::rename(&making, layer)?;
    let digest = Digest::of_json(&Json::of(&contents).map_err(io::Error::other)?);
    Ok((files, digest))
}

/// Makes a directory that sandboxes may read, under any user id.
fn directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // Whatever the umask of the server is.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
