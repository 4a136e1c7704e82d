//! Signed notes of C2SP `signed-note`: a text, an empty line, lines of signatures.

use ringfence_types::Digest;

use crate::{
    encoding::{base64, from_base64},
    key::{PublicKey, SigningKey},
};

/// A text with signatures. Parsing verifies nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Signed text; ends with a line feed.
    pub text: String,
    signatures: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: String,
    hash: [u8; 4],
    signature: Vec<u8>,
}

/// Algorithm byte of Ed25519.
const ED25519: u8 = 1;

/// Prefix of a signature line: an em dash and a space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// Maximum bytes and signatures of a parsed note.
const MAX_NOTE: (usize, usize) = (64 << 10, 16);

impl Note {
    /// Signs a text under this name.
    pub fn sign(text: String, name: &str, key: &SigningKey) -> Self {
        let signature = key.sign(text.as_bytes()).to_vec();
        let line = Line { name: name.to_owned(), hash: hash(name, &key.public()), signature };
        Self { text, signatures: vec![line] }
    }

    /// Text of the note with its signatures.
    pub fn render(&self) -> String {
        let mut whole = format!("{}\n", self.text);
        for Line { name, hash, signature } in &self.signatures {
            let body = base64(&[&hash[..], signature].concat());
            whole += &format!("{SIGNATURE_PREFIX}{name} {body}\n");
        }
        whole
    }

    /// Parses the output of [`Note::render`]; signatures of other keys may be among the lines.
    pub fn parse(whole: &str) -> Option<Self> {
        let at = whole.rfind("\n\n")? + 1;
        let (text, signatures) = (&whole[..at], whole[at + 1..].strip_suffix('\n')?);
        let lines: Option<Vec<_>> = signatures.split('\n').map(line).collect();
        let note = Self { text: text.to_owned(), signatures: lines? };
        let is_plain = text.chars().all(|c| c == '\n' || !c.is_control());
        let fits = whole.len() <= MAX_NOTE.0 && note.signatures.len() <= MAX_NOTE.1;
        (is_plain && fits && note.render() == whole).then_some(note)
    }

    /// Whether the key has signed it under this name.
    pub fn is_signed_by(&self, name: &str, key: &PublicKey) -> bool {
        let hash = hash(name, key);
        let signed = |line: &Line| match line.signature.as_slice().try_into() {
            Ok(signature) => key.has_signed(self.text.as_bytes(), signature),
            Err(_) => false,
        };
        // By the specification, every signature that claims to be by the key must verify.
        let mut claimed = self.signatures.iter().filter(|l| l.name == name && l.hash == hash);
        claimed.next().is_some_and(signed) && claimed.all(signed)
    }
}

fn line(text: &str) -> Option<Line> {
    let (name, body) = text.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
    let body = from_base64(body)?;
    let (hash, signature) = body.split_first_chunk::<4>()?;
    let is_name = !name.is_empty() && !name.contains(['+', ' ']);
    is_name.then(|| Line { name: name.to_owned(), hash: *hash, signature: signature.to_vec() })
}

/// Key hash: the first bytes of the digest of name and key.
fn hash(name: &str, key: &PublicKey) -> [u8; 4] {
    let whole = [name.as_bytes(), b"\n", &[ED25519], key.as_bytes()].concat();
    let digest = Digest::of(&whole);
    let [one, two, three, four, ..] = *digest.as_bytes();
    [one, two, three, four]
}

/// The key in the form that note verifiers use.
pub(crate) fn verifier(name: &str, key: &PublicKey) -> String {
    let hash = crate::encoding::hex(&hash(name, key));
    format!("{name}+{hash}+{}", base64(&[&[ED25519], &key.as_bytes()[..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of golang.org/x/mod/sumdb/note.
    const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                        then you don't know what your problem is.\n";
    const NAME: &str = "PeterNeumann";
    const SEED: &str = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
    const VERIFIER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const SIGNED: &str = "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuG\
                          UgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

    fn key() -> SigningKey {
        let bytes = from_base64(SEED).unwrap();
        SigningKey::from_seed(bytes[1..].try_into().unwrap())
    }

    #[test]
    fn the_known_note_is_signed_and_read_as_known() {
        let note = Note::sign(TEXT.to_owned(), NAME, &key());
        assert_eq!(note.render(), format!("{TEXT}\n{SIGNED}"));
        assert_eq!(verifier(NAME, &key().public()), VERIFIER);
        assert_eq!(Note::parse(&note.render()), Some(note.clone()));
        assert!(note.is_signed_by(NAME, &key().public()));
        assert!(!note.is_signed_by("Other", &key().public()));
        assert!(!note.is_signed_by(NAME, &SigningKey::from_seed([1; 32]).public()));
    }

    #[test]
    fn other_signatures_may_stand_beside_but_not_instead() {
        let other = SigningKey::from_seed([1; 32]);
        let mut note = Note::sign(TEXT.to_owned(), NAME, &key());
        note.signatures.extend(Note::sign(TEXT.to_owned(), "witness", &other).signatures);
        let read = Note::parse(&note.render()).unwrap();
        assert!(read.is_signed_by(NAME, &key().public()));
        assert!(read.is_signed_by("witness", &other.public()));
        note.signatures.push(note.signatures[0].clone());
        note.signatures[2].signature[0] ^= 1;
        assert!(!note.is_signed_by(NAME, &key().public()), "one of two is false");
    }

    #[test]
    fn what_is_no_note_is_refused() {
        let good = format!("{TEXT}\n{SIGNED}");
        let bad = [
            String::new(),
            TEXT.to_owned(),
            format!("{TEXT}\n"),
            good.trim_end().to_owned(),
            format!("{good}\n"),
            good.replace('\u{2014}', "-"),
            good.replace("x08", "x 8"),
            good.replace("you think", "you\tthink"),
        ];
        for bad in bad {
            assert_eq!(Note::parse(&bad), None, "{bad:?}");
        }
    }
}
