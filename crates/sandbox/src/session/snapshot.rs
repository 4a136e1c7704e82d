//! Snapshot of a session's workspace: taken while it is frozen, checked before use.
//!
//! A snapshot is one header line, one line of JSON (the [`Manifest`]) and a tar.gz. It names no
//! path of the host, no parent and no host. The same tree makes the same bytes. Only the workspace
//! is in it; `/tmp`, `/dev/shm` and processes are not. Modification times, except those of links,
//! are restored to the second.
//!
//! Invariant: the archive of a [`Snapshot`] has the digest and size that its manifest says.

use std::sync::Arc;

use ringfence_policy::Permit;
use ringfence_types::Limits;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Error, Session, State,
    files::blocking,
    pause::Frozen,
    restored::Restored,
    shared::{Parts, Shared},
};
use crate::{
    archive::{self, Links, PackOptions, Packed, Policy, UnpackLimits},
    files::{BoxPath, Workspace},
};

/// A packed workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    manifest: Manifest,
    archive: Arc<[u8]>,
}

/// Metadata of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// SHA-256 of the archive, in hexadecimal.
    pub sha256: String,
    /// Bytes of the archive.
    pub size: u64,
    /// Files, directories and links in it.
    pub entries: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Whether everything inside was frozen while it was taken. Without a freezer each file is what
    /// it was at some moment, but not all at the same.
    pub consistent: bool,
    /// Entries that were left out, or changed while they were read: sockets, FIFOs, shrinking
    /// files.
    pub notes: Vec<String>,
}

/// Reason why a snapshot was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotProblem {
    /// The bytes are not a snapshot of this format.
    #[error("not a snapshot: {0}")]
    Malformed(&'static str),
    /// The archive does not match its manifest.
    #[error("the snapshot's archive does not match its {0}")]
    Mismatch(&'static str),
}

impl SnapshotProblem {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "snapshot_malformed",
            Self::Mismatch(_) => "snapshot_mismatch",
        }
    }
}

const HEADER: &[u8] = b"ringfence-snapshot 1\n";
const MAX_MANIFEST: usize = 64 << 10;
/// Largest number of notes in a manifest, each shortened; far below the limit of a manifest.
const MAX_NOTES: usize = 50;

impl Snapshot {
    /// Parses the bytes of [`Snapshot::to_bytes`] and verifies the digest and size.
    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotProblem> {
        let malformed = SnapshotProblem::Malformed;
        let rest = bytes.strip_prefix(HEADER).ok_or(malformed("unknown header"))?;
        let line = rest.iter().take(MAX_MANIFEST).position(|byte| *byte == b'\n');
        let (manifest, archive) = rest.split_at(line.ok_or(malformed("no manifest"))?);
        let manifest: Manifest =
            serde_json::from_slice(manifest).map_err(|_| malformed("unreadable manifest"))?;
        let archive = &archive[1..];
        if archive.len() as u64 != manifest.size {
            return Err(SnapshotProblem::Mismatch("size"));
        }
        if sha256(archive) != manifest.sha256 {
            return Err(SnapshotProblem::Mismatch("digest"));
        }
        Ok(Self { manifest, archive: archive.into() })
    }

    /// The snapshot as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let manifest = serde_json::to_vec(&self.manifest).unwrap_or_default();
        [HEADER, &manifest, b"\n", &self.archive].concat()
    }

    /// Metadata of the snapshot.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The tar.gz.
    pub fn archive(&self) -> &[u8] {
        &self.archive
    }

    fn new(archive: Vec<u8>, packed: &Packed, consistent: bool) -> Self {
        let notes = packed.notes.iter().take(MAX_NOTES);
        let manifest = Manifest {
            sha256: sha256(&archive),
            size: archive.len() as u64,
            entries: packed.entries,
            bytes: packed.bytes,
            consistent,
            notes: notes.map(|note| format!("{}: {}", note.entry, note.what)).collect(),
        };
        Self { manifest, archive: archive.into() }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Session {
    /// Packs the workspace while everything inside is frozen; works while paused too.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        take(&self.shared, true).await
    }

    /// A new session like this one, with a copy of its workspace and nothing running: another
    /// sandbox with another uid, sharing nothing with the first.
    pub async fn fork(&self, _permit: Permit) -> Result<Session, Error> {
        let snapshot = take(&self.shared, false).await?;
        let native = crate::Native { inner: self.shared.native()? };
        native.make_restored(self.shared.request.clone(), &snapshot).await
    }

    /// Unpacks a snapshot into the empty workspace of a new session.
    pub(super) async fn unpack_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let used = self.shared.change().await?;
        let archive = snapshot.archive.clone();
        let limits = unpack_limits(&self.shared.request.limits);
        blocking(move || {
            let used = used;
            unpack(&used.workspace, &archive, limits)
        })
        .await
    }
}

/// Takes a snapshot. Other changes of the session wait meanwhile; it runs again when the guards are
/// dropped.
async fn take(shared: &Arc<Shared>, gzip: bool) -> Result<Snapshot, Error> {
    let gate = shared.gate.clone().write_owned().await;
    let busy = shared.busy();
    let Parts { jailed, workspace } = shared.parts()?;
    let still = match shared.state() {
        State::Paused => None,
        _ => match Frozen::hold(shared, jailed).await {
            Ok(still) => Some(still),
            Err(Error::PauseUnavailable { .. }) => None,
            Err(error) => return Err(error),
        },
    };
    let consistent = still.is_some() || shared.state() == State::Paused;
    let options = pack_options(&shared.request.limits, gzip);
    blocking(move || {
        let _guards = (gate, busy, still);
        let mut archive = Vec::new();
        let packed = archive::pack(&workspace, &BoxPath::root(), &mut archive, options)?;
        Ok(Snapshot::new(archive, &packed, consistent))
    })
    .await
}

/// Limits of the workspace itself; sparse files can appear larger, and are refused.
fn pack_options(limits: &Limits, gzip: bool) -> PackOptions {
    PackOptions {
        gzip,
        links: Links::Within,
        skip_special: true,
        bytes: limits.disk.0,
        entries: usize::try_from(limits.inodes).unwrap_or(usize::MAX),
        ..PackOptions::default()
    }
}

fn unpack_limits(limits: &Limits) -> UnpackLimits {
    // A workspace of zeros is small when packed, so its own size is the bound.
    UnpackLimits {
        bytes: limits.disk.0,
        entries: limits.inodes,
        ratio: u64::MAX,
        ..UnpackLimits::default()
    }
}

/// Policy that keeps symbolic links, because they are only resolved inside the sandbox.
const POLICY: Policy = Policy { links: Links::Within, ..Policy::UPLOAD };

fn unpack(workspace: &Workspace, archive: &[u8], limits: UnpackLimits) -> Result<(), Error> {
    let mut sink = Restored::new(workspace);
    archive::unpack_stream(archive, &mut sink, POLICY, limits)?;
    Ok(sink.finish()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot() -> Snapshot {
        let packed = Packed { entries: 2, bytes: 3, ..Packed::default() };
        Snapshot::new(b"archive".to_vec(), &packed, true)
    }

    fn check(change: impl Fn(&mut Vec<u8>), expected: SnapshotProblem) {
        let mut bytes = snapshot().to_bytes();
        change(&mut bytes);
        assert_eq!(Snapshot::parse(&bytes), Err(expected));
    }

    #[test]
    fn a_snapshot_survives_its_bytes() {
        assert_eq!(Snapshot::parse(&snapshot().to_bytes()), Ok(snapshot()));
    }

    #[test]
    fn any_change_is_refused() {
        let last = |bytes: &mut Vec<u8>| bytes.last_mut().map_or((), |byte| *byte ^= 1);
        check(last, SnapshotProblem::Mismatch("digest"));
        check(|bytes| bytes.push(0), SnapshotProblem::Mismatch("size"));
        check(|bytes| bytes.truncate(bytes.len() - 1), SnapshotProblem::Mismatch("size"));
        check(|bytes| bytes[0] = b'x', SnapshotProblem::Malformed("unknown header"));
        check(|bytes| bytes.truncate(HEADER.len() + 5), SnapshotProblem::Malformed("no manifest"));
    }

    #[test]
    fn a_manifest_with_paths_or_parents_is_no_manifest() {
        for extra in [r#""path":"../../x","#, r#""parent":"0000","#] {
            let text = String::from_utf8(snapshot().to_bytes()).expect("text");
            let bytes = text.replacen("{", &format!("{{{extra}"), 1);
            let problem = SnapshotProblem::Malformed("unreadable manifest");
            assert_eq!(Snapshot::parse(bytes.as_bytes()), Err(problem));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Snapshot::parse(&bytes);
            let _ = Snapshot::parse(&[HEADER, &bytes].concat());
        }
    }
}
