//! Large blobs as objects of an S3-compatible store, named by their digests.

use std::{fmt, io, str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use object_store::{
    ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart,
    aws::AmazonS3Builder, path::Path,
};
use ringfence_types::Digest;

use crate::LargeBlobs;

/// Bytes beyond which a blob is put in parts, and size of a part.
const PART_BYTES: usize = 8 << 20;

/// Parts on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for which a failed request is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// Place of blobs in an S3-compatible store, and the way to it.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Config {
    /// Bucket, which must be there.
    pub bucket: String,
    /// Beginning of the names of objects; empty for none.
    pub prefix: String,
    /// URL of a store other than Amazon's.
    pub endpoint: Option<String>,
    /// Region.
    pub region: String,
    /// Key id and secret; without them the identity of the machine is asked for, as Amazon gives it.
    pub credentials: Option<(String, String)>,
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix, .. } = self;
        match prefix.is_empty() {
            true => write!(f, "s3://{bucket}"),
            false => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// Address that is not one of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address such as s3://bucket/prefix")]
pub struct InvalidS3;

impl FromStr for S3Config {
    type Err = InvalidS3;

    /// Bucket and prefix; the rest as Amazon has it.
    fn from_str(text: &str) -> Result<Self, InvalidS3> {
        let place = text.strip_prefix("s3://").ok_or(InvalidS3)?;
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        let is_bucket = (3..=63).contains(&bucket.len()) && bucket.chars().all(is_name);
        let prefix = prefix.trim_matches('/');
        let is_prefix = Path::parse(prefix).is_ok() && prefix.len() <= 256;
        if !is_bucket || !is_prefix {
            return Err(InvalidS3);
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: None,
            region: "us-east-1".to_owned(),
            credentials: None,
        })
    }
}

/// Large blobs as objects of a bucket.
#[derive(Debug, Clone)]
pub struct S3Blobs {
    store: Arc<dyn ObjectStore>,
    prefix: String,
}

impl S3Blobs {
    /// Client of a store. No request is made yet.
    pub fn open(config: &S3Config) -> io::Result<Self> {
        // One that is set already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new()
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(Duration::from_secs(5));
        let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_client_options(options)
            .with_retry(retry)
            .with_bucket_name(&config.bucket)
            .with_region(&config.region);
        if let Some(endpoint) = &config.endpoint {
            builder =
                builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http:"));
        }
        if let Some((id, secret)) = &config.credentials {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let store = Arc::new(builder.build().map_err(failed)?);
        Ok(Self { store, prefix: config.prefix.clone() })
    }

    fn path(&self, digest: Digest) -> Path {
        match self.prefix.is_empty() {
            true => Path::from(digest.hex()),
            false => Path::from(format!("{}/{}", self.prefix, digest.hex())),
        }
    }

    /// Puts bytes in parts; they are there when all parts are.
    async fn put_in_parts(&self, path: &Path, bytes: Vec<u8>) -> object_store::Result<()> {
        let upload = self.store.put_multipart(path).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut left = bytes::Bytes::from(bytes);
        while !left.is_empty() {
            writer.wait_for_capacity(PARTS_AT_ONCE).await?;
            let part = left.split_to(PART_BYTES.min(left.len()));
            writer.put(part);
        }
        writer.finish().await.map(drop)
    }
}

#[async_trait]
impl LargeBlobs for S3Blobs {
    async fn put(&self, digest: Digest, bytes: Vec<u8>) -> io::Result<()> {
        let path = self.path(digest);
        match self.store.head(&path).await {
            Ok(known) if known.size == bytes.len() as u64 => return Ok(()),
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        let put = match bytes.len() > PART_BYTES {
            true => self.put_in_parts(&path, bytes).await,
            false => self.store.put(&path, PutPayload::from(bytes)).await.map(drop),
        };
        put.map_err(failed)
    }

    async fn remove(&self, digest: Digest) -> io::Result<()> {
        match self.store.delete(&self.path(digest)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn read(&self, digest: Digest, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let path = self.path(digest);
        if length == 0 {
            return self.store.head(&path).await.map(|_| Vec::new()).map_err(failed);
        }
        let bytes = self.store.get_range(&path, start..start.saturating_add(length)).await;
        let bytes = bytes.map_err(failed)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes.to_vec()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn failed(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        for (text, bucket, prefix) in [
            ("s3://blobs", "blobs", ""),
            ("s3://blobs/", "blobs", ""),
            ("s3://my.blobs-2/ringfence/eu", "my.blobs-2", "ringfence/eu"),
        ] {
            let config: S3Config = text.parse().unwrap();
            assert_eq!((config.bucket.as_str(), config.prefix.as_str()), (bucket, prefix));
            assert_eq!(config.to_string(), text.trim_end_matches('/'));
        }
        for text in ["", "blobs", "s3://", "s3://ab", "s3://Up/x", "s3://a b c", "http://blobs/x"] {
            assert_eq!(text.parse::<S3Config>(), Err(InvalidS3), "{text}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let mut config: S3Config = "s3://blobs".parse().unwrap();
        config.credentials = Some(("id".to_owned(), "hush".to_owned()));
        assert!(!format!("{config:?} {config}").contains("hush"));
    }
}
