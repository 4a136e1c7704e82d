//! Masking of secrets in what a server sends back.
//!
//! Every occurrence is overwritten with `*` in the same length, so lengths that were announced stay
//! true. A stream may split a secret over any number of parts: bytes that may be the beginning of one
//! are held back until the next part decides.

use std::sync::Arc;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

/// Secrets shorter than this are not masked in their encoded forms, which would match by chance.
const MIN_ENCODED_BYTES: usize = 6;

/// Texts to be masked: secrets as they are, and in the encodings that servers echo them in.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    needles: Arc<[Vec<u8>]>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Mask({})", self.needles.len())
    }
}

impl Mask {
    /// Mask of these values. Empty ones are ignored.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let mut forms = vec![value.as_bytes().to_vec()];
            if value.len() >= MIN_ENCODED_BYTES {
                forms.push(percent_encoded(value));
                forms.push(json_escaped(value));
                forms.push(STANDARD_NO_PAD.encode(value).into_bytes());
                forms.push(URL_SAFE_NO_PAD.encode(value).into_bytes());
            }
            needles.extend(forms.into_iter().filter(|form| !form.is_empty()));
        }
        needles.sort_unstable();
        needles.dedup();
        Self { needles: needles.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// A whole text, masked.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Bytes {
        let mut stream = self.stream();
        let mut masked = stream.feed(Bytes::copy_from_slice(bytes)).to_vec();
        masked.extend_from_slice(&stream.finish());
        masked.into()
    }

    /// A text that was cut, masked; its end may be a part of a secret.
    pub(crate) fn cut(&self, bytes: &[u8]) -> Bytes {
        let mut masked = self.stream().feed(Bytes::copy_from_slice(bytes)).to_vec();
        masked.resize(bytes.len(), b'*');
        masked.into()
    }

    /// Masks the values of headers.
    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        for value in headers.values_mut() {
            let masked = self.whole(value.as_bytes());
            if masked != value.as_bytes() {
                // An asterisk is valid in every header.
                *value = HeaderValue::from_bytes(&masked)
                    .unwrap_or_else(|_| HeaderValue::from_static("***"));
            }
        }
    }

    /// Masks a stream from its beginning.
    pub(crate) fn stream(&self) -> MaskedStream {
        MaskedStream { mask: self.clone(), held: Vec::new(), covered: 0 }
    }

    /// Ranges of `bytes` to be masked; they may overlap.
    fn found(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for needle in self.needles.iter() {
            let starts = bytes.windows(needle.len()).enumerate();
            let hits = starts.filter(|(_, window)| window == needle);
            found.extend(hits.map(|(start, _)| (start, start + needle.len())));
        }
        found
    }

    /// Length of the longest end of `bytes` that may be the beginning of a needle.
    fn undecided(&self, bytes: &[u8]) -> usize {
        let longest = self.needles.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
        let may_begin = |length: &usize| {
            let end = &bytes[bytes.len() - length..];
            self.needles.iter().any(|needle| needle.len() > *length && needle.starts_with(end))
        };
        (1..=longest.min(bytes.len())).rev().find(may_begin).unwrap_or(0)
    }
}

/// State of one masked stream.
#[derive(Debug)]
pub(crate) struct MaskedStream {
    mask: Mask,
    /// Bytes as they came that may begin a secret.
    held: Vec<u8>,
    /// Bytes of `held` that belong to a secret whose beginning was passed on.
    covered: usize,
}

impl MaskedStream {
    /// The next part, as far as it is decided.
    pub(crate) fn feed(&mut self, part: Bytes) -> Bytes {
        if self.mask.is_empty() {
            return part;
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(&part);
        let undecided = self.mask.undecided(&bytes);
        self.pass(bytes, undecided)
    }

    /// The rest, at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.held);
        self.pass(bytes, 0)
    }

    fn pass(&mut self, mut bytes: Vec<u8>, undecided: usize) -> Bytes {
        let ready = bytes.len() - undecided;
        let mut found = self.mask.found(&bytes);
        found.push((0, self.covered));
        self.held = bytes[ready..].to_vec();
        self.covered = 0;
        for (start, end) in found {
            // One that begins in the undecided part is found again with the next part.
            if start < ready || start == 0 {
                self.covered = self.covered.max(end.saturating_sub(ready));
                bytes[start..end].fill(b'*');
            }
        }
        bytes.truncate(ready);
        bytes.into()
    }
}

/// Bytes of the value that a query may carry as they are.
fn percent_encoded(value: &str) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let mut encoded = Vec::new();
    for byte in value.bytes() {
        match plain(&byte) {
            true => encoded.push(byte),
            false => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    encoded
}

fn json_escaped(value: &str) -> Vec<u8> {
    value.replace('\\', "\\\\").replace('"', "\\\"").into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_parts(mask: &Mask, parts: &[&[u8]]) -> Vec<u8> {
        let mut stream = mask.stream();
        let mut masked = Vec::new();
        for part in parts {
            masked.extend_from_slice(&stream.feed(Bytes::copy_from_slice(part)));
        }
        masked.extend_from_slice(&stream.finish());
        masked
    }

    #[test]
    fn a_secret_is_masked_wherever_a_stream_splits_it() {
        let mask = Mask::new(["s3cret-value"]);
        let text = b"before s3cret-value and s3cret-valu, s3cret-values";
        let expected = b"before ************ and s3cret-valu, ************s";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let parts = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(in_parts(&mask, &parts), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn encoded_forms_and_overlapping_secrets_are_masked() {
        let mask = Mask::new(["pass word/1", "word/1-more"]);
        let base64 = STANDARD_NO_PAD.encode("pass word/1");
        for text in ["pass%20word%2F1", &base64, "pass word/1-more"] {
            let masked = mask.whole(text.as_bytes());
            assert_eq!(masked, "*".repeat(text.len()), "{text}");
        }
        assert_eq!(Mask::new([""]).whole(b"as it is"), "as it is");
    }

    #[test]
    fn a_text_without_secrets_is_not_held_back() {
        let mask = Mask::new(["s3cret-value"]);
        let mut stream = mask.stream();
        assert_eq!(stream.feed("data: hello\n\n".into()), "data: hello\n\n");
        assert_eq!(stream.feed("data: s3".into()), "data: ");
        assert_eq!(stream.feed(" end".into()), "s3 end");
    }

    proptest! {
        #[test]
        fn parts_are_masked_like_the_whole(
            text in "[ab]{0,40}", needles in proptest::collection::vec("[ab]{1,5}", 1..4),
            cuts in proptest::collection::vec(0_usize..40, 0..6),
        ) {
            let mask = Mask::new(needles.iter().map(String::as_str));
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut start = 0;
            let mut parts = Vec::new();
            for cut in cuts {
                parts.push(&bytes[start..cut]);
                start = cut;
            }
            let masked = in_parts(&mask, &parts);
            let mut expected = bytes.to_vec();
            for (start, end) in mask.found(bytes) {
                expected[start..end].fill(b'*');
            }
            prop_assert_eq!(masked, expected);
        }
    }
}
