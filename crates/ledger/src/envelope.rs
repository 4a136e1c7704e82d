//! Envelopes of DSSE v1: a payload, its type, its signer and signature.

use ringfence_types::{Digest, Sealed};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    encoding::{bare_digest, base64, from_base64, push_base64},
    key::PublicKey,
    merkle,
};

/// Payload type of every envelope.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Maximum bytes of an envelope: entries in tiles have lengths of two bytes.
pub const MAX_ENVELOPE_BYTES: usize = u16::MAX as usize;

/// A signed payload, written in one form: no space, keys in this order, one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The statement.
    pub payload: String,
    /// Id of the signing key.
    pub signer: Digest,
    /// Signature by that key.
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
    /// The envelope of a signed entry.
    pub fn of(sealed: &Sealed) -> Option<Self> {
        let Sealed { payload, signer, signature, .. } = sealed;
        Some(Self { payload: payload.clone(), signer: *signer, signature: (*signature)? })
    }

    /// Text of the envelope.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(length(&self.payload));
        text.push_str(r#"{"payload":""#);
        push_base64(self.payload.as_bytes(), &mut text);
        text.push_str(r#"","payloadType":""#);
        text.push_str(PAYLOAD_TYPE);
        text.push_str(r#"","signatures":[{"keyid":""#);
        text.push_str(&self.signer.hex());
        text.push_str(r#"","sig":""#);
        push_base64(&self.signature, &mut text);
        text.push_str(r#""}]}"#);
        text
    }

    /// Parses exactly the output of [`Envelope::render`].
    pub fn parse(text: &str) -> Option<Self> {
        let envelope: Self = serde_json::from_str(text).ok()?;
        (envelope.render() == text).then_some(envelope)
    }

    /// Leaf hash in the log.
    pub fn leaf(&self) -> Digest {
        leaf(&self.payload)
    }

    /// Whether the key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.signer == key.id() && key.has_signed(&preimage(&self.payload), &self.signature)
    }
}

/// Length of the envelope's text for this payload.
pub(crate) fn length(payload: &str) -> usize {
    // Everything but the payload: among it a key id of 64 digits and a signature of 88 characters.
    const OVERHEAD: usize = 68 + PAYLOAD_TYPE.len() + 64 + 88;
    payload.len().div_ceil(3) * 4 + OVERHEAD
}

/// Leaf hash of a statement: over the signed bytes, without the signature. So a log can commit to a
/// statement before it is signed, and a later signature changes nothing; Ed25519 is deterministic.
pub fn leaf(payload: &str) -> Digest {
    merkle::leaf_of_parts(&[head(PAYLOAD_TYPE, payload).as_bytes(), payload.as_bytes()])
}

/// The signed bytes: DSSE's pre-authentication encoding.
pub(crate) fn preimage(payload: &str) -> Vec<u8> {
    encoded(PAYLOAD_TYPE, payload)
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
        Wire { payload, payload_type: PAYLOAD_TYPE.to_owned(), signatures }.serialize(to)
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
        (self.payload_type == PAYLOAD_TYPE).then_some(Envelope { payload, signer, signature })
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
