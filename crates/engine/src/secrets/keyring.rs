//! Keys that encrypt secrets at rest.
//!
//! AES-256-GCM with a random nonce per row. Tenant and name are authenticated with the value, so a row
//! that is copied to another tenant or name does not open.

use std::{fmt, io};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ringfence_types::{Digest, SecretName, SecretText, TenantId};
use zeroize::Zeroizing;

/// Length of a key.
const KEY_BYTES: usize = 32;

/// Key that encrypts secrets.
#[derive(Clone)]
pub struct SecretKey {
    id: String,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SecretKey({})", self.id)
    }
}

/// Text that is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key for secrets is 32 bytes in base64")]
pub struct InvalidSecretKey;

/// Where the keys are kept. The first is in force; the others still open older rows.
pub trait SecretKeys: fmt::Debug + Send + Sync {
    /// All keys; none if there was never one.
    fn load(&self) -> io::Result<Vec<SecretKey>>;

    /// Keeps these instead. Fails where the server may not choose them, as with keys from the
    /// environment.
    fn replace(&self, keys: &[SecretKey]) -> io::Result<()>;

    /// Whether this server may make the first key. Servers that share a database are given one.
    fn makes_first(&self) -> bool;
}

/// Encrypted value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SealedValue {
    pub(super) key: String,
    pub(super) bytes: Vec<u8>,
}

impl SecretKey {
    /// A new key of 256 random bits.
    pub fn random() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).map_err(io::Error::other)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Reads one key, in base64.
    pub fn parse(text: &str) -> Result<Self, InvalidSecretKey> {
        let decoded = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| InvalidSecretKey)?);
        let bytes: [u8; KEY_BYTES] = decoded.as_slice().try_into().map_err(|_| InvalidSecretKey)?;
        Ok(Self::from_bytes(Zeroizing::new(bytes)))
    }

    /// Reads keys that are separated by white space or commas, the one in force first.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, InvalidSecretKey> {
        let parts = text.split(|c: char| c.is_whitespace() || c == ',');
        parts.filter(|part| !part.is_empty()).map(Self::parse).collect()
    }

    /// The key in base64, for the file that keeps it.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.bytes.as_slice()))
    }

    /// Identifier of the key, which does not reveal it.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn from_bytes(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let id = Digest::of(bytes.as_slice()).hex()[..16].to_owned();
        Self { id, bytes }
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, self.bytes.as_slice());
        LessSafeKey::new(key.expect("the length is that of the algorithm"))
    }

    pub(super) fn seal(
        &self,
        tenant: &TenantId,
        name: &SecretName,
        value: &SecretText,
    ) -> io::Result<SealedValue> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let mut sealed = value.reveal().as_bytes().to_vec();
        let about = Aad::from(associated(tenant, name));
        let unique = Nonce::assume_unique_for_key(nonce);
        let done = self.cipher().seal_in_place_append_tag(unique, about, &mut sealed);
        done.map_err(|_| io::Error::other("the value cannot be encrypted"))?;
        let bytes = [nonce.as_slice(), &sealed].concat();
        Ok(SealedValue { key: self.id.clone(), bytes })
    }

    /// The value; none if the row was changed, or is of another key, tenant or name.
    pub(super) fn open(
        &self,
        tenant: &TenantId,
        name: &SecretName,
        sealed: &[u8],
    ) -> Option<SecretText> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = Zeroizing::new(rest.to_vec());
        let about = Aad::from(associated(tenant, name));
        let unique = Nonce::assume_unique_for_key(*nonce);
        let opened = self.cipher().open_in_place(unique, about, &mut rest).ok()?;
        str::from_utf8(opened).ok().map(|text| SecretText::new(text.to_owned()))
    }
}

/// Associated data of a row. Neither part can contain the separator.
fn associated(tenant: &TenantId, name: &SecretName) -> Vec<u8> {
    format!("ringfence secret v1\0{tenant}\0{name}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_for_its_key_tenant_and_name_only() {
        let (key, other) = (SecretKey::random().unwrap(), SecretKey::random().unwrap());
        let (tenant, name): (TenantId, SecretName) =
            ("acme".parse().unwrap(), "token".parse().unwrap());
        let value = SecretText::new("s3cret".to_owned());
        let sealed = key.seal(&tenant, &name, &value).unwrap();
        let again = key.seal(&tenant, &name, &value).unwrap();
        assert_ne!(sealed.bytes, again.bytes, "every row has a nonce of its own");
        assert!(!sealed.bytes.windows(6).any(|part| part == b"s3cret"));
        let open = |key: &SecretKey, tenant: &str, name: &str, bytes: &[u8]| {
            let opened = key.open(&tenant.parse().unwrap(), &name.parse().unwrap(), bytes);
            opened.map(|value| value.reveal().to_owned())
        };
        assert_eq!(open(&key, "acme", "token", &sealed.bytes).as_deref(), Some("s3cret"));
        assert_eq!(open(&other, "acme", "token", &sealed.bytes), None);
        assert_eq!(open(&key, "acme", "token2", &sealed.bytes), None);
        assert_eq!(open(&key, "acm", "token", &sealed.bytes), None);
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.bytes.clone();
            changed[at] ^= 1;
            assert_eq!(open(&key, "acme", "token", &changed), None, "byte {at}");
        }
        assert_eq!(open(&key, "acme", "token", &sealed.bytes[..5]), None);
    }

    #[test]
    fn keys_are_read_back_and_others_are_refused() {
        let keys = [SecretKey::random().unwrap(), SecretKey::random().unwrap()];
        let text = format!("{}\n{}\n", *keys[0].text(), *keys[1].text());
        let read = SecretKey::parse_all(&text).unwrap();
        assert_eq!(
            read.iter().map(SecretKey::id).collect::<Vec<_>>(),
            [keys[0].id(), keys[1].id()]
        );
        assert_eq!(SecretKey::parse_all("").unwrap().len(), 0);
        for bad in ["abc", "AAAA", "not base64!"] {
            assert_eq!(SecretKey::parse_all(bad).map(|_| ()), Err(InvalidSecretKey));
        }
        assert!(!format!("{:?}", keys[0]).contains(keys[0].text().as_str()));
    }
}
