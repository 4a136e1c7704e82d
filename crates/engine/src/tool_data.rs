//! Data that a tool keeps between its calls: the directory `/data` of tools that were granted storage.
//!
//! The files are rows of the store, by tenant and tool. They are put into the sandbox before the program starts.
//! After its end those that changed are written in one commit, if all of them are within the quota; else none
//! is. Of two calls at once that change the same file, the one that ends last wins.

use std::{collections::HashMap, sync::Arc};

use ringfence_registry::Entry;
use ringfence_sandbox::{
    InputFile, Request,
    files::{BoxPath, Kind, ListOptions, Workspace},
};
use ringfence_store::{
    MAX_TOOL_DATA_NAMES, ToolDataChange, ToolDataChanged, ToolDataKind, ToolDataScope, ToolDatum,
};
use ringfence_types::{
    Bytes, CallError, Digest, ErrorCode, TenantId, Timestamp, ToolStatus, error_chain,
};

use crate::engine::Inner;

/// Directory of the workspace that `/data` leads to.
const DIRECTORY: &str = "data";

/// Depth of the directory.
const MAX_DEPTH: usize = 16;

/// Bytes of a path.
const MAX_PATH_BYTES: usize = 512;

/// The directory `/data` of one call.
#[derive(Debug)]
pub(crate) struct Volume {
    scope: ToolDataScope,
    digest: Digest,
    quota: u64,
    /// Digests of the files as they were before.
    before: HashMap<String, Digest>,
}

impl Volume {
    /// Reads the files of a tool and puts them into a request; none if it was granted no storage.
    pub(crate) async fn load(
        inner: &Inner,
        tenant: &TenantId,
        entry: &Entry,
        request: &mut Request,
    ) -> Result<Option<Self>, CallError> {
        let quota = entry.grants().map_or(0, |grants| grants.storage_bytes);
        if quota == 0 {
            return Ok(None);
        }
        let (tenant, tool) = (tenant.clone(), entry.tool.name.clone());
        let scope = ToolDataScope { tenant, tool, kind: ToolDataKind::File };
        let files = inner.parts.store.tool_data(&scope, None).await.map_err(|error| {
            let error = error_chain(&error);
            tracing::warn!(error, "the data of a tool cannot be read");
            refused("the data of the tool cannot be read".to_owned())
        })?;
        let root = BoxPath::relative(DIRECTORY.as_bytes()).map_err(|error| unusable(&error))?;
        request.inputs.push(InputFile::directory(root.clone(), 0o755));
        let mut before = HashMap::with_capacity(files.len());
        for ToolDatum { name, bytes } in files {
            let path = root.join(name.as_bytes()).map_err(|error| unusable(&error))?;
            before.insert(name, Digest::of(&bytes));
            request.inputs.push(InputFile { path, mode: 0o644, content: bytes.into() });
        }
        Ok(Some(Self { scope, digest: entry.tool.digest, quota, before }))
    }

    /// Writes what changed, or says why nothing was written.
    pub(crate) async fn save(
        self,
        inner: &Inner,
        workspace: Option<&Arc<Workspace>>,
    ) -> Result<(), CallError> {
        let Some(workspace) = workspace.cloned() else { return Ok(()) };
        let known = inner.lifecycle.rows();
        if known.get(self.digest).is_some_and(|known| known.row.status == ToolStatus::Revoked) {
            // Its data may have been removed with it.
            return Ok(());
        }
        let at = inner.parts.clock.now();
        let collect = move || self.collect(&workspace, at);
        let change = tokio::task::spawn_blocking(collect).await;
        let change = change.map_err(|error| refused(error.to_string()))??;
        if change.put.is_empty() && change.remove.is_empty() {
            return Ok(());
        }
        let quota = Bytes(change.max_bytes);
        match inner.parts.store.change_tool_data(change).await {
            Ok(ToolDataChanged::Done(_)) => Ok(()),
            Ok(ToolDataChanged::TooLarge(totals)) => {
                let found = Bytes(totals.bytes);
                let words = format!(
                    "/data would have {found} in {} files; the tool was granted {quota} and {} files: \
                     nothing of this call was kept",
                    totals.names, MAX_TOOL_DATA_NAMES
                );
                Err(refused(words))
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "the data of a tool cannot be written");
                Err(refused("the data of the tool cannot be written".to_owned()))
            }
        }
    }

    fn collect(
        mut self,
        workspace: &Workspace,
        at: Timestamp,
    ) -> Result<ToolDataChange, CallError> {
        let root = BoxPath::relative(DIRECTORY.as_bytes()).map_err(|error| unusable(&error))?;
        // Twice, because directories are listed as well.
        let max_entries = MAX_TOOL_DATA_NAMES as usize * 2;
        let options = ListOptions { recursive: true, max_entries, max_depth: MAX_DEPTH };
        let listing = workspace.list(&root, options).map_err(|_| {
            refused("/data cannot be read: nothing of this call was kept".to_owned())
        })?;
        if listing.left_out.is_some() {
            let words = format!(
                "/data has more than {MAX_TOOL_DATA_NAMES} files or is deeper than {MAX_DEPTH}: nothing \
                 of this call was kept"
            );
            return Err(refused(words));
        }
        let files: Vec<_> =
            listing.entries.iter().filter(|entry| entry.kind == Kind::File).collect();
        let total: u64 = files.iter().map(|entry| entry.size).sum();
        if total > self.quota.saturating_mul(2) {
            // Not even read: what was kept before cannot be that large.
            let (found, quota) = (Bytes(total), Bytes(self.quota));
            let words = format!(
                "/data would have {found}; the tool was granted {quota}: nothing of this call was kept"
            );
            return Err(refused(words));
        }
        let mut put = Vec::new();
        for entry in files {
            let path = entry.path.to_string();
            let name = path.strip_prefix("data/").filter(|name| name.len() <= MAX_PATH_BYTES);
            let is_text = std::str::from_utf8(entry.path.as_bytes()).is_ok();
            let Some(name) = name.filter(|_| is_text) else {
                return Err(refused(format!(
                    "/data has a path that is longer than {MAX_PATH_BYTES} bytes or not UTF-8: nothing of \
                     this call was kept"
                )));
            };
            let bytes = read(workspace, &entry.path, entry.size)
                .ok_or_else(|| refused("a file of /data cannot be read".to_owned()))?;
            if self.before.remove(name) != Some(Digest::of(&bytes)) {
                put.push(ToolDatum { name: name.to_owned(), bytes });
            }
        }
        let remove = self.before.into_keys().collect();
        Ok(ToolDataChange { of: self.scope, put, remove, max_bytes: self.quota, at })
    }
}

fn read(workspace: &Workspace, path: &BoxPath, size: u64) -> Option<Vec<u8>> {
    let mut file = workspace.get(path).ok()?;
    // Nothing runs in the sandbox any more; a size that is another all the same is not trusted.
    if file.size != size {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?);
    file.copy_to(&mut bytes).ok()?;
    Some(bytes)
}

fn refused(message: String) -> CallError {
    CallError { code: ErrorCode::StorageRefused, message, details: None }
}

fn unusable(error: &dyn std::fmt::Display) -> CallError {
    refused(format!("a stored path cannot be used: {error}"))
}
