//! Uploaded skills: checked as a whole, stored by digest.
//!
//! In the upload directory each skill has a folder named by its digest, with the files under `skill`
//! and the time of registration in `registered`. It appears by one rename after everything in it
//! is on disk, so a crash leaves either all of it or a hidden folder that the next start removes.

mod copy;
mod package;
mod remove;
mod store;

use std::sync::{Arc, PoisonError};

use ringfence_types::{Digest, Origin, Timestamp, Tool};

pub(crate) use self::store::{prepare, stored};
pub use self::{copy::CopiedUpload, remove::RemoveError};
use crate::{
    archive::{self, Refused},
    catalogue::Catalogue,
    entry::Entry,
    files::Files,
    registry::{Inner, Registry},
    scan::holder,
    skill,
};

/// Uploaded skills stored.
const MAX_UPLOADS: usize = 1_000;

/// Skill folder as sent.
#[derive(Debug, Clone)]
pub enum Upload {
    /// Path and content of every file.
    Files(Vec<(String, Vec<u8>)>),
    /// Tar, tar.gz or zip archive, detected by its first bytes.
    Archive(Vec<u8>),
}

/// Reason why an upload was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The archive or a file in it is malformed or hostile.
    #[error("the upload was refused: {0}")]
    Refused(#[from] Refused),
    /// The skill has problems.
    #[error("the skill is broken: {}", problems.join("; "))]
    Broken {
        /// All problems.
        problems: Vec<String>,
    },
    /// The name belongs to a tool that uploads cannot replace, or the version to another upload.
    #[error("`{name}` {version} is already taken by {holder}")]
    Taken {
        /// Requested name.
        name: String,
        /// Requested version.
        version: String,
        /// Tool that has the name.
        holder: String,
    },
    /// The number of uploads is at its limit.
    #[error("there are already {MAX_UPLOADS} registered skills")]
    Full,
    /// The skill could not be stored.
    #[error("keep the uploaded skill")]
    Keep(#[source] std::io::Error),
}

impl Registry {
    /// Checks and stores a skill; when this returns, the catalogue has it. Registering the same files
    /// again is a no-op.
    pub async fn register(
        &self,
        upload: Upload,
        at: Timestamp,
    ) -> Result<Arc<Entry>, RegisterError> {
        // The permit is released when the work is done, even if the caller stopped waiting.
        let turn = Arc::clone(&self.inner.unpacking).acquire_owned().await;
        let registry = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            registry.register_now(upload, at)
        });
        work.await.unwrap_or_else(|error| Err(RegisterError::Keep(std::io::Error::other(error))))
    }

    /// Tool that an upload would become, checked as far as possible without storing it, and its package.
    pub async fn inspect(&self, upload: Upload) -> Result<(Tool, Vec<u8>), RegisterError> {
        let turn = Arc::clone(&self.inner.unpacking).acquire_owned().await;
        let registry = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let files = archive::unpack(upload)?;
            let broken = |problems| RegisterError::Broken { problems };
            let skill = skill::load(&files).map_err(broken)?;
            let package = package::pack(&files).map_err(RegisterError::Keep)?;
            let entry = Entry::skill(skill, Origin::Upload, registry.inner.clock.now());
            Ok((entry.tool, package))
        });
        work.await.unwrap_or_else(|error| Err(RegisterError::Keep(std::io::Error::other(error))))
    }

    /// Whether a skill could be registered now as far as its name and version go.
    pub fn check_name(&self, tool: &Tool) -> Result<(), RegisterError> {
        let (name, version) = (tool.name.as_str(), tool.version.as_str());
        check(&self.catalogue(), name, version, tool.digest).map(drop)
    }

    fn register_now(&self, upload: Upload, at: Timestamp) -> Result<Arc<Entry>, RegisterError> {
        let files = archive::unpack(upload)?;
        let skill = skill::load(&files).map_err(|problems| RegisterError::Broken { problems })?;
        let (name, version) = (skill.manifest.name.as_str(), skill.manifest.version.as_str());
        let _alone = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let catalogue = self.catalogue();
        if let Some(known) = check(&catalogue, name, version, skill.digest)? {
            return Ok(known);
        }
        keep(&self.inner, skill.digest, &files, at)?;
        self.catalogue().by_digest(skill.digest).cloned().ok_or_else(|| lost(name, version))
    }
}

/// Existing entry of the skill, or the reason why it cannot be registered.
fn check(
    catalogue: &Catalogue,
    name: &str,
    version: &str,
    digest: Digest,
) -> Result<Option<Arc<Entry>>, RegisterError> {
    let versions = catalogue.versions(name);
    if let Some(known) = versions.iter().find(|entry| entry.tool.digest == digest) {
        return Ok(Some(Arc::clone(known)));
    }
    let taken =
        |other: &&Arc<Entry>| other.tool.origin != Origin::Upload || other.tool.version == version;
    if let Some(other) = versions.iter().find(taken) {
        let (name, version) = (name.to_owned(), version.to_owned());
        return Err(RegisterError::Taken { name, version, holder: holder(other) });
    }
    let uploads = catalogue.entries().iter().filter(|entry| entry.tool.origin == Origin::Upload);
    if uploads.count() >= MAX_UPLOADS { Err(RegisterError::Full) } else { Ok(None) }
}

fn keep(inner: &Inner, digest: Digest, files: &Files, at: Timestamp) -> Result<(), RegisterError> {
    store::keep(&inner.sources.uploads, digest, files, at).map_err(RegisterError::Keep)?;
    inner.rescan();
    Ok(())
}

/// Error for a name that a folder took at the same moment.
fn lost(name: &str, version: &str) -> RegisterError {
    let (name, version) = (name.to_owned(), version.to_owned());
    RegisterError::Taken { name, version, holder: "a folder that has just appeared".to_owned() }
}
