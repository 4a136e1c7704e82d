//! Checkpoints of C2SP `tlog-checkpoint`: name of the log, number of entries, root.

use ringfence_types::Digest;

use crate::{
    encoding::{base64, from_base64},
    key::{PublicKey, SigningKey},
    note::{self, Note},
};

/// Checkpoint: the commitment of a log to its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// Number of entries under it.
    pub size: u64,
    /// Root of the tree with these entries.
    pub root: Digest,
}

impl Checkpoint {
    /// The checkpoint as a note signed by the key.
    pub fn sign(&self, key: &SigningKey) -> Note {
        Note::sign(self.text(), &self.origin, key)
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, base64(self.root.as_bytes()))
    }

    /// The checkpoint in a note; signatures are not checked. Lines beyond the first three are
    /// ignored.
    pub fn of(note: &Note) -> Option<Self> {
        let mut lines = note.text.lines();
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let root: [u8; 32] = from_base64(root)?.try_into().ok()?;
        let root = Digest::from_bytes(root);
        let checkpoint = Self { origin: origin.to_owned(), size: size.parse().ok()?, root };
        (is_origin(origin) && checkpoint.text() == note.text).then_some(checkpoint)
    }

    /// The key in the form that verifiers of checkpoints use.
    pub fn verifier(origin: &str, key: &PublicKey) -> String {
        note::verifier(origin, key)
    }
}

/// Whether the text is a valid name of a log: it is also the name of the signer, so no spaces and
/// no plus.
pub(crate) fn is_origin(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && c != '+';
    (1..=200).contains(&text.len()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_what_it_writes_and_nothing_else() {
        let key = SigningKey::from_seed([3; 32]);
        let root = Digest::of(b"root");
        let checkpoint = Checkpoint { origin: "ringfence/test".into(), size: 20, root };
        let note = checkpoint.sign(&key);
        assert_eq!(Checkpoint::of(&note), Some(checkpoint));
        let text = &note.text;
        for bad in [
            text.replace("20\n", "020\n"),
            text.replace("20\n", "+20\n"),
            text.replace("ringfence/test", "ring fence"),
            format!("{text}more\n"),
            text.replace("=\n", "\n"),
        ] {
            assert_ne!(bad, *text);
            assert_eq!(Checkpoint::of(&Note::sign(bad.clone(), "x", &key)), None, "{bad}");
        }
    }
}
