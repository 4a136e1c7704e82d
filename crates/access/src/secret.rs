//! The secret of a key. It exists in memory once, on its way to the client that asked for it.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ringfence_types::Digest;

/// Every secret begins like this, so that scanners for leaked secrets can find it.
pub const SECRET_PREFIX: &str = "rf_";

/// Length of every secret: the prefix and 32 random bytes in base64url.
pub const SECRET_LENGTH: usize = 46;

/// Characters of a secret that are kept to recognise it: too few to guess the rest.
const SHOWN_LENGTH: usize = 9;

/// A secret. It shows itself only when asked by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new one of 256 random bits.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{SECRET_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text to send as `Authorization: Bearer`.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether these bytes have the form of a secret; others need not be looked up.
    pub fn is_well_formed(secret: &[u8]) -> bool {
        secret.len() == SECRET_LENGTH && secret.starts_with(SECRET_PREFIX.as_bytes())
    }

    /// The beginning that is kept with the key.
    pub(crate) fn prefix(&self) -> &str {
        &self.0[..SHOWN_LENGTH]
    }

    /// Digest that is kept instead of the secret.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_256_random_bits_and_hides_itself() {
        let one = Secret::new().unwrap();
        assert!(Secret::is_well_formed(one.reveal().as_bytes()));
        assert_ne!(one, Secret::new().unwrap());
        assert_eq!(format!("{one:?}"), "***");
    }

    #[test]
    fn other_text_does_not_have_the_form_of_a_secret() {
        let long = format!("{SECRET_PREFIX}{}", "A".repeat(SECRET_LENGTH));
        let other_prefix = format!("xx_{}", "A".repeat(SECRET_LENGTH - 3));
        for text in ["", "rf_", "rf_short", &long, &other_prefix] {
            assert!(!Secret::is_well_formed(text.as_bytes()), "{text}");
        }
    }
}
