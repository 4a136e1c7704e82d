//! Discovery: tools for a capability that is missing, from the catalogue and from configured directories.
//!
//! A discovery is a call of `tool_discover`, so policy decides about it, it may be held, and its record is the
//! queue. It proposes manifests and operations of OpenAPI documents; nothing of it runs before a person
//! approves it.

mod source;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use ringfence_egress::Target;
use ringfence_registry::{
    Definition, DocumentKind, Entry, ListedDocument, Manifest, OpenapiImport, OpenapiOptions,
    fit_of, fitting,
};
use ringfence_types::{
    Call, CallId, Digest, DiscoveryStatus, LifecycleEvent, Principal, Produced, State, ToolName,
    ToolStatus, TraceContext,
};
use serde_json::{Value, json};

pub(crate) use self::source::DirectoryReader;
use super::{
    ImportError,
    lifecycle::{LifecycleError, VersionChoice},
    tools,
};
use crate::{
    Engine,
    data::{CallQuery, StoreError},
    engine::Inner,
};

/// Name of the built-in tool whose calls are discoveries.
pub const DISCOVERY_TOOL: &str = "tool_discover";

/// Documents that a discovery shows.
const MAX_CANDIDATES: usize = 10;

/// Tools of the catalogue that a discovery shows.
const MAX_KNOWN: usize = 10;

/// Operations of one OpenAPI document that are proposed by a search.
const MAX_OPERATIONS: usize = 20;

/// Size limit of a document.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// Settings of discovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// Directories that are searched, in this order.
    pub directories: Vec<ToolDirectory>,
    /// Ed25519 key that signs indexes; an index without a valid signature is refused if there is one.
    pub public_key: Option<[u8; 32]>,
}

impl DiscoverySettings {
    /// Whether a search leaves this machine.
    pub fn reaches_urls(&self) -> bool {
        self.directories.iter().any(|directory| matches!(directory, ToolDirectory::Url(_)))
    }
}

/// Directory with an `index.json` of manifests and OpenAPI documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolDirectory {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The URL of a folder, which ends with a slash.
    Url(String),
}

/// Text that names no directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an absolute path nor an http URL without a query")]
pub struct InvalidToolDirectory(String);

impl FromStr for ToolDirectory {
    type Err = InvalidToolDirectory;

    fn from_str(text: &str) -> Result<Self, InvalidToolDirectory> {
        let invalid = || InvalidToolDirectory(text.to_owned());
        if text.starts_with("http://") || text.starts_with("https://") {
            if text.contains(['?', '#']) || Target::parse(text).is_err() {
                return Err(invalid());
            }
            return Ok(Self::Url(format!("{}/", text.trim_end_matches('/'))));
        }
        let path = PathBuf::from(text);
        path.is_absolute().then_some(Self::Folder(path)).ok_or_else(invalid)
    }
}

impl fmt::Display for ToolDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// One discovery.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// The call of `tool_discover`, which it is.
    pub call: Arc<Call>,
    /// Its status.
    pub status: DiscoveryStatus,
}

/// Reason why a discovery was not rejected.
#[derive(Debug, thiserror::Error)]
pub enum RejectError {
    /// There is no such discovery.
    #[error("there is no such discovery")]
    Unknown,
    /// Nothing of it can be rejected.
    #[error("the discovery is {0} and has nothing left that waits for a decision")]
    Over(DiscoveryStatus),
    /// A proposed tool could not be rejected.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    /// The store did not answer.
    #[error("read the discovery")]
    Store(#[from] StoreError),
}

/// Request of a discovery.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Description of the capability.
    pub(crate) capability: String,
    /// Name of the only document that is proposed.
    pub(crate) only: Option<String>,
    /// Number of documents that are proposed.
    pub(crate) propose: usize,
}

/// Searches the catalogue and the directories, and proposes the best documents.
pub(crate) async fn discover(
    inner: &Arc<Inner>,
    who: &Principal,
    wanted: &Wanted,
    reader: &mut DirectoryReader,
) -> Value {
    let known = tools::search(inner, who, &wanted.capability, MAX_KNOWN).await;
    let known = known.into_iter().filter(|entry| fits(entry, &wanted.capability));
    let known: Vec<_> = known
        .map(|entry| {
            let tool = &entry.tool;
            json!({
                "name": tool.name, "version": tool.version, "description": tool.description,
            })
        })
        .collect();
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for directory in &inner.parts.settings.discovery.directories {
        match reader.index(inner, directory).await {
            Ok(listed) => {
                for (score, document) in matching(&listed, wanted) {
                    found.push((score, directory, document.clone()));
                }
            }
            Err(problem) => {
                problems.push(json!({"directory": directory.to_string(), "problem": problem}));
            }
        }
    }
    // Stable: of equal scores the directory that is named first comes first.
    found.sort_by(|(one, ..), (other, ..)| other.cmp(one));
    found.truncate(MAX_CANDIDATES);
    let mut candidates = Vec::with_capacity(found.len());
    for (index, (score, directory, document)) in found.iter().enumerate() {
        let mut shown = json!({
            "directory": directory.to_string(), "name": document.name,
            "kind": document.kind.name(), "description": document.description,
            "digest": document.digest, "score": score, "proposed": [], "skipped": 0,
        });
        if index < wanted.propose {
            match propose(inner, directory, document, wanted, reader).await {
                Ok(Proposal { proposed, skipped }) => {
                    shown["proposed"] = json!(proposed);
                    shown["skipped"] = json!(skipped);
                }
                Err(problem) => shown["problem"] = json!(problem),
            }
        }
        candidates.push(shown);
    }
    json!({
        "capability": wanted.capability, "tools": known, "candidates": candidates,
        "problems": problems,
    })
}

fn fits(entry: &Entry, capability: &str) -> bool {
    let tool = &entry.tool;
    // The tool that searches describes all searches.
    tool.name.as_str() != DISCOVERY_TOOL
        && fit_of(tool.name.as_str(), &tool.tags, &tool.description, capability).is_some()
}

fn matching<'a>(listed: &'a [ListedDocument], wanted: &Wanted) -> Vec<(u32, &'a ListedDocument)> {
    match &wanted.only {
        Some(name) => {
            let named = listed.iter().filter(|document| document.name == *name);
            named.map(|document| (0, document)).collect()
        }
        None => fitting(listed, &wanted.capability),
    }
}

struct Proposal {
    proposed: Vec<Value>,
    skipped: usize,
}

/// Reads a document, checks its digest, and proposes its tools.
async fn propose(
    inner: &Arc<Inner>,
    directory: &ToolDirectory,
    document: &ListedDocument,
    wanted: &Wanted,
    reader: &mut DirectoryReader,
) -> Result<Proposal, String> {
    let engine = Engine { inner: inner.clone() };
    let bytes = reader.read(inner, directory, &document.path, MAX_DOCUMENT_BYTES).await?;
    let found = Digest::of(&bytes);
    if found != document.digest {
        return Err(format!("the document is {found}, and the index says {}", document.digest));
    }
    let place = source::place(directory, &document.path);
    let (mut definitions, mut skipped) = match document.kind {
        DocumentKind::Manifest => {
            let read = engine.parse(move || Manifest::read(&bytes)).await;
            (vec![read.map_err(|error| problems(&error))?.definition], 0)
        }
        DocumentKind::Openapi => {
            let url = matches!(directory, ToolDirectory::Url(_)).then(|| place.clone());
            let options = OpenapiOptions { url, ..OpenapiOptions::default() };
            let read = engine.parse(move || OpenapiImport::read(&bytes, &options)).await;
            let read = read.map_err(|error| problems(&error))?;
            let skipped = read.skipped.len();
            match &wanted.only {
                Some(_) => (read.definitions, skipped),
                None => best(read.definitions, skipped, &wanted.capability),
            }
        }
    };
    let before = definitions.len();
    let mut taken = None;
    definitions.retain(|definition| match engine.check_name(definition, &place) {
        Ok(()) => true,
        Err(error) => {
            taken.get_or_insert_with(|| error.to_string());
            false
        }
    });
    skipped += before - definitions.len();
    if let (true, Some(taken)) = (definitions.is_empty(), taken) {
        return Err(taken);
    }
    // The server proposes: that never brings back what was withdrawn.
    let proposed = engine.propose_checked(None, &place, &definitions).await;
    let proposed = proposed.map_err(|error| ringfence_types::error_chain(&error).to_string())?;
    let proposed = proposed.iter().map(|one| {
        let tool = &one.tool;
        json!({
            "name": tool.name, "version": tool.version, "digest": tool.digest,
            "status": one.status, "is_new": one.is_new,
        })
    });
    Ok(Proposal { proposed: proposed.collect(), skipped })
}

/// The operations that fit best; the rest counts as skipped.
fn best(
    definitions: Vec<Definition>,
    skipped: usize,
    capability: &str,
) -> (Vec<Definition>, usize) {
    let all = definitions.len();
    let scored = definitions.into_iter().filter_map(|definition| {
        let Definition { name, tags, description, .. } = &definition;
        Some((fit_of(name.as_str(), tags, description, capability)?, definition))
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.name.cmp(&b.name)));
    scored.truncate(MAX_OPERATIONS);
    let left_out = all - scored.len();
    (scored.into_iter().map(|(_, definition)| definition).collect(), skipped + left_out)
}

fn problems(error: &ImportError) -> String {
    error.to_string()
}

impl Engine {
    /// Discovery that a call is; none if the call is of another tool.
    pub fn discovery_of(&self, call: Arc<Call>) -> Option<Discovery> {
        if call.asked.tool.name.as_str() != DISCOVERY_TOOL {
            return None;
        }
        let (has_found, proposed) = found(&call.state);
        let is_rejected = !proposed.is_empty()
            && proposed.iter().all(|digest| self.status_of(*digest) == Some(ToolStatus::Revoked));
        let status = DiscoveryStatus::of(&call.state, has_found, is_rejected);
        Some(Discovery { call, status })
    }

    /// One discovery of the principal's tenant.
    pub async fn discovery(
        &self,
        who: &Principal,
        id: CallId,
    ) -> Result<Option<Discovery>, StoreError> {
        let call = self.get(who, id).await?;
        Ok(call.and_then(|call| self.discovery_of(call)))
    }

    /// Discoveries of the principal's tenant, newest first, and the cursor of the next page.
    pub async fn discoveries(
        &self,
        who: &Principal,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<(Vec<Discovery>, Option<CallId>), StoreError> {
        let query = CallQuery {
            tenant: who.tenant.clone(),
            state: None,
            tool: Some(DISCOVERY_TOOL.to_owned()),
            session: None,
            parent: None,
            before,
            limit,
        };
        let (calls, next) = self.list(who, query).await?;
        let discoveries = calls.into_iter().filter_map(|call| self.discovery_of(Arc::new(call)));
        Ok((discoveries.collect(), next))
    }

    /// Rejects a discovery: ends the search, or rejects its tools that wait for a decision. Those that were
    /// approved stay as they are.
    pub async fn reject_discovery(
        &self,
        who: &Principal,
        trace: &TraceContext,
        id: CallId,
        why: &str,
    ) -> Result<Discovery, RejectError> {
        let discovery = self.discovery(who, id).await?.ok_or(RejectError::Unknown)?;
        match discovery.status {
            DiscoveryStatus::Pending | DiscoveryStatus::Searching => {
                self.cancel(who, id).await?;
            }
            DiscoveryStatus::Found => {
                let (_, proposed) = found(&discovery.call.state);
                let waits = |digest: &Digest| self.status_of(*digest) == Some(ToolStatus::Proposed);
                let waiting: Vec<_> = proposed.into_iter().filter(waits).collect();
                if waiting.is_empty() {
                    return Err(RejectError::Over(discovery.status));
                }
                for digest in waiting {
                    self.reject_tool(who, trace, digest, why).await?;
                }
            }
            over => return Err(RejectError::Over(over)),
        }
        self.discovery(who, id).await?.ok_or(RejectError::Unknown)
    }

    async fn reject_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        digest: Digest,
        why: &str,
    ) -> Result<(), LifecycleError> {
        let rows = self.inner.lifecycle.rows();
        let Some(known) = rows.get(digest) else { return Ok(()) };
        let name: ToolName = known.row.tool.name.clone();
        let choice = VersionChoice { version: None, digest: Some(digest) };
        let event = LifecycleEvent::Revoke;
        self.change_tool(who, trace, &name, &choice, event, why.to_owned(), false).await.map(drop)
    }

    fn status_of(&self, digest: Digest) -> Option<ToolStatus> {
        self.inner.lifecycle.rows().get(digest).map(|known| known.row.status)
    }
}

/// Whether the result of a discovery has tools or documents, and the digests of what it proposed.
fn found(state: &State) -> (bool, Vec<Digest>) {
    let State::Finished(finished) = state else { return (false, Vec::new()) };
    let Produced::Result(result) = &finished.produced else { return (false, Vec::new()) };
    let result = result.to_value();
    let list = |name: &str| result.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let candidates = list("candidates");
    let proposed = candidates
        .iter()
        .filter_map(|candidate| candidate.get("proposed")?.as_array())
        .flatten()
        .filter_map(|tool| tool.get("digest")?.as_str()?.parse().ok());
    (!candidates.is_empty() || !list("tools").is_empty(), proposed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_folder_or_a_url() {
        let read = |text: &str| text.parse::<ToolDirectory>();
        assert_eq!(read("/srv/tools"), Ok(ToolDirectory::Folder("/srv/tools".into())));
        let url = ToolDirectory::Url("https://tools.example/a/".to_owned());
        assert_eq!(read("https://tools.example/a"), Ok(url.clone()));
        assert_eq!(read("https://tools.example/a/"), Ok(url));
        for wrong in ["tools", "", "ftp://x", "https://", "https://h/?q=1", "https://h/#a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let folder = DiscoverySettings {
            directories: vec![ToolDirectory::Folder("/a".into())],
            public_key: None,
        };
        assert!(!folder.reaches_urls());
    }
}
