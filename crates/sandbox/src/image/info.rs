//! Metadata of an image; `image.json` is exactly this.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ImageName;

/// An image of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// Its name.
    pub name: ImageName,
    /// `sha256:…` of the manifest, configuration or archive it was made from; directories have none.
    pub digest: Option<String>,
    /// Source of the image.
    pub source: ImageSource,
    /// Bytes of all files written by the import, those a later layer replaced included.
    pub bytes: u64,
    /// Entries written by the import.
    pub entries: u64,
    /// Time of the import, RFC 3339.
    pub created_at: String,
    /// Run configuration that its author declared.
    pub config: ImageConfig,
    /// Entries that the import left out or changed: devices, FIFOs, set-user-id bits. At most a
    /// hundred; one more note counts the rest.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Source of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ImageSource {
    /// A directory of the host, used where it is.
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Its device and inode at import: another directory at the same path is not the image.
        device: u64,
        /// Inode at import; see `device`.
        inode: u64,
    },
    /// A copy of a directory.
    Copy,
    /// An archive of a root file system.
    Tarball,
    /// An OCI image layout.
    Oci,
    /// An archive as `docker save` wrote it before it supported OCI.
    Docker,
}

/// The part of an image's configuration that is used here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// `NAME=value` pairs.
    #[serde(default)]
    pub env: Vec<String>,
    /// Working directory of programs.
    #[serde(default)]
    pub working_dir: Option<String>,
    /// Program and arguments before every command.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// Command that runs by default.
    #[serde(default)]
    pub cmd: Vec<String>,
    /// User that its author declared; recorded, not used.
    #[serde(default)]
    pub user: Option<String>,
}

/// Progress of a long import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Content had the declared digest.
    Verified {
        /// The digest, `sha256:…`.
        digest: String,
        /// Size of the content.
        bytes: u64,
    },
    /// A layer is about to be applied.
    Layer {
        /// Number of the layer, from one.
        number: usize,
        /// Number of all layers.
        of: usize,
    },
    /// Entries and bytes written so far; reported from time to time.
    Written {
        /// Entries written so far.
        entries: u64,
        /// Bytes written so far.
        bytes: u64,
    },
}
