//! Public id of a session.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Session id: 128 random bits in hexadecimal. Text of any other shape is never looked up.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(
    /// 32 lower-case hexadecimal digits.
    String,
);

/// Error for text that is not a session id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session id has 32 lower-case hexadecimal digits")]
pub struct InvalidId;

impl SessionId {
    pub(super) fn random() -> Result<Self, std::io::Error> {
        let mut bytes = [0_u8; 16];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if filled != bytes.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 32 && text.bytes().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidId),
        }
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_and_two_differ() {
        let (one, other) =
            (SessionId::random().expect("random"), SessionId::random().expect("random"));
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
    }

    #[test]
    fn other_text_is_no_id() {
        let almost = "0123456789abcdef0123456789abcde";
        let long = format!("{almost}ff");
        let upper = "0123456789ABCDEF0123456789ABCDEF";
        for text in ["", "../other", "a%2f..%2fb", almost, &long, upper] {
            assert_eq!(text.parse::<SessionId>(), Err(InvalidId), "{text}");
        }
    }
}
