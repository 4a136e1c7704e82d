//! Envelopes of DSSE v1: a payload, its type, who signed it.

use ringfence_types::{Digest, Sealed};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    encoding::{bare_digest, base64, from_base64, push_base64},
    key::PublicKey,
    merkle,
};

/// Of every payload.
const TYPE: &str = "application/vnd.in-toto+json";

/// Most bytes of an envelope: entries in tiles have lengths of two bytes.
pub const MOST: usize = u16::MAX as usize;

/// A signed payload, written in one form: no space, keys in this order, one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The statement.
    pub payload: String,
    /// The id of the key that signed.
    pub signer: Digest,
    /// By that key.
    pub signature: [u8; 64],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: [Signature; 1],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: String,
    sig: String,
}

impl Envelope {
    /// The envelope of an entry that has its signature.
    pub fn of(sealed: &Sealed) -> Option<Self> {
        let Sealed { payload, signer, signature, .. } = sealed;
        Some(Self { payload: payload.clone(), signer: *signer, signature: (*signature)? })
    }

    /// Its text.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(length(&self.payload));
        text.push_str(r#"{"payload":""#);
        push_base64(self.payload.as_bytes(), &mut text);
        text.push_str(r#"","payloadType":""#);
        text.push_str(TYPE);
        text.push_str(r#"","signatures":[{"keyid":""#);
        text.push_str(&self.signer.hex());
        text.push_str(r#"","sig":""#);
        push_base64(&self.signature, &mut text);
        text.push_str(r#""}]}"#);
        text
    }

    /// Reads what [`Envelope::render`] writes, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let envelope: Self = serde_json::from_str(text).ok()?;
        (envelope.render() == text).then_some(envelope)
    }

    /// Its hash as a leaf of the log.
    pub fn leaf(&self) -> Digest {
        leaf(&self.payload)
    }

    /// Whether the key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.signer == key.id() && key.has_signed(&preimage(&self.payload), &self.signature)
    }
}

/// How long the text of an envelope with such a payload is.
pub(crate) fn length(payload: &str) -> usize {
    // Without the payload: a key id of 64 digits and a signature of 88 characters among the rest.
    const REST: usize = 68 + TYPE.len() + 64 + 88;
    payload.len().div_ceil(3) * 4 + REST
}

/// The hash of a statement as a leaf of the log: of the bytes that are signed, and not of the
/// signature. So a log can commit to a statement before it is signed, and a signature that comes
/// later changes nothing; Ed25519 gives the same one whenever it is made.
pub fn leaf(payload: &str) -> Digest {
    merkle::leaf_of_parts(&[head(TYPE, payload).as_bytes(), payload.as_bytes()])
}

/// What is signed: DSSE's pre-authentication encoding.
pub(crate) fn preimage(payload: &str) -> Vec<u8> {
    encoded(TYPE, payload)
}

fn encoded(kind: &str, payload: &str) -> Vec<u8> {
    [head(kind, payload).as_bytes(), payload.as_bytes()].concat()
}

fn head(kind: &str, payload: &str) -> String {
    format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len())
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (payload, sig) = (base64(self.payload.as_bytes()), base64(&self.signature));
        let signatures = [Signature { keyid: self.signer.hex(), sig }];
        Wire { payload, payload_type: TYPE.to_owned(), signatures }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(from)?;
        wire.read().ok_or_else(|| D::Error::custom("not an envelope of a statement"))
    }
}

impl Wire {
    fn read(self) -> Option<Envelope> {
        let [Signature { keyid, sig }] = self.signatures;
        let payload = String::from_utf8(from_base64(&self.payload)?).ok()?;
        let signature = from_base64(&sig)?.try_into().ok()?;
        let signer = bare_digest(&keyid)?;
        (self.payload_type == TYPE).then_some(Envelope { payload, signer, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_that_of_the_specification() {
        let encoded = encoded("http://example.com/HelloWorld", "hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn a_leaf_is_of_what_is_signed() {
        assert_eq!(leaf("{}"), merkle::leaf(&preimage("{}")));
    }

    #[test]
    fn an_envelope_has_one_form() {
        let envelope =
            Envelope { payload: "{}".into(), signer: Digest::of(b"k"), signature: [9; 64] };
        let text = envelope.render();
        assert_eq!(length(&envelope.payload), text.len());
        assert_eq!(serde_json::to_string(&envelope).unwrap(), text);
        assert_eq!(Envelope::parse(&text), Some(envelope));
        for bad in [
            format!("{text} "),
            text.replace(":[", ": ["),
            text.replace("e30=", "e30"),
            text.replace("in-toto+json", "in-toto+xml"),
            text.replace("\"}]}", "\"},{}]}"),
            text.replace("keyid", "KeyId"),
        ] {
            assert_ne!(bad, text);
            assert_eq!(Envelope::parse(&bad), None, "{bad}");
        }
    }
}
