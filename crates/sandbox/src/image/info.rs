//! What the store knows of an image; `image.json` is exactly this.

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
    /// What it was made from.
    pub source: ImageSource,
    /// Bytes of all files written by the import, those a later layer replaced included.
    pub bytes: u64,
    /// Entries written by the import.
    pub entries: u64,
    /// RFC 3339, as the caller's clock told.
    pub created_at: String,
    /// How its author meant it to be run.
    pub config: ImageConfig,
    /// What the import left out or changed: devices, FIFOs, set-user-id bits. A hundred at most, the
    /// rest counted in one more.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What an image was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ImageSource {
    /// A directory of the host, used where it is.
    Directory {
        /// Where it is.
        path: PathBuf,
        /// Its device and inode at import: another directory at the same path is not the image.
        device: u64,
        /// See `device`.
        inode: u64,
    },
    /// A copy of a directory.
    Copy,
    /// An archive of a root file system.
    Tarball,
    /// An OCI image layout.
    Oci,
    /// An archive as `docker save` wrote it before it spoke OCI.
    Docker,
}

/// The part of an image's configuration that means something here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// `NAME=value` pairs.
    #[serde(default)]
    pub env: Vec<String>,
    /// Where programs start.
    #[serde(default)]
    pub working_dir: Option<String>,
    /// What every program is an argument of.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// What runs if nothing is asked for.
    #[serde(default)]
    pub cmd: Vec<String>,
    /// Whom its author meant to run as; recorded, not obeyed.
    #[serde(default)]
    pub user: Option<String>,
}

/// What a long import is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Content had the digest it was promised to have.
    Verified {
        /// Its digest, `sha256:…`.
        digest: String,
        /// Its size.
        bytes: u64,
    },
    /// A layer is about to be applied.
    Layer {
        /// Counted from one.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// So much has been written; told now and then.
    Written {
        /// Entries so far.
        entries: u64,
        /// Bytes so far.
        bytes: u64,
    },
}
