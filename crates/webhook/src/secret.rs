//! Secret for signatures of deliveries.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use ring::hmac;

/// Minimum length of a secret, in bytes: half of the hash's output.
const MIN_SECRET_BYTES: usize = 16;

/// Secret shared with the receivers.
#[derive(Clone)]
pub struct Secret(hmac::Key);

/// Invalid secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// Too short.
    #[error("a secret has at least {MIN_SECRET_BYTES} bytes")]
    Short,
    /// Begins with `whsec_` and is not base64.
    #[error("what follows `whsec_` is not base64")]
    Base64,
}

impl Secret {
    /// Reads plain text, or `whsec_` and base64 as in Standard Webhooks.
    pub fn read(text: &str) -> Result<Self, InvalidSecret> {
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| InvalidSecret::Base64)?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(InvalidSecret::Short);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Signature of a delivery, as header value.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
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
    fn a_signature_is_what_standard_webhooks_says() {
        // Example of the specification.
        let secret = Secret::read("whsec_plJ3nmyCDGBKInavdOK15jsl").unwrap();
        let body = br#"{"event_type":"ping","data":{"success":true}}"#;
        let signature = secret.sign("msg_loFOjxBNrRLzqYUf", 1_731_705_121, body);
        assert_eq!(signature, "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=");
    }

    #[test]
    fn what_is_no_secret_is_refused_and_none_is_shown() {
        assert_eq!(Secret::read("short").unwrap_err(), InvalidSecret::Short);
        assert_eq!(Secret::read("whsec_!").unwrap_err(), InvalidSecret::Base64);
        let secret = Secret::read("long enough to be one").unwrap();
        assert_eq!(format!("{secret:?}"), "***");
    }
}
