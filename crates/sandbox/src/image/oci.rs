//! Manifests of OCI images and of `docker save`, parsed and checked before anything is used.
//!
//! Nothing in here touches files. Digests become paths only after they are checked to be 64
//! hexadecimal digits, and paths of `manifest.json` only as [`BoxPath`].

use serde::{Deserialize, de::DeserializeOwned};

use super::{Error, ImageConfig, Problem};
use crate::files::BoxPath;

/// Largest manifest; real ones are much smaller.
pub(super) const MAX_JSON: u64 = 4 << 20;

/// Largest number of layers; Docker stops at 127.
const MAX_LAYERS: usize = 512;

/// A sha256 digest, as 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let hex = text.strip_prefix("sha256:").ok_or(Problem::Malformed("digest"))?;
        Self::from_hex(hex).ok_or(Problem::Malformed("digest"))
    }

    pub(super) fn from_hex(hex: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (hex.len() == 64 && hex.bytes().all(is_hex)).then(|| Self(hex.into()))
    }

    pub(super) fn hex(&self) -> &str {
        &self.0
    }

    /// Path of the content in a layout.
    pub(super) fn path(&self) -> Result<BoxPath, Problem> {
        BoxPath::relative(format!("blobs/sha256/{}", self.0).as_bytes())
            .map_err(|_| Problem::Malformed("digest"))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// Reference to content by its digest.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Descriptor {
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

/// Document that an index refers to.
#[derive(Debug)]
pub(super) enum Document {
    Index(Vec<Descriptor>),
    Manifest { config: Descriptor, layers: Vec<Descriptor> },
}

#[derive(Deserialize)]
struct AnyDocument {
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

/// Reads an index or a manifest, distinguished by its members.
pub(super) fn document(json: &[u8]) -> Result<Document, Error> {
    let any: AnyDocument = read("manifest", json)?;
    match (any.manifests, any.config, any.layers) {
        (Some(manifests), None, None) => Ok(Document::Index(manifests)),
        (None, Some(config), Some(layers)) if layers.len() <= MAX_LAYERS => {
            Ok(Document::Manifest { config, layers })
        }
        (None, Some(_), Some(_)) => Err(too_many_layers()),
        _ => Err(malformed("manifest", "neither an index nor a manifest")),
    }
}

/// The manifest for this host.
pub(super) fn choose(manifests: Vec<Descriptor>) -> Result<Descriptor, Error> {
    let architecture = host_architecture();
    let here = |descriptor: &Descriptor| match &descriptor.platform {
        Some(platform) => platform.os == "linux" && platform.architecture == architecture,
        None => true,
    };
    let mut fitting = manifests.into_iter().filter(here);
    let Some(chosen) = fitting.next() else {
        return Err(Error::new("index", Problem::Platform(architecture)));
    };
    // Several tags of one image are one image.
    if fitting.any(|other| other.digest != chosen.digest) {
        return Err(Error::new("index", Problem::Ambiguous));
    }
    Ok(chosen)
}

/// The configuration of an image and the digests of its layers, uncompressed.
pub(super) fn config(json: &[u8]) -> Result<(ImageConfig, Vec<Digest>), Error> {
    let file: ConfigFile = read("config", json)?;
    if file.rootfs.diff_ids.len() > MAX_LAYERS {
        return Err(too_many_layers());
    }
    let parse = |id: &String| Digest::parse(id).map_err(|problem| Error::new("config", problem));
    let layers = file.rootfs.diff_ids.iter().map(parse).collect::<Result<_, _>>()?;
    let run = file.config.unwrap_or_default();
    let config = ImageConfig {
        env: run.env.unwrap_or_default(),
        working_dir: run.working_dir.filter(|dir| !dir.is_empty()),
        entrypoint: run.entrypoint.unwrap_or_default(),
        cmd: run.cmd.unwrap_or_default(),
        user: run.user.filter(|user| !user.is_empty()),
    };
    Ok((config, layers))
}

#[derive(Deserialize)]
struct ConfigFile {
    config: Option<RunConfig>,
    #[serde(default)]
    rootfs: RootfsIds,
}

#[derive(Default, Deserialize)]
struct RootfsIds {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RunConfig {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    user: Option<String>,
}

/// One image of a `docker save` archive.
#[derive(Debug)]
pub(super) struct DockerImage {
    pub(super) config: BoxPath,
    pub(super) layers: Vec<BoxPath>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerEntry {
    config: String,
    layers: Vec<String>,
}

/// Reads `manifest.json` of a `docker save` archive.
pub(super) fn docker(json: &[u8]) -> Result<DockerImage, Error> {
    let mut images: Vec<DockerEntry> = read("manifest.json", json)?;
    let Some(image) = images.pop() else {
        return Err(malformed("manifest.json", "no image in it"));
    };
    if !images.is_empty() {
        return Err(Error::new("manifest.json", Problem::Ambiguous));
    }
    if image.layers.len() > MAX_LAYERS {
        return Err(too_many_layers());
    }
    let layers = image.layers.iter().map(|path| inside(path)).collect::<Result<_, _>>()?;
    Ok(DockerImage { config: inside(&image.config)?, layers })
}

fn inside(path: &str) -> Result<BoxPath, Error> {
    let refuse = |_| malformed(path, "a path that leads out of the archive");
    BoxPath::relative(path.as_bytes()).map_err(refuse)
}

fn read<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| Error::new(what, Problem::Json(error)))
}

fn malformed(what: &str, why: &'static str) -> Error {
    Error::new(crate::files::shown(what.as_bytes()), Problem::Malformed(why))
}

fn too_many_layers() -> Error {
    Error::new("manifest", Problem::Over { what: "layers", limit: MAX_LAYERS as u64 })
}

/// Architecture of this host in OCI's terms.
fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests;
