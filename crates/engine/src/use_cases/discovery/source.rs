//! Reading of directories: folders of this machine, and URLs through the guarded client.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::signature::{ED25519, UnparsedPublicKey};
use ringfence_egress::{Hop, Hosts, Request, Target};
use ringfence_registry::{ListedDocument, MAX_INDEX_BYTES, read_below, read_index};
use ringfence_types::{Bytes, TenantId};

use super::ToolDirectory;
use crate::engine::Inner;

/// Name of the index.
const INDEX: &str = "index.json";

/// Name of its signature: base64 of 64 bytes.
const SIGNATURE: &str = "index.json.sig";

/// Size limit of a signature.
const MAX_SIGNATURE_BYTES: usize = 256;

/// Time for one document.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Reads directories for one call.
#[derive(Debug)]
pub(crate) struct DirectoryReader {
    /// Hosts that policy allows.
    pub(crate) hosts: Hosts,
    pub(crate) tenant: TenantId,
    /// Requests that were made.
    pub(crate) hops: Vec<Hop>,
}

impl DirectoryReader {
    /// Documents of a directory. Its signature is checked if there is a key.
    pub(crate) async fn index(
        &mut self,
        inner: &Inner,
        directory: &ToolDirectory,
    ) -> Result<Vec<ListedDocument>, String> {
        let bytes = self.read(inner, directory, INDEX, MAX_INDEX_BYTES).await?;
        if let Some(key) = &inner.parts.settings.discovery.public_key {
            let signature = self.read(inner, directory, SIGNATURE, MAX_SIGNATURE_BYTES).await?;
            check(key, &bytes, &signature)?;
        }
        read_index(&bytes).map_err(|problems| format!("{INDEX}: {}", problems.join("; ")))
    }

    /// Bytes of a file of a directory.
    pub(crate) async fn read(
        &mut self,
        inner: &Inner,
        directory: &ToolDirectory,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, String> {
        let failed = |problem: String| format!("{path}: {problem}");
        match directory {
            ToolDirectory::Folder(folder) => {
                let (folder, name) = (folder.clone(), path.to_owned());
                let read = tokio::task::spawn_blocking(move || read_below(&folder, &name, most));
                let read = read.await.map_err(|error| failed(error.to_string()))?;
                read.map_err(|error| failed(error.to_string()))
            }
            ToolDirectory::Url(_) => {
                self.fetch(inner, &place(directory, path), most).await.map_err(failed)
            }
        }
    }

    async fn fetch(&mut self, inner: &Inner, url: &str, most: usize) -> Result<Vec<u8>, String> {
        let target = Target::parse(url).map_err(|problem| problem.to_string())?;
        let fetcher = inner.parts.fetcher.as_ref().map_err(|problem| problem.to_string())?;
        let request = Request {
            timeout: TIMEOUT,
            max_body: Bytes(most as u64),
            hosts: self.hosts.clone(),
            tenant: Some(self.tenant.clone()),
            ..Request::get(target)
        };
        let response = fetcher.fetch_along(request, &mut self.hops).await;
        let response = response.map_err(|error| error.to_string())?;
        match response.status {
            200 => Ok(response.body.to_vec()),
            status => Err(format!("the server answers with status {status}")),
        }
    }
}

/// Place of a file of a directory, as the source of tools.
pub(super) fn place(directory: &ToolDirectory, path: &str) -> String {
    match directory {
        ToolDirectory::Folder(folder) => folder.join(path).display().to_string(),
        ToolDirectory::Url(url) => format!("{url}{path}"),
    }
}

fn check(key: &[u8; 32], index: &[u8], signature: &[u8]) -> Result<(), String> {
    let wrong = || format!("{SIGNATURE}: not a signature of {INDEX} by the configured key");
    let signature = STANDARD.decode(signature.trim_ascii()).map_err(|_| wrong())?;
    UnparsedPublicKey::new(&ED25519, key).verify(index, &signature).map_err(|_| wrong())
}
