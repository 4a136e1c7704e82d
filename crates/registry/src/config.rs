//! Sources of tools, as configured.

use std::{io, path::PathBuf, sync::Arc};

use ringfence_types::{Clock, Tool};

/// Sources of tools.
#[derive(Debug, Clone)]
pub struct Config {
    /// Tools implemented by the binary.
    pub builtins: Vec<Tool>,
    /// Folders with skill folders as direct subdirectories; a missing one may appear later.
    pub folders: Vec<PathBuf>,
    /// Skills compiled into the binary; a folder of the same name on disk replaces one.
    pub embedded: Vec<EmbeddedSkill>,
    /// Directory of registered skills, by digest; created if missing.
    pub uploads: PathBuf,
    /// Clock for the registration time of a version.
    pub clock: Arc<dyn Clock>,
}

/// Skill folder compiled into the binary.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedSkill {
    /// Name of the folder.
    pub name: &'static str,
    /// Path within the folder, and content.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// Failure to open the registry. Broken skills do not fail it: see [`Catalogue::broken`](crate::Catalogue).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A built-in tool is invalid, which only a new binary can fix.
    #[error("built-in tool `{name}`: {}", problems.join("; "))]
    Builtin {
        /// Name of the tool.
        name: String,
        /// All problems of the tool.
        problems: Vec<String>,
    },
    /// The upload directory cannot be used.
    #[error("prepare the folder for uploads `{}`", path.display())]
    Uploads {
        /// Path of the directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        error: io::Error,
    },
}
