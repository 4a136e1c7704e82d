//! Statements of in-toto attestation v1: subjects and a predicate.

use ringfence_types::{Digest, EntryKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::encoding::bare_digest;

/// Type of every statement.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// Subject of a statement, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Name of the subject.
    pub name: String,
    /// Digest of the subject.
    pub digest: Sha256,
}

/// Digest under the name of its algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sha256 {
    /// 64 hexadecimal digits.
    pub sha256: String,
}

impl Subject {
    /// A subject with this digest.
    pub fn new(name: impl Into<String>, digest: Digest) -> Self {
        Self { name: name.into(), digest: Sha256 { sha256: digest.hex() } }
    }
}

/// A parsed statement: the right type, at least one subject.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Subjects.
    pub subject: Vec<Subject>,
    /// URI of the predicate's meaning.
    pub predicate_type: String,
    /// The text of the predicate.
    pub predicate: String,
}

#[derive(Serialize)]
struct Written<'a, P> {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: &'a [Subject],
    #[serde(rename = "predicateType")]
    predicate_type: &'a str,
    predicate: &'a P,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read<'a> {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    #[serde(borrow)]
    predicate: &'a RawValue,
}

/// The text of a statement.
pub(crate) fn write(
    subject: &[Subject],
    predicate_type: &str,
    predicate: &impl Serialize,
) -> String {
    let statement = Written { kind: STATEMENT_TYPE, subject, predicate_type, predicate };
    // Capacity for most statements, to avoid reallocation.
    let mut text = Vec::with_capacity(2_048);
    serde_json::to_writer(&mut text, &statement).expect("plain data with text keys");
    String::from_utf8(text).expect("JSON is UTF-8")
}

impl Statement {
    /// Parses the text of a statement.
    pub fn parse(text: &str) -> Option<Self> {
        let Read { kind, subject, predicate_type, predicate } = serde_json::from_str(text).ok()?;
        let is_subject = |subject: &Subject| bare_digest(&subject.digest.sha256).is_some();
        let is_valid =
            kind == STATEMENT_TYPE && !subject.is_empty() && subject.iter().all(is_subject);
        let predicate = predicate.get().to_owned();
        is_valid.then_some(Self { subject, predicate_type, predicate })
    }

    /// Kind of the entry, if it is one of ours.
    pub fn kind(&self) -> Option<EntryKind> {
        kind_of(&self.predicate_type)
    }
}

/// Predicate URI of a kind of entry.
pub const fn predicate_type(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Call => "https://ringfence.dev/attestation/call/v1",
        EntryKind::Decision => "https://ringfence.dev/attestation/decision/v1",
        EntryKind::Approval => "https://ringfence.dev/attestation/approval/v1",
        EntryKind::Resolution => "https://ringfence.dev/attestation/resolution/v1",
        EntryKind::Tool => "https://ringfence.dev/attestation/tool/v1",
        EntryKind::Key => "https://ringfence.dev/attestation/key/v1",
        EntryKind::Secret => "https://ringfence.dev/attestation/secret/v1",
        EntryKind::CheckpointKey => "https://ringfence.dev/attestation/checkpoint-key/v1",
        EntryKind::Maintenance => "https://ringfence.dev/attestation/maintenance/v1",
        EntryKind::Erasure => "https://ringfence.dev/attestation/erasure/v1",
    }
}

/// Kind of entry of a predicate URI.
pub fn kind_of(predicate: &str) -> Option<EntryKind> {
    EntryKind::ALL.into_iter().find(|kind| predicate_type(*kind) == predicate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_reads_what_it_writes() {
        let subject = [Subject::new("result", Digest::of(b"abc"))];
        let text = write(&subject, predicate_type(EntryKind::Call), &serde_json::json!({"a": 1}));
        assert_eq!(
            text,
            "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"result\",\
             \"digest\":{\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\
             \"}}],\"predicateType\":\"https://ringfence.dev/attestation/call/v1\",\
             \"predicate\":{\"a\":1}}"
        );
        let read = Statement::parse(&text).unwrap();
        assert_eq!((read.kind(), read.subject.as_slice()), (Some(EntryKind::Call), &subject[..]));
        assert_eq!(read.predicate, r#"{"a":1}"#);
        for bad in [
            text.replace("Statement/v1", "Statement/v0.1"),
            text.replace("ba78", "BA78"),
            text.replace("\"_type\"", "\"type\""),
            write(&[], "x", &1),
        ] {
            assert!(Statement::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_kind_has_a_uri_of_its_own_that_ends_with_its_name() {
        for kind in EntryKind::ALL {
            assert_eq!(kind_of(predicate_type(kind)), Some(kind));
            assert!(predicate_type(kind).ends_with(&format!("/{}/v1", kind.name())));
        }
    }
}
