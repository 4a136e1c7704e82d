//! Who signs the ledger.

use ringfence_types::{Digest, Sealed};

use crate::{
    Bundle,
    bundle::Manifest,
    checkpoint::{Checkpoint, is_origin},
    entry::Entry,
    envelope::{Envelope, MOST, preimage, render},
    key::{PublicKey, SigningKey},
    merkle,
    note::Note,
};

/// An entry that is too long for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry has {bytes} bytes; the log takes {MOST}")]
pub struct TooLarge {
    /// Bytes of its envelope.
    pub bytes: usize,
}

/// The key in force and the name of the log.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    public: PublicKey,
    id: Digest,
    /// Of `id`, because every call writes it.
    id_text: String,
    origin: String,
}

impl Signer {
    /// Signs with this key, for the log of this name; none if that is no name.
    pub fn new(key: SigningKey, origin: String) -> Option<Self> {
        let public = key.public();
        let id = public.id();
        is_origin(&origin).then(|| Self { key, public, id, id_text: id.hex(), origin })
    }

    /// The name of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The public half of the key.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The id of the key.
    pub const fn id(&self) -> Digest {
        self.id
    }

    /// Signs an entry.
    pub fn seal(&self, entry: Entry) -> Result<Sealed, TooLarge> {
        let Entry { kind, about, payload } = entry;
        let signature = self.key.sign(&preimage(&payload));
        let envelope = render(&payload, &self.id_text, &signature);
        if envelope.len() > MOST {
            return Err(TooLarge { bytes: envelope.len() });
        }
        let leaf = merkle::leaf(envelope.as_bytes());
        Ok(Sealed { kind, about, payload, signature, signer: self.id, leaf })
    }

    /// Signs what the log commits to.
    pub fn checkpoint(&self, size: u64, root: Digest) -> Note {
        Checkpoint { origin: self.origin.clone(), size, root }.sign(&self.key)
    }

    /// Signs that a bundle is whole.
    pub fn bundle(&self, manifest: &Manifest, mut bundle: Bundle) -> Bundle {
        let payload = manifest.statement(&bundle);
        let signature = self.key.sign(&preimage(&payload));
        bundle.manifest = Some(Envelope { payload, signer: self.id, signature });
        bundle
    }
}
