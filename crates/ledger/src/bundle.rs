//! Proof bundle: one file with entries, their inclusion proofs, the checkpoint, the keys, and, on
//! request, the artifacts.
//!
//! An inclusion proof shows that an entry is in the log; it cannot show that none was left out. So
//! the server signs a manifest of the file's content, and verification compares the two.

use std::collections::BTreeSet;

use ringfence_types::{About, CallId, Digest, EntryKind, SessionId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    chain::Chain,
    checkpoint::Checkpoint,
    encoding,
    entry::about,
    envelope::Envelope,
    flaw::{Flaw, Place, Problem},
    key::PublicKey,
    memo_source, merkle,
    missing_artifacts::{MissingArtifact, missing_artifacts},
    note::Note,
    statement::{self, Statement, Subject},
};

/// Format name of every bundle.
const BUNDLE_FORMAT: &str = "https://ringfence.dev/bundle/v1";

/// Number of leading bytes in which the format name is searched.
const FORMAT_SEARCH_BYTES: usize = 200;

/// Predicate type of a manifest.
const MANIFEST_TYPE: &str = "https://ringfence.dev/attestation/bundle/v1";

/// Proof bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    format: String,
    /// Signed list of the content; none until it is signed.
    pub(crate) manifest: Option<Envelope>,
    /// The checkpoint as a signed note.
    checkpoint: String,
    /// Entries that name the keys, from the first of the log.
    keys: Vec<Item>,
    /// The entries.
    entries: Vec<Item>,
    /// Artifacts of the entries; none if they were not asked for.
    artifacts: Option<Vec<Artifact>>,
}

/// An entry with its inclusion proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Index in the log.
    pub index: u64,
    /// The signed entry.
    pub envelope: Envelope,
    /// Inclusion proof by the checkpoint.
    #[serde(with = "encoding::hashes")]
    pub proof: Vec<Digest>,
}

/// Bytes that an entry refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Digest of the bytes.
    pub digest: Digest,
    /// The bytes.
    #[serde(with = "encoding::bytes")]
    pub bytes: Vec<u8>,
}

/// Subject of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Everything about a call.
    Call(CallId),
    /// Everything about the calls of a session.
    Session(SessionId),
}

/// The server's signed statement about a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Creation time.
    pub at: Timestamp,
    /// Tenant of the entries.
    pub tenant: TenantId,
    /// Selection of the entries: all that the log had then, and the receipts of earlier calls whose
    /// results they reuse.
    pub selection: Selection,
}

/// A verified bundle.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The manifest.
    pub manifest: Manifest,
    /// The checkpoint over its entries.
    pub checkpoint: Checkpoint,
    /// The key that signed manifest and checkpoint.
    pub key: PublicKey,
    /// All keys of the log, with the first entry of each.
    pub chain: Chain,
    /// The entries.
    pub entries: Vec<Shown>,
    /// Number of artifacts that were compared with their digests; none if the bundle has none.
    pub artifacts: Option<usize>,
    /// Missing artifacts of a bundle with artifacts: masked by policy, or left out.
    pub missing_artifacts: Vec<MissingArtifact>,
}

/// A verified entry.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Index in the log.
    pub index: u64,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Subject of the entry.
    pub about: About,
    /// The text of its predicate.
    pub predicate: String,
    /// Whether it has a signature of its own; without one the checkpoint vouches for it.
    pub is_signed: bool,
}

impl Manifest {
    pub(crate) fn statement(&self, bundle: &Bundle) -> String {
        statement::write(&bundle.subjects(), MANIFEST_TYPE, self)
    }
}

impl Bundle {
    /// An unsigned bundle: see [`crate::Signer::bundle`].
    pub fn new(
        checkpoint: String,
        keys: Vec<Item>,
        entries: Vec<Item>,
        artifacts: Option<Vec<Artifact>>,
    ) -> Self {
        let format = BUNDLE_FORMAT.to_owned();
        Self { format, manifest: None, checkpoint, keys, entries, artifacts }
    }

    /// Text of the bundle: one line of JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("plain data with text keys") + "\n"
    }

    /// The bundle in a file, in any JSON layout.
    fn parse(text: &[u8]) -> Result<Self, Problem> {
        let beginning = &text[..text.len().min(FORMAT_SEARCH_BYTES)];
        let is_ours =
            beginning.windows(BUNDLE_FORMAT.len()).any(|part| part == BUNDLE_FORMAT.as_bytes());
        match serde_json::from_slice::<Self>(text) {
            Ok(bundle) if bundle.format == BUNDLE_FORMAT => Ok(bundle),
            Err(error) if is_ours && error.is_eof() => Err(Problem::Cut(text.len())),
            _ if is_ours => Err(Problem::Form),
            _ => Err(Problem::NotOurs),
        }
    }

    /// Digests of the whole content, in order.
    fn subjects(&self) -> Vec<Subject> {
        let leaf = |name: &str, item: &Item| {
            Subject::new(format!("{name}/{}", item.index), item.envelope.leaf())
        };
        let checkpoint = Subject::new("checkpoint", Digest::of(self.checkpoint.as_bytes()));
        let keys = self.keys.iter().map(|item| leaf("key", item));
        let entries = self.entries.iter().map(|item| leaf("entry", item));
        let artifacts = self.artifacts.iter().flatten();
        let artifacts = artifacts.map(|artifact| Subject::new("artifact", artifact.digest));
        std::iter::once(checkpoint).chain(keys).chain(entries).chain(artifacts).collect()
    }

    /// Parses and checks a file. With a pinned key, only that key's signature counts.
    pub fn verify(text: &[u8], pinned: Option<Digest>) -> Result<Verified, Flaw> {
        let bundle = Self::parse(text).map_err(|problem| Place::File.is(problem))?;
        let verified = bundle.check(pinned)?;
        // Last, so that a forged file is not reported as merely reformatted.
        match bundle.render().as_bytes() == text {
            true => Ok(verified),
            false => Err(Place::File.is(Problem::Reformatted)),
        }
    }

    fn check(&self, pinned: Option<Digest>) -> Result<Verified, Flaw> {
        let bundle = self;
        let ground = Ground::of(&bundle.checkpoint, &bundle.keys, pinned)?;
        let manifest = bundle.check_manifest(&ground.key)?;
        let entries = ground.show(&bundle.entries)?;
        let memo_sources = memo_source::memo_sources(&bundle.entries, &entries, &manifest)?;
        let own = entries.iter().filter(|entry| !memo_sources.contains(&entry.index));
        own.into_iter().try_for_each(|entry| entry.check_belongs(&manifest))?;
        let artifacts = bundle.check_artifacts()?;
        let missing_artifacts =
            bundle.artifacts.as_ref().map(|here| missing_artifacts(&entries, here));
        let Ground { checkpoint, key, chain } = ground;
        Ok(Verified {
            manifest,
            checkpoint,
            key,
            chain,
            entries,
            artifacts,
            missing_artifacts: missing_artifacts.unwrap_or_default(),
        })
    }

    fn check_manifest(&self, key: &PublicKey) -> Result<Manifest, Flaw> {
        let flaw = |problem| Place::Manifest.is(problem);
        let envelope = self.manifest.as_ref().ok_or_else(|| flaw(Problem::Form))?;
        if !envelope.is_signed_by(key) {
            return Err(flaw(Problem::Signature));
        }
        let statement = Statement::parse(&envelope.payload);
        let statement = statement.ok_or_else(|| flaw(Problem::Statement))?;
        let manifest = serde_json::from_str(&statement.predicate).ok();
        let manifest = manifest.filter(|_| statement.predicate_type == MANIFEST_TYPE);
        let manifest = manifest.ok_or_else(|| flaw(Problem::Statement))?;
        self.compare(&statement.subject)?;
        Ok(manifest)
    }

    /// Compares the content with the list, one by one.
    fn compare(&self, listed: &[Subject]) -> Result<(), Flaw> {
        let here = self.subjects();
        let longer = here.len().max(listed.len());
        match (0..longer).find(|at| here.get(*at) != listed.get(*at)) {
            None => Ok(()),
            Some(at) => {
                let is_missing = here.len() < listed.len()
                    && listed.get(at).is_some_and(|named| !here.contains(named));
                let problem = if is_missing { Problem::LeftOut } else { Problem::Unlisted };
                let subject = listed.get(at).or(here.get(at));
                Err(subject.map_or(Place::Manifest, place).is(problem))
            }
        }
    }

    fn check_artifacts(&self) -> Result<Option<usize>, Flaw> {
        let Some(artifacts) = &self.artifacts else { return Ok(None) };
        let payloads: Vec<_> = self.entries.iter().map(|item| &item.envelope.payload).collect();
        let mut seen = BTreeSet::new();
        for Artifact { digest, bytes } in artifacts {
            let flaw = |problem| Err(Place::Artifact(*digest).is(problem));
            if Digest::of(bytes) != *digest {
                return flaw(Problem::Bytes);
            }
            let text = digest.to_string();
            if !payloads.iter().any(|payload| payload.contains(&text)) || !seen.insert(digest) {
                return flaw(Problem::Foreign);
            }
        }
        Ok(Some(artifacts.len()))
    }
}

/// The place that a list item names.
fn place(subject: &Subject) -> Place {
    match subject.name.split_once('/') {
        Some((_, index)) => index.parse().map_or(Place::Manifest, Place::Entry),
        None => match encoding::bare_digest(&subject.digest.sha256) {
            Some(digest) if subject.name == "artifact" => Place::Artifact(digest),
            _ => Place::Manifest,
        },
    }
}

fn in_order(items: &[Item]) -> Result<(), Flaw> {
    match items.windows(2).find(|pair| pair[0].index >= pair[1].index) {
        None => Ok(()),
        Some(pair) => Err(Place::Entry(pair[1].index).is(Problem::Order)),
    }
}

impl Item {
    /// Checks the inclusion proof by the checkpoint.
    fn check(&self, checkpoint: &Checkpoint) -> Result<(), Flaw> {
        let Checkpoint { size, root, .. } = checkpoint;
        let leaf = self.envelope.leaf();
        let verified = merkle::verify_inclusion(leaf, self.index, *size, &self.proof, *root);
        verified.map_err(|mismatch| Place::Entry(self.index).is(Problem::Inclusion(mismatch)))
    }

    fn show(&self, ground: &Ground) -> Result<Shown, Flaw> {
        // A copy: a key among the entries adds nothing to the known keys.
        let statement = ground.chain.clone().check(self.index, &self.envelope)?;
        self.check(&ground.checkpoint)?;
        Shown::of(self.index, statement, true)
    }
}

impl Shown {
    pub(crate) fn of(index: u64, statement: Statement, is_signed: bool) -> Result<Self, Flaw> {
        let flaw = || Place::Entry(index).is(Problem::Statement);
        let kind = statement.kind().ok_or_else(flaw)?;
        let about = about(kind, &statement.predicate).ok_or_else(flaw)?;
        Ok(Self { index, kind, about, predicate: statement.predicate, is_signed })
    }

    /// Checks that it belongs to the bundle's selection.
    pub(crate) fn check_belongs(&self, manifest: &Manifest) -> Result<(), Flaw> {
        let is_foreign = match &manifest.selection {
            Selection::Call(call) => self.about.call != Some(*call),
            Selection::Session(_) => self.about.call.is_none(),
        };
        if is_foreign || self.about.tenant.as_ref() != Some(&manifest.tenant) {
            return Err(Place::Entry(self.index).is(Problem::Foreign));
        }
        Ok(())
    }
}

/// Basis of proofs: a verified checkpoint, and the keys of its log.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The key that signed it.
    pub key: PublicKey,
    /// All keys of the log, with the first entry of each.
    pub chain: Chain,
}

impl Ground {
    /// Checks a signed note and the entries that name the keys, from the first of the log. With a
    /// pinned key, only that key's signature counts.
    pub fn of(note: &str, keys: &[Item], pinned: Option<Digest>) -> Result<Self, Flaw> {
        let unreadable = || Place::Checkpoint(0).is(Problem::Form);
        let note = Note::parse(note).ok_or_else(unreadable)?;
        let checkpoint = Checkpoint::of(&note).ok_or_else(unreadable)?;
        let chain = chain(keys, &checkpoint)?;
        let place = || Place::Checkpoint(checkpoint.size);
        if checkpoint.origin != chain.origin() {
            let (expected, found) = (chain.origin().to_owned(), checkpoint.origin.clone());
            return Err(place().is(Problem::Origin { expected, found }));
        }
        chain.check_note(checkpoint.size, &note)?;
        let key = *chain.at(checkpoint.size);
        match pinned.filter(|wanted| *wanted != key.id()) {
            Some(wanted) => Err(place().is(Problem::Unpinned(wanted))),
            None => Ok(Self { checkpoint, key, chain }),
        }
    }

    /// Checks entries: each signed by the key in force, each under the checkpoint.
    pub fn show(&self, entries: &[Item]) -> Result<Vec<Shown>, Flaw> {
        in_order(entries)?;
        entries.iter().map(|item| item.show(self)).collect()
    }
}

fn chain(keys: &[Item], checkpoint: &Checkpoint) -> Result<Chain, Flaw> {
    let missing = || Place::Entry(0).is(Problem::Missing { found: 1 });
    let (first, rest) = keys.split_first().ok_or_else(missing)?;
    if first.index != 0 {
        return Err(missing());
    }
    let mut chain = Chain::begin(&first.envelope)?;
    first.check(checkpoint)?;
    for item in rest {
        let statement = chain.check(item.index, &item.envelope)?;
        if statement.kind() != Some(EntryKind::CheckpointKey) {
            return Err(Place::Entry(item.index).is(Problem::Statement));
        }
        item.check(checkpoint)?;
    }
    in_order(keys)?;
    Ok(chain)
}
