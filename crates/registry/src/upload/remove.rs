//! Removal of uploaded skills.
//!
//! Call records keep name, version and digest of the tool they ran: nothing that is removed here is
//! needed to read or verify one.

use std::sync::PoisonError;

use ringfence_types::ToolRef;

use super::store;
use crate::{
    registry::{Inner, Registry},
    scan::holder,
    skill,
};

/// Reason why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// No tool has the name, or the version.
    #[error("there is no registered skill of this name and version")]
    Unknown,
    /// The tool was not uploaded, so it cannot be removed here.
    #[error("the name belongs to {holder}")]
    NotUploaded {
        /// Tool that has the name.
        holder: String,
    },
    /// The files could not be removed.
    #[error("remove the uploaded skill")]
    Forget(#[source] std::io::Error),
}

impl Registry {
    /// Removes a registered skill: one version, or all of them if no version is given, including those
    /// hidden by another tool of the same name. When this returns, the catalogue has none of them.
    pub async fn remove(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<ToolRef>, RemoveError> {
        let (registry, name) = (self.clone(), name.to_owned());
        let version = version.map(str::to_owned);
        let work =
            tokio::task::spawn_blocking(move || registry.remove_now(&name, version.as_deref()));
        work.await.unwrap_or_else(|error| Err(RemoveError::Forget(std::io::Error::other(error))))
    }

    /// Uploads of this name, hidden ones too: one version, or all of them.
    pub async fn uploads_named(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<ToolRef>, RemoveError> {
        let (registry, name) = (self.clone(), name.to_owned());
        let version = version.map(str::to_owned);
        let work = tokio::task::spawn_blocking(move || registry.named(&name, version.as_deref()));
        work.await.unwrap_or_else(|error| Err(RemoveError::Forget(std::io::Error::other(error))))
    }

    fn named(&self, name: &str, version: Option<&str>) -> Result<Vec<ToolRef>, RemoveError> {
        let found = found(&self.inner, name, version).map_err(RemoveError::Forget)?;
        if found.is_empty() { Err(self.why_not(name)) } else { Ok(found) }
    }

    fn remove_now(&self, name: &str, version: Option<&str>) -> Result<Vec<ToolRef>, RemoveError> {
        let _alone = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.named(name, version)?;
        for tool in &found {
            store::forget(&self.inner.sources.uploads, tool.digest).map_err(RemoveError::Forget)?;
        }
        self.inner.rescan();
        Ok(found)
    }

    fn why_not(&self, name: &str) -> RemoveError {
        let catalogue = self.catalogue();
        match catalogue.versions(name).iter().find(|entry| !is_upload(entry)) {
            Some(entry) => RemoveError::NotUploaded { holder: holder(entry) },
            None => RemoveError::Unknown,
        }
    }
}

fn is_upload(entry: &crate::Entry) -> bool {
    entry.tool.origin == ringfence_types::Origin::Upload
}

/// Uploads of this name, whether or not the catalogue shows them.
fn found(inner: &Inner, name: &str, version: Option<&str>) -> std::io::Result<Vec<ToolRef>> {
    let stored = store::stored(&inner.sources.uploads)?.into_iter();
    let skills = stored.filter_map(|stored| {
        let skill = skill::load(&stored.files.ok()?).ok()?;
        let version = skill.manifest.version.as_str().to_owned();
        Some(ToolRef { name: skill.manifest.name, version, digest: stored.digest })
    });
    let is_wanted = |tool: &ToolRef| {
        tool.name.as_str() == name && version.is_none_or(|version| tool.version == version)
    };
    Ok(skills.filter(is_wanted).collect())
}
