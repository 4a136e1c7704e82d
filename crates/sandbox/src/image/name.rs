//! Names of images, which are also names of directories.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Error, Problem};
use crate::files::shown;

/// Name of an image, `[a-z0-9][a-z0-9._-]{0,63}`: never hidden, never a path, valid on every file
/// system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName(String);

impl ImageName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let valid = bytes.len() <= 64
            && bytes.first().is_some_and(|first| plain(*first))
            && bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'.' | b'_' | b'-'));
        if valid { Ok(Self(text.into())) } else { Err(Error::new(shown(bytes), Problem::Name)) }
    }
}

impl TryFrom<String> for ImageName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
