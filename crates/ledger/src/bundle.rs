//! One file that proves what happened: entries, where they stand, what commits to them, which keys
//! signed, and, if asked for, the bytes that they refer to.
//!
//! A proof of inclusion shows that an entry is in the log; it cannot show that none was left out.
//! So the server signs a list of what the file holds, and the file is nothing else.

use std::collections::BTreeSet;

use ringfence_types::{About, CallId, Digest, EntryKind, SessionId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    absent::{Absent, absent},
    chain::Chain,
    checkpoint::Checkpoint,
    encoding,
    entry::about,
    envelope::Envelope,
    flaw::{Flaw, Place, Problem},
    given_again,
    key::PublicKey,
    merkle,
    note::Note,
    statement::{self, Statement, Subject},
};

/// Of every bundle.
const FORMAT: &str = "https://ringfence.dev/bundle/v1";

/// Bytes of a file among which its format stands, however it is written.
const BEGINNING: usize = 200;

/// Of the statement that says what a bundle holds.
const MANIFEST: &str = "https://ringfence.dev/attestation/bundle/v1";

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    format: String,
    /// Says what else is here; none until it is signed.
    pub(crate) manifest: Option<Envelope>,
    /// The signed note.
    checkpoint: String,
    /// The entries that name the keys, from the first of the log.
    keys: Vec<Item>,
    /// The entries.
    entries: Vec<Item>,
    /// The bytes that they refer to; none if nobody asked for them.
    artifacts: Option<Vec<Artifact>>,
}

/// An entry and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Where it stands in the log.
    pub index: u64,
    /// The entry.
    pub envelope: Envelope,
    /// That it stands there, by the checkpoint.
    #[serde(with = "encoding::hashes")]
    pub proof: Vec<Digest>,
}

/// Bytes that an entry refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Their digest.
    pub digest: Digest,
    /// The bytes.
    #[serde(with = "encoding::bytes")]
    pub bytes: Vec<u8>,
}

/// What a bundle is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Everything about a call.
    Call(CallId),
    /// Everything about the calls of a session.
    Session(SessionId),
}

/// What the server says of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// When it was made.
    pub at: Timestamp,
    /// Whose entries it holds.
    pub tenant: TenantId,
    /// Which: all of these that the log had then, and the receipts of earlier calls whose results
    /// they were given.
    pub selection: Selection,
}

/// A bundle that holds.
#[derive(Debug, Clone)]
pub struct Verified {
    /// What the server said of it.
    pub manifest: Manifest,
    /// What commits to it.
    pub checkpoint: Checkpoint,
    /// The key that signed both.
    pub key: PublicKey,
    /// All keys that the log had, with the first entry of each.
    pub chain: Chain,
    /// The entries.
    pub entries: Vec<Shown>,
    /// Bytes that were compared with their digests; none if there are none in it.
    pub artifacts: Option<usize>,
    /// What receipts name and a file with bytes does not hold: masked by policy, or left out.
    pub absent: Vec<Absent>,
}

/// An entry that holds.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Where it stands.
    pub index: u64,
    /// What it tells of.
    pub kind: EntryKind,
    /// Whom and what it concerns.
    pub about: About,
    /// The text of its predicate.
    pub predicate: String,
    /// Whether it has a signature of its own; without one it is the checkpoint's word.
    pub is_signed: bool,
}

impl Manifest {
    pub(crate) fn statement(&self, bundle: &Bundle) -> String {
        statement::write(&bundle.subjects(), MANIFEST, self)
    }
}

impl Bundle {
    /// Not signed yet: see [`crate::Signer::bundle`].
    pub fn new(
        checkpoint: String,
        keys: Vec<Item>,
        entries: Vec<Item>,
        artifacts: Option<Vec<Artifact>>,
    ) -> Self {
        let format = FORMAT.to_owned();
        Self { format, manifest: None, checkpoint, keys, entries, artifacts }
    }

    /// The file's one form: a line of JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("plain data with text keys") + "\n"
    }

    /// What is in a file, in whatever text it is written.
    fn parse(text: &[u8]) -> Result<Self, Problem> {
        let beginning = &text[..text.len().min(BEGINNING)];
        let is_ours = beginning.windows(FORMAT.len()).any(|part| part == FORMAT.as_bytes());
        match serde_json::from_slice::<Self>(text) {
            Ok(bundle) if bundle.format == FORMAT => Ok(bundle),
            Err(error) if is_ours && error.is_eof() => Err(Problem::Cut(text.len())),
            _ if is_ours => Err(Problem::Form),
            _ => Err(Problem::NotOurs),
        }
    }

    /// Everything in it by digest, in order.
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

    /// Reads and checks a file. With a key, only what that key signed counts.
    pub fn verify(text: &[u8], pinned: Option<Digest>) -> Result<Verified, Flaw> {
        let bundle = Self::parse(text).map_err(|problem| Place::File.is(problem))?;
        let verified = bundle.check(pinned)?;
        // Last, so that a forged file is not taken for one that was merely written anew.
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
        let originals = given_again::originals(&bundle.entries, &entries, &manifest)?;
        let own = entries.iter().filter(|entry| !originals.contains(&entry.index));
        own.into_iter().try_for_each(|entry| entry.check_belongs(&manifest))?;
        let artifacts = bundle.check_artifacts()?;
        let absent = bundle.artifacts.as_ref().map(|here| absent(&entries, here));
        let Ground { checkpoint, key, chain } = ground;
        Ok(Verified {
            manifest,
            checkpoint,
            key,
            chain,
            entries,
            artifacts,
            absent: absent.unwrap_or_default(),
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
        let manifest = manifest.filter(|_| statement.predicate_type == MANIFEST);
        let manifest = manifest.ok_or_else(|| flaw(Problem::Statement))?;
        self.compare(&statement.subject)?;
        Ok(manifest)
    }

    /// What is here is what the list names, one by one.
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

/// The place of what a list names.
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
    /// That it stands under the checkpoint.
    fn check(&self, checkpoint: &Checkpoint) -> Result<(), Flaw> {
        let Checkpoint { size, root, .. } = checkpoint;
        let leaf = self.envelope.leaf();
        let verified = merkle::verify_inclusion(leaf, self.index, *size, &self.proof, *root);
        verified.map_err(|mismatch| Place::Entry(self.index).is(Problem::Inclusion(mismatch)))
    }

    fn show(&self, ground: &Ground) -> Result<Shown, Flaw> {
        // A copy, because a key that stands among the entries adds nothing to those that are known.
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

    /// That it is one of those that the bundle is about.
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

/// What proofs stand on: a checkpoint that holds, and the keys of its log.
#[derive(Debug, Clone)]
pub struct Ground {
    /// What commits to everything.
    pub checkpoint: Checkpoint,
    /// The key that signed it.
    pub key: PublicKey,
    /// All keys that the log had, with the first entry of each.
    pub chain: Chain,
}

impl Ground {
    /// Checks a signed note and the entries that name the keys, from the first of the log. With a
    /// key, only what that key signed counts.
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

    /// Checks entries: each signed by the key that was in force, each under the checkpoint.
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
