//! Where tools come from, as the caller chooses.

use std::{io, path::PathBuf, sync::Arc};

use ringfence_types::{Clock, Tool};

/// Where tools come from.
#[derive(Debug, Clone)]
pub struct Config {
    /// Tools that the binary implements itself.
    pub builtins: Vec<Tool>,
    /// Each holds skill folders as direct sub-directories; one that does not exist yet may appear.
    pub folders: Vec<PathBuf>,
    /// Skills compiled into the binary; a folder of the same name on disk replaces one.
    pub embedded: Vec<EmbeddedSkill>,
    /// Where registered skills are kept, by digest; created if missing.
    pub uploads: PathBuf,
    /// Tells when a version became known.
    pub clock: Arc<dyn Clock>,
}

/// A skill folder compiled into the binary.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedSkill {
    /// The folder's name.
    pub name: &'static str,
    /// Path within the folder, and content.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// Why there is no registry. Broken skills are not here: see [`Catalogue::broken`](crate::Catalogue).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool of the binary itself is wrong, which only a new binary can cure.
    #[error("built-in tool `{name}`: {}", problems.join("; "))]
    Builtin {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problems: Vec<String>,
    },
    /// The place for uploads cannot be used.
    #[error("prepare the folder for uploads `{}`", path.display())]
    Uploads {
        /// That place.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}
