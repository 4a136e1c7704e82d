//! Keys of the ledger: Ed25519, identified by a digest of the public key.

use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ringfence_types::Digest;
use serde::{Deserialize, Serialize};

use crate::encoding::{base64, from_base64, from_hex, hex};

/// Text or bytes that are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 key")]
pub struct InvalidKey;

/// Public key. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Public key from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Id of the key: the digest of its description in canonical JSON, as in securesystemslib.
    pub fn id(&self) -> Digest {
        let public = hex(&self.0);
        let described = format!(
            r#"{{"keytype":"ed25519","keyval":{{"public":"{public}"}},"scheme":"ed25519"}}"#
        );
        Digest::of(described.as_bytes())
    }

    /// Whether the signature over the message is by this key.
    pub fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }

    /// PEM for other tools: `SubjectPublicKeyInfo`.
    pub fn pem(&self) -> String {
        pem("PUBLIC KEY", &[&PUBLIC_KEY_DER[..], &self.0].concat())
    }

    /// Parses PEM, or hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let text = text.trim();
        if let Some(bytes) = from_hex(text) {
            return Ok(Self(bytes));
        }
        from_pem("PUBLIC KEY", &PUBLIC_KEY_DER, text).map(Self).ok_or(InvalidKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        from_hex(&text).map(Self).ok_or(InvalidKey)
    }
}

/// Private key. Its bytes are only available as the content of its file.
pub struct SigningKey {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Private key from 32 random bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
        Self { seed, pair }
    }

    /// Parses the output of [`SigningKey::pem`]; OpenSSL reads it as well.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        from_pem("PRIVATE KEY", &PRIVATE_KEY_DER, text.trim())
            .map(Self::from_seed)
            .ok_or(InvalidKey)
    }

    /// Content of its file: PKCS#8 in PEM.
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &[&PRIVATE_KEY_DER[..], &self.seed].concat())
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        let bytes = self.pair.public_key().as_ref().try_into();
        PublicKey(bytes.expect("a public key of Ed25519 has 32 bytes"))
    }

    /// Signature over a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let signature = self.pair.sign(message);
        signature.as_ref().try_into().expect("a signature of Ed25519 has 64 bytes")
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// DER bytes in front of a private key (RFC 8410, section 7).
const PRIVATE_KEY_DER: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// DER bytes in front of a public key (RFC 8410, section 4).
const PUBLIC_KEY_DER: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(der))
}

fn from_pem(label: &str, prefix: &[u8], text: &str) -> Option<[u8; 32]> {
    let body = text.strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let body = body.strip_suffix(&format!("-----END {label}-----"))?;
    from_base64(body.trim())?.strip_prefix(prefix)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, test 2.
    const SEED: &str = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
    const OPEN: &str = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    const SIGNED: &str = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                          085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

    #[test]
    fn signatures_are_those_of_the_rfc() {
        let key = SigningKey::from_seed(from_hex(SEED).unwrap());
        assert_eq!(key.public().to_string(), OPEN);
        let signature: [u8; 64] = from_hex(SIGNED).unwrap();
        assert_eq!(key.sign(&[0x72]), signature);
        assert!(key.public().has_signed(&[0x72], &signature));
        assert!(!key.public().has_signed(&[0x73], &signature));
    }

    #[test]
    fn a_key_reads_what_it_writes_and_hides_itself() {
        let key = SigningKey::from_seed([7; 32]);
        let again = SigningKey::parse(&key.pem()).unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(PublicKey::parse(&key.public().pem()), Ok(key.public()));
        assert_eq!(PublicKey::parse(&format!("{}\n", key.public())), Ok(key.public()));
        assert_eq!(format!("{key:?}"), "***");
        for bad in ["", "x", &key.pem()[1..], &key.public().pem(), &key.pem().replace('B', "b")] {
            assert!(SigningKey::parse(bad).is_err(), "{bad}");
        }
    }
}
