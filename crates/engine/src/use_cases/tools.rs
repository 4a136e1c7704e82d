//! Tools: listing, installing, removing.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use ringfence_policy::{Action, Input, ToolFacts};
use ringfence_registry::{Catalogue, Entry, RegisterError, RemoveError, Upload};
use ringfence_store::Error;
use ringfence_types::{Json, Principal, ToolRef, TraceContext, Verdict};
use tokio::sync::watch;

use crate::{ActionRefused, Engine, engine::Inner, runners, uploads};

/// Questions to policy at one time about the tools of a list: an engine elsewhere takes a round trip each.
const QUESTIONS_TOGETHER: usize = 8;

/// Matches of a search that policy is asked about.
const MAX_SEARCHED: usize = 200;

/// Changes to what keys may call: tools and rules.
#[derive(Debug)]
pub struct ToolChanges {
    tools: watch::Receiver<u64>,
    rules: watch::Receiver<u64>,
}

impl ToolChanges {
    /// Waits for the next change. Cancelling the wait loses nothing.
    pub async fn next(&mut self) {
        // A sender that is gone changes nothing more.
        let changed = async |watched: &mut watch::Receiver<u64>| {
            if watched.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = changed(&mut self.tools) => {}
            () = changed(&mut self.rules) => {}
        }
    }
}

/// Reason why a tool was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Policy did not allow it.
    #[error(transparent)]
    Policy(#[from] ActionRefused),
    /// The registry refused it.
    #[error(transparent)]
    Registry(#[from] RegisterError),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] Error),
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
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Tools for [`Engine::search_tools`].
pub(crate) async fn search(
    inner: &Inner,
    who: &Principal,
    query: &str,
    limit: usize,
) -> Vec<Arc<Entry>> {
    let catalogue = inner.parts.registry.catalogue();
    let mut found = catalogue.search(query);
    found.truncate(MAX_SEARCHED);
    callable(inner, who, found.into_iter().cloned(), limit).await
}

/// The first of these tools that policy may let a key call, in the same order.
async fn callable(
    inner: &Inner,
    who: &Principal,
    tools: impl Iterator<Item = Arc<Entry>>,
    limit: usize,
) -> Vec<Arc<Entry>> {
    let asking = tools.map(|entry| async move {
        let action = runners::of(&entry).action(&entry);
        let about = ToolFacts::from(&entry.tool);
        let now = inner.parts.clock.now();
        let input = Input::about(action, who, about, now, inner.ids.call(now));
        let answer = inner.parts.policy.evaluate(&input).await;
        let is_denied = answer.is_ok_and(|answer| answer.verdict == Verdict::Deny);
        (!is_denied).then_some(entry)
    });
    let answers = stream::iter(asking).buffered(QUESTIONS_TOGETHER);
    answers.filter_map(std::future::ready).take(limit).collect().await
}

impl Engine {
    /// Snapshot of the tools.
    pub fn tools(&self) -> Arc<Catalogue> {
        self.inner.parts.registry.catalogue()
    }

    /// Tools that policy may let a key call: the newest version of each, sorted by name. Policy is asked
    /// about each tool without arguments, and a denied one is left out; where it does not answer, the
    /// tool stays. Nothing is recorded and nothing is permitted by it: a call is decided by itself.
    pub async fn callable_tools(&self, who: &Principal, catalogue: &Catalogue) -> Vec<Arc<Entry>> {
        callable(&self.inner, who, catalogue.newest().cloned(), usize::MAX).await
    }

    /// Tools that match words of the query and that policy may let a key call: best first, then by name.
    /// Policy is asked about the best 200 matches, as by [`Engine::callable_tools`].
    pub async fn search_tools(
        &self,
        who: &Principal,
        query: &str,
        limit: usize,
    ) -> Vec<Arc<Entry>> {
        search(&self.inner, who, query, limit).await
    }

    /// Changes to tools and rules from now on.
    pub fn tool_changes(&self) -> ToolChanges {
        let (tools, rules) =
            (self.inner.parts.registry.changes(), self.inner.parts.policy.changed());
        ToolChanges { tools, rules }
    }

    /// Installs an uploaded skill, if policy allows the action `tool.install`.
    pub async fn install_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        upload: Upload,
    ) -> Result<Arc<Entry>, InstallError> {
        let registry = &self.inner.parts.registry;
        let (tool, package) = registry.inspect(upload.clone()).await?;
        let about = ToolFacts::from(&tool);
        let nothing = Json::empty_object();
        drop(self.permit_action(who, trace, Action::ToolInstall, about, nothing).await?);
        uploads::add(&self.inner, &tool, package, upload).await
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
        uploads::remove(&self.inner, name, version).await
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
