//! Tools: listing, installing, removing.

use std::sync::Arc;

use ringfence_policy::{Action, ToolFacts};
use ringfence_registry::{Catalogue, Entry, RegisterError, RemoveError, Upload};
use ringfence_types::{Json, Principal, ToolRef, TraceContext};

use crate::{ActionRefused, Engine};

/// Reason why a tool was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Policy did not allow it.
    #[error(transparent)]
    Policy(#[from] ActionRefused),
    /// The registry refused it.
    #[error(transparent)]
    Registry(#[from] RegisterError),
}

/// Reason why a tool was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveToolError {
    /// Policy did not allow it.
    #[error(transparent)]
    Policy(#[from] ActionRefused),
    /// The registry refused it.
    #[error(transparent)]
    Registry(#[from] RemoveError),
}

impl Engine {
    /// Snapshot of the tools.
    pub fn tools(&self) -> Arc<Catalogue> {
        self.inner.parts.registry.catalogue()
    }

    /// Installs an uploaded skill, if policy allows the action `tool.install`.
    pub async fn install_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        upload: Upload,
    ) -> Result<Arc<Entry>, InstallError> {
        let registry = &self.inner.parts.registry;
        let about = ToolFacts::from(&registry.inspect(upload.clone()).await?);
        let nothing = Json::empty_object();
        drop(self.permit_action(who, trace, Action::ToolInstall, about, nothing).await?);
        Ok(registry.register(upload).await?)
    }

    /// Removes one version of an uploaded skill, or all of them, if policy allows the action
    /// `tool.remove`.
    pub async fn remove_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<ToolRef>, RemoveToolError> {
        let about = self.facts_of(name, version)?;
        let nothing = Json::empty_object();
        drop(self.permit_action(who, trace, Action::ToolRemove, about, nothing).await?);
        Ok(self.inner.parts.registry.remove(name, version).await?)
    }

    /// The tool as rules see it; a hidden or broken one is known by name alone.
    fn facts_of(&self, name: &str, version: Option<&str>) -> Result<ToolFacts, RemoveError> {
        if let Some(entry) = self.tools().get(name, version) {
            return Ok(ToolFacts::from(&entry.tool));
        }
        let name = name.parse().map_err(|_| RemoveError::Unknown)?;
        Ok(ToolFacts::named(name, version.unwrap_or("")))
    }

    /// Counts a call that was refused before it was accepted. Names without a tool are chosen by
    /// clients, and as labels would grow without bound.
    pub fn count_refusal(&self, tool: &str, code: &'static str) {
        let is_known = self.tools().get(tool, None).is_some();
        self.inner.metrics.refused(if is_known { tool } else { "unknown" }, code);
    }
}
