//! Uploaded skills: the store has them, and every process has a copy on its disk.
//!
//! A copy that is missing or damaged is made anew, and one that was removed elsewhere goes. An upload on
//! disk that the store never had is from an earlier program, and is added to the store at the start.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use ringfence_registry::{CopiedUpload, Entry, RegisterError, Registry, Upload};
use ringfence_store::{Error, UploadRow};
use ringfence_types::{Digest, Tool, ToolRef, error_chain};
use tokio::sync::{Mutex, MutexGuard};

use crate::{RemoveToolError, engine::Inner};

/// Time between two looks for changes by other processes.
const POLL: Duration = Duration::from_millis(500);

/// Pause after a round that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Uploads, as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// Version of the uploads in the store that the copies are of. Held while they change.
    version: Mutex<Option<u64>>,
}

fn on_disk(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Backend { doing, source: Box::new(source) }
}

/// Runs work that blocks on files.
async fn blocking<T: Send + 'static>(
    registry: &Registry,
    work: impl FnOnce(&Registry) -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let registry = registry.clone();
    let done = tokio::task::spawn_blocking(move || work(&registry)).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(on_disk("copy uploaded skills"))
}

/// Brings the store and the copies together, before any call.
pub(crate) async fn start(inner: &Inner) -> Result<(), Error> {
    let mut version = inner.uploads.version.lock().await;
    adopt(inner).await?;
    take_over(inner, &mut version).await
}

/// Adds uploads to the store that only the disk has.
async fn adopt(inner: &Inner) -> Result<(), Error> {
    let (store, registry) = (&inner.parts.store, &inner.parts.registry);
    let known: HashSet<Digest> =
        rows(inner).await?.into_iter().map(|row| row.tool.digest).collect();
    let copies = blocking(registry, Registry::copies).await?;
    for CopiedUpload { digest, tool, since } in copies {
        let Some(tool) = tool.filter(|_| !known.contains(&digest)) else { continue };
        let package = blocking(registry, move |registry| registry.package(digest)).await?;
        let Some(package) = package else { continue };
        let at = since.unwrap_or_else(|| inner.parts.clock.now());
        let row = UploadRow { tool: tool.clone(), at, is_removed: false };
        if !store.add_upload(row, package).await? {
            let (name, version) = (tool.name.as_str(), tool.version.as_str());
            tracing::warn!(name, version, "an upload on disk has the version of another upload");
        }
    }
    Ok(())
}

/// All uploads, removed ones too.
async fn rows(inner: &Inner) -> Result<Vec<UploadRow>, Error> {
    let mut rows: Vec<UploadRow> = Vec::new();
    loop {
        let page = inner.parts.store.uploads(rows.last().map(|row| row.tool.digest)).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// Takes over what other processes changed by now.
pub(crate) async fn refresh(inner: &Inner) -> Result<(), Error> {
    let mut known = inner.uploads.version.lock().await;
    if *known != Some(inner.parts.store.uploads_version().await?) {
        take_over(inner, &mut known).await?;
    }
    Ok(())
}

/// Makes the copies those of the store.
async fn take_over(inner: &Inner, known: &mut MutexGuard<'_, Option<u64>>) -> Result<(), Error> {
    let (store, registry) = (&inner.parts.store, &inner.parts.registry);
    // Read before the rows: what changes meanwhile is found again.
    let version = store.uploads_version().await?;
    let rows = rows(inner).await?;
    let copies = blocking(registry, Registry::copies).await?;
    let mut is_changed = false;
    for UploadRow { tool, at, is_removed } in rows {
        let digest = tool.digest;
        let copy = copies.iter().find(|copy| copy.digest == digest);
        if is_removed {
            if copy.is_some() {
                blocking(registry, move |registry| registry.discard(digest)).await?;
                is_changed = true;
            }
        } else if copy.is_none_or(|copy| copy.tool.is_none()) {
            // Removed meanwhile: the next round finds it.
            let Some(package) = store.upload_content(digest).await? else { continue };
            blocking(registry, move |registry| registry.copy(digest, &package, at)).await?;
            is_changed = true;
        }
    }
    if is_changed {
        blocking(registry, |registry| {
            registry.rescan();
            Ok(())
        })
        .await?;
    }
    **known = Some(version);
    Ok(())
}

/// Follows changes by other processes, and losses on disk, until the engine stops.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let mut changes = inner.parts.registry.changes();
    let is_shared = inner.parts.store.is_shared();
    loop {
        let polled = async {
            match is_shared {
                true => tokio::time::sleep(POLL).await,
                false => std::future::pending().await,
            }
        };
        let is_lost = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = changes.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = polled => false,
        };
        let round = async {
            let mut known = inner.uploads.version.lock().await;
            if is_lost || *known != Some(inner.parts.store.uploads_version().await?) {
                take_over(&inner, &mut known).await?;
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = round.await {
            let error = error_chain(&error);
            tracing::warn!(error, "uploaded skills of other processes are not here yet");
            *inner.uploads.version.lock().await = None;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Adds an upload to the store, and then here.
pub(crate) async fn add(
    inner: &Inner,
    tool: &Tool,
    package: Vec<u8>,
    upload: Upload,
) -> Result<Arc<Entry>, crate::InstallError> {
    let (store, registry) = (&inner.parts.store, &inner.parts.registry);
    let _turn = inner.uploads.version.lock().await;
    registry.check_name(tool)?;
    let at = inner.parts.clock.now();
    let row = UploadRow { tool: tool.reference(), at, is_removed: false };
    if !store.add_upload(row, package).await? {
        let (name, version) = (tool.name.to_string(), tool.version.clone());
        let holder = "a registered skill".to_owned();
        return Err(RegisterError::Taken { name, version, holder }.into());
    }
    Ok(registry.register(upload, at).await?)
}

/// Removes uploads from the store, and then here.
pub(crate) async fn remove(
    inner: &Inner,
    name: &str,
    version: Option<&str>,
) -> Result<Vec<ToolRef>, RemoveToolError> {
    let (store, registry) = (&inner.parts.store, &inner.parts.registry);
    let mut known = inner.uploads.version.lock().await;
    // Uploads that came by another process a moment ago are removed too.
    take_over(inner, &mut known).await?;
    for tool in registry.uploads_named(name, version).await? {
        store.remove_upload(tool.digest).await?;
    }
    Ok(registry.remove(name, version).await?)
}
