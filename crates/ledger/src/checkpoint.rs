//! Checkpoints of C2SP `tlog-checkpoint`: which log, how many entries, and the root over them.

use ringfence_types::Digest;

use crate::{
    encoding::{base64, from_base64},
    key::{PublicKey, SigningKey},
    note::{self, Note},
};

/// What the log commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log: the name it has for everybody.
    pub origin: String,
    /// Entries under it.
    pub size: u64,
    /// Of the tree with these entries.
    pub root: Digest,
}

impl Checkpoint {
    /// As a note that the key has signed.
    pub fn sign(&self, key: &SigningKey) -> Note {
        Note::sign(self.text(), &self.origin, key)
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, base64(self.root.as_bytes()))
    }

    /// What a note says, whoever signed it. Lines beyond the three are not ours.
    pub fn of(note: &Note) -> Option<Self> {
        let mut lines = note.text.lines();
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let root: [u8; 32] = from_base64(root)?.try_into().ok()?;
        let root = Digest::from_bytes(root);
        let checkpoint = Self { origin: origin.to_owned(), size: size.parse().ok()?, root };
        (is_origin(origin) && checkpoint.text() == note.text).then_some(checkpoint)
    }

    /// The key as tools that read checkpoints of this log take it.
    pub fn verifier(origin: &str, key: &PublicKey) -> String {
        note::verifier(origin, key)
    }
}

/// Whether it can be the name of a log: it is also the name of who signs, so no spaces and no plus.
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
