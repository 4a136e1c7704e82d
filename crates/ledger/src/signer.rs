//! Signer of the ledger.

use ringfence_types::{Digest, EntryKind, Sealed};

use crate::{
    Bundle,
    bundle::Manifest,
    checkpoint::{Checkpoint, is_origin},
    entry::Entry,
    envelope::{self, Envelope, MAX_ENVELOPE_BYTES, preimage},
    key::{PublicKey, SigningKey},
    merkle::{self, Mismatch},
    note::Note,
};

/// An entry that is too long for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry has {bytes} bytes; the log takes {MAX_ENVELOPE_BYTES}")]
pub struct TooLarge {
    /// Bytes of its envelope.
    pub bytes: usize,
}

/// A checkpoint signed by our own key: only [`Signer::own`] makes one.
#[derive(Debug, Clone)]
pub struct OwnCheckpoint(Checkpoint);

impl OwnCheckpoint {
    /// The checkpoint.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.0
    }
}

/// The key in force and the name of the log.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    public: PublicKey,
    id: Digest,
    origin: String,
}

impl Signer {
    /// A signer with this key for the log of this name; none if the name is invalid.
    pub fn new(key: SigningKey, origin: String) -> Option<Self> {
        let public = key.public();
        let id = public.id();
        let is_name = is_origin(&origin);
        is_name.then_some(Self { key, public, id, origin })
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The public key.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Id of the key.
    pub const fn id(&self) -> Digest {
        self.id
    }

    /// Signs an entry.
    pub fn seal(&self, entry: Entry) -> Result<Sealed, TooLarge> {
        let sealed = self.prepare(entry)?;
        let signature = Some(self.key.sign(&preimage(&sealed.payload)));
        Ok(Sealed { signature, ..sealed })
    }

    /// Prepares an entry for a log whose every commit is under a checkpoint. The end of a call gets
    /// no signature of its own: [`Signer::sign_proved`] makes one when a proof is asked for. The
    /// other kinds are few, and people act by them: they are signed at once.
    pub fn prepare_step(&self, entry: Entry) -> Result<Sealed, TooLarge> {
        match entry.kind {
            EntryKind::Call => self.prepare(entry),
            _ => self.seal(entry),
        }
    }

    fn prepare(&self, entry: Entry) -> Result<Sealed, TooLarge> {
        let Entry { kind, about, payload } = entry;
        let bytes = envelope::length(&payload);
        if bytes > MAX_ENVELOPE_BYTES {
            return Err(TooLarge { bytes });
        }
        let leaf = envelope::leaf(&payload);
        Ok(Sealed { kind, about, payload, signature: None, signer: self.id, leaf })
    }

    /// The checkpoint in a note, if this key has signed it for this log.
    pub fn own(&self, note: &str) -> Option<OwnCheckpoint> {
        let note = Note::parse(note)?;
        let is_ours = note.is_signed_by(&self.origin, &self.public);
        let checkpoint = Checkpoint::of(&note)?;
        (is_ours && checkpoint.origin == self.origin).then_some(OwnCheckpoint(checkpoint))
    }

    /// Signs the stored end of a call. The stored row may have been changed, so only an entry under
    /// a checkpoint of our own is signed.
    pub fn sign_proved(
        &self,
        own: &OwnCheckpoint,
        index: u64,
        payload: &str,
        proof: &[Digest],
    ) -> Result<[u8; 64], Mismatch> {
        let Checkpoint { size, root, .. } = own.0;
        merkle::verify_inclusion(envelope::leaf(payload), index, size, proof, root)?;
        Ok(self.key.sign(&preimage(payload)))
    }

    /// Signs a checkpoint.
    pub fn checkpoint(&self, size: u64, root: Digest) -> Note {
        Checkpoint { origin: self.origin.clone(), size, root }.sign(&self.key)
    }

    /// Signs the manifest of a bundle.
    pub fn bundle(&self, manifest: &Manifest, mut bundle: Bundle) -> Bundle {
        let payload = manifest.statement(&bundle);
        let signature = self.key.sign(&preimage(&payload));
        bundle.manifest = Some(Envelope { payload, signer: self.id, signature });
        bundle
    }
}
