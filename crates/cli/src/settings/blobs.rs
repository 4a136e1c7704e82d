//! Place of large blobs: a directory, or an S3-compatible store.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ringfence_store::{BlobDirectory, LargeBlobs, S3Blobs, S3Config, check_large_blobs};

use super::read::{Reader, is_base_url};
use crate::failure::Failure;

/// Place of large blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blobs {
    /// Directory.
    Directory(PathBuf),
    /// S3-compatible store.
    S3(S3Config),
}

impl Blobs {
    /// Directory of the blobs; of those elsewhere, the one in the data directory that they would be in.
    pub(crate) fn directory(&self, data: &Path) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.clone(),
            Self::S3(_) => data.to_owned(),
        }
    }

    /// Store of the blobs, after a check that it can be used.
    pub(crate) async fn open(&self) -> Result<Arc<dyn LargeBlobs>, Failure> {
        match self {
            Self::Directory(directory) => {
                let failed = |error| {
                    Failure::because(
                        format!("cannot use `{}` for blobs", directory.display()),
                        &error,
                    )
                };
                Ok(Arc::new(BlobDirectory::open(directory).map_err(failed)?))
            }
            Self::S3(config) => {
                let store = S3Blobs::open(config).map_err(|error| unusable(config, &error))?;
                let checked = check_large_blobs(&store).await;
                checked.map_err(|error| {
                    let hint = "the bucket must be there, and the key must be able to read, write and \
                                delete in it; see s3.endpoint, s3.region and s3.access_key_id";
                    unusable(config, &error).hint(hint)
                })?;
                Ok(Arc::new(store))
            }
        }
    }

    /// The same for a command that only reads.
    pub(crate) fn to_read(&self) -> Result<Arc<dyn LargeBlobs>, Failure> {
        Ok(match self {
            Self::Directory(directory) => Arc::new(BlobDirectory::to_read(directory)),
            Self::S3(config) => {
                Arc::new(S3Blobs::open(config).map_err(|error| unusable(config, &error))?)
            }
        })
    }
}

fn unusable(config: &S3Config, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot use {config} for blobs"), error)
}

impl Reader<'_> {
    /// Place of the blobs; `None` only if a problem was added.
    pub(super) fn blobs(&mut self, data: &Path, is_postgres: bool) -> Option<Blobs> {
        let given = self.layers.get("blobs").values.first().cloned();
        let Some(given) = given else { return Some(Blobs::Directory(data.join("blobs"))) };
        if !given.starts_with("s3:") {
            return Some(Blobs::Directory(self.layers.path("blobs")));
        }
        let place: Option<S3Config> = self.one("blobs", |text| match is_postgres {
            true => text.parse().map_err(|error| format!("`{text}` is {error}")),
            false => Err("S3 needs a store in PostgreSQL: set `store` too".to_owned()),
        });
        let text = |name: &str| self.layers.get(name).values.first().cloned();
        let (id, secret) = (text("s3.access_key_id"), text("s3.secret_access_key"));
        let region = text("s3.region");
        let endpoint = text("s3.endpoint").map(|_| {
            self.one("s3.endpoint", |text| match is_base_url(text) {
                true => Ok(text.trim_end_matches('/').to_owned()),
                false => Err(format!("`{text}` is not a URL such as https://s3.example.com")),
            })
        });
        // Half a key would be used as the identity of the machine, which is another.
        let credentials = match (id, secret) {
            (Some(_), None) => {
                self.one("s3.secret_access_key", |_| Err("is required with the id".to_owned()))
            }
            (None, Some(_)) => {
                self.one("s3.access_key_id", |_| Err("is required with the secret".to_owned()))
            }
            (id, secret) => Some(id.zip(secret)),
        };
        let (place, credentials) = (place?, credentials?);
        let endpoint = endpoint.map_or(Some(None), |endpoint| endpoint.map(Some))?;
        let region = region.unwrap_or_else(|| place.region.clone());
        Some(Blobs::S3(S3Config { endpoint, region, credentials, ..place }))
    }
}
