//! The texts of one record as compressed bytes: the only place where they are kept.
//!
//! A record says the same things several times: what was asked stands in the request, in the document
//! that policy judged and in the receipt; digests and ids stand in all of them. Each text must read back
//! as exactly the bytes that were hashed or signed, so nothing is derived. Instead all texts of a record
//! are compressed together, against a dictionary that knows their common words, and what stands in one
//! of them costs next to nothing in the others.
//!
//! A dictionary is plain text: records of typical calls without their ids, digests and times. It never
//! changes: rows name it by number, and a better one gets another number.

use std::{cell::RefCell, sync::LazyLock};

use serde::{Deserialize, Serialize};
use zstd::{
    bulk::{Compressor, Decompressor},
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe::CParameter,
};

/// The dictionary that new rows are compressed with.
const DICTIONARY: &[u8] = include_bytes!("packed.txt");

/// Its number, the first byte of each row.
const NUMBER: u8 = 1;

/// zstd's own measure of effort.
const LEVEL: i32 = 3;

/// Bytes of call and decision beyond which they are kept apart, so that readers of facts and entries
/// do not read them.
const LARGE: usize = 32 << 10;

/// Most bytes that a row may unpack to. No request or result comes near it.
const MAX_BYTES: usize = 256 << 20;

/// All texts of one record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts<'a> {
    /// The facts.
    pub facts: &'a str,
    /// The statements of the entries of the ledger, in their order.
    #[serde(borrow)]
    pub entries: Vec<&'a str>,
    /// The rest, unless it is kept apart.
    pub rest: Option<Rest<'a>>,
}

/// The texts of any size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest<'a> {
    /// The decision of policy, and the document that it judged.
    #[serde(borrow)]
    pub decision: Option<(&'a str, &'a str)>,
    /// The part of the call that changes.
    pub now: Option<&'a str>,
    /// The request of the call.
    pub asked: Option<&'a str>,
}

/// The columns of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The texts, without those that are large.
    pub body: Vec<u8>,
    /// The large ones.
    pub large: Option<Vec<u8>>,
}

impl Packed {
    /// Bytes of both columns.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.large.as_ref().map_or(0, Vec::len)
    }
}

/// Bytes of a record that cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// They were packed with a dictionary that this program does not have.
    #[error("unknown dictionary {0:?}")]
    Dictionary(Option<u8>),
    /// They are not what was packed.
    #[error("the compressed bytes are damaged")]
    Compressed(#[source] std::io::Error),
    /// They unpack to something else than texts.
    #[error("the unpacked bytes are not the texts of a record")]
    Texts(#[source] postcard::Error),
}

impl Texts<'_> {
    /// The columns that hold these texts.
    pub fn pack(mut self) -> Result<Packed, Damaged> {
        let length = |text: Option<&str>| text.map_or(0, str::len);
        let rest = self.rest.unwrap_or_default();
        let judged = rest.decision.map_or(0, |(decision, input)| decision.len() + input.len());
        let is_large = length(rest.now) + length(rest.asked) + judged > LARGE;
        let large = match self.rest.take_if(|_| is_large) {
            Some(rest) => Some(compress(&postcard::to_allocvec(&rest).map_err(Damaged::Texts)?)?),
            None => None,
        };
        let body = postcard::to_allocvec(&self).map_err(Damaged::Texts)?;
        Ok(Packed { body: compress(&body)?, large })
    }
}

/// One column of a record, unpacked.
#[derive(Debug)]
pub struct Unpacked(Vec<u8>);

impl Unpacked {
    /// Unpacks a column.
    pub fn of(column: &[u8]) -> Result<Self, Damaged> {
        decompress(column).map(Self)
    }

    /// Texts of the column `body`.
    pub fn texts(&self) -> Result<Texts<'_>, Damaged> {
        postcard::from_bytes(&self.0).map_err(Damaged::Texts)
    }

    /// Texts of the column `large`.
    pub fn rest(&self) -> Result<Rest<'_>, Damaged> {
        postcard::from_bytes(&self.0).map_err(Damaged::Texts)
    }
}

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));

static DECODER: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

// A context is some hundred kilobytes, so each thread makes one and keeps it.
thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compress(bytes: &[u8]) -> Result<Vec<u8>, Damaged> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(compressor().map_err(Damaged::Compressed)?),
        };
        let mut packed = Vec::with_capacity(1 + zstd::zstd_safe::compress_bound(bytes.len()));
        packed.push(NUMBER);
        packed.extend(compressor.compress(bytes).map_err(Damaged::Compressed)?);
        packed.shrink_to_fit();
        Ok(packed)
    })
}

fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::with_prepared_dictionary(&ENCODER)?;
    // The row names the dictionary; the frame need not.
    compressor.set_parameter(CParameter::DictIdFlag(false))?;
    // SQLite has no checksums of its own: damage is to be found, not read.
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

fn decompress(packed: &[u8]) -> Result<Vec<u8>, Damaged> {
    let Some((&NUMBER, frame)) = packed.split_first() else {
        return Err(Damaged::Dictionary(packed.first().copied()));
    };
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(
                Decompressor::with_prepared_dictionary(&DECODER).map_err(Damaged::Compressed)?,
            ),
        };
        let size = Decompressor::upper_bound(frame).unwrap_or(MAX_BYTES).min(MAX_BYTES);
        decompressor.decompress(frame, size).map_err(Damaged::Compressed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Texts<'_> {
        let rest = Rest { decision: Some(("{}", text)), now: Some(text), asked: None };
        Texts { facts: "[]", entries: vec!["{\"a\":1}", text], rest: Some(rest) }
    }

    #[test]
    fn every_text_reads_back_byte_by_byte() {
        for text in ["", "plain", "\u{1f980}\n\u{0}\"", &"long ".repeat(3_000)] {
            let packed = texts(text).pack().unwrap();
            assert_eq!(packed.large, None, "{} bytes", text.len());
            let unpacked = Unpacked::of(&packed.body).unwrap();
            assert_eq!(unpacked.texts().unwrap(), texts(text));
        }
    }

    #[test]
    fn large_texts_are_kept_apart() {
        let text = "x".repeat(LARGE);
        let packed = texts(&text).pack().unwrap();
        let (body, large) = (Unpacked::of(&packed.body).unwrap(), packed.large.unwrap());
        let Texts { facts, entries, rest } = texts(&text);
        assert_eq!(body.texts().unwrap(), Texts { facts, entries, rest: None });
        assert_eq!(Some(Unpacked::of(&large).unwrap().rest().unwrap()), rest);
    }

    #[test]
    fn no_byte_of_a_row_changes_unnoticed() {
        let Packed { body, .. } = texts("what was said").pack().unwrap();
        for at in 0..body.len() {
            let mut damaged = body.clone();
            damaged[at] ^= 1;
            let unpacked = Unpacked::of(&damaged);
            let is_noticed = match &unpacked {
                Err(_) => true,
                Ok(unpacked) => unpacked.texts().is_ok_and(|read| read == texts("what was said")),
            };
            assert!(is_noticed, "byte {at} of {}", body.len());
        }
        assert!(matches!(Unpacked::of(&[]), Err(Damaged::Dictionary(None))));
        assert!(matches!(Unpacked::of(&[9, 9]), Err(Damaged::Dictionary(Some(9)))));
    }

    /// Rows that exist were compressed with exactly these bytes.
    #[test]
    fn the_dictionary_never_changes() {
        let digest = ringfence_types::Digest::of(DICTIONARY).hex();
        let first = "27596a56e180745b8d5a01568aace8bdb28bb40430ca93ef51f65f0232c28ab9";
        assert_eq!(digest, first);
    }
}
