//! Owners of blobs.

use ringfence_types::{ArtifactId, CallId, Digest, State};
use uuid::Uuid;

use crate::Record;

/// Owner of blobs: what refers to them by digest. A blob stays as long as it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlobOwner {
    /// A call, of whose program they are the output.
    Call(CallId),
    /// An artifact, of whose versions they are the content.
    Artifact(ArtifactId),
}

impl BlobOwner {
    /// Kind and id, as rows name it.
    pub(crate) const fn columns(self) -> (&'static str, Uuid) {
        match self {
            Self::Call(CallId(id)) => ("call", id),
            Self::Artifact(ArtifactId(id)) => ("artifact", id),
        }
    }
}

/// Number and size of blobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlobCount {
    /// Number of blobs.
    pub blobs: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Digests of the blobs that a record refers to: those that it has, and those of the earlier call whose
/// result it repeats.
pub(crate) fn referred(record: &Record) -> Vec<Digest> {
    let mut digests: Vec<_> = record.blobs.iter().map(|bytes| Digest::of(bytes)).collect();
    if let State::Finished(finished) = &record.call.state
        && finished.memoised.is_some()
    {
        digests.extend(finished.stdout.digest);
        digests.extend(finished.stderr.digest);
        let files = finished.files.iter().flat_map(|files| &files.stored);
        digests.extend(files.map(|file| file.digest));
    }
    digests.sort_unstable();
    digests.dedup();
    digests
}
