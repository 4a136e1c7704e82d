//! Redaction of values before they are stored or shown.
//!
//! Digests stay those of the true values: with the value one can prove that it is the one.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

use crate::Json;

/// Text in place of a masked value.
pub const REDACTED: &str = "[redacted]";
/// Pointers in one answer.
const MAX_POINTERS: usize = 64;
/// Length limit of a pointer.
const MAX_POINTER_BYTES: usize = 512;

/// Value that a pointer points into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// Arguments of the call.
    Args,
    /// Result of the tool.
    Result,
    /// Standard output, all of it.
    Stdout,
    /// Standard error, all of it, and the error that quotes it.
    Stderr,
}

/// Place, as a JSON Pointer (RFC 6901): `/args/password`, `/result/items/0`, `/result`, `/stdout`,
/// `/stderr`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Pointer {
    root: Root,
    /// Names below the root, unescaped. Not empty below `/args`, whose fields are masked one by one;
    /// empty below the streams.
    names: Vec<String>,
}

/// Invalid pointer, or not to something that can be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a JSON Pointer of at most {MAX_POINTER_BYTES} bytes: /args/…, /result, /result/…, /stdout or /stderr"
)]
pub struct InvalidPointer;

impl FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        let rest = text
            .strip_prefix('/')
            .filter(|_| text.len() <= MAX_POINTER_BYTES)
            .ok_or(InvalidPointer)?;
        let mut names = rest.split('/').map(unescaped);
        let root = match names.next().flatten().as_deref() {
            Some("args") => Root::Args,
            Some("result") => Root::Result,
            Some("stdout") => Root::Stdout,
            Some("stderr") => Root::Stderr,
            _ => return Err(InvalidPointer),
        };
        let names: Vec<String> = names.collect::<Option<_>>().ok_or(InvalidPointer)?;
        let is_fit = match root {
            Root::Args => !names.is_empty(),
            Root::Result => true,
            Root::Stdout | Root::Stderr => names.is_empty(),
        };
        if is_fit { Ok(Self { root, names }) } else { Err(InvalidPointer) }
    }
}

/// Name without the two escapes; `None` if there is another.
fn unescaped(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        name.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(name)
}

impl TryFrom<String> for Pointer {
    type Error = InvalidPointer;

    fn try_from(text: String) -> Result<Self, InvalidPointer> {
        text.parse()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.root {
            Root::Args => "/args",
            Root::Result => "/result",
            Root::Stdout => "/stdout",
            Root::Stderr => "/stderr",
        })?;
        self.names
            .iter()
            .try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Masked places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Pointer>")]
pub struct Redact(
    /// Sorted, without repetition, at most [`MAX_POINTERS`] from outside.
    Vec<Pointer>,
);

impl Redact {
    /// Whether nothing is masked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pointers in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter()
    }

    /// Whether anything below `root` is masked.
    pub fn has(&self, root: Root) -> bool {
        self.0.iter().any(|pointer| pointer.root == root)
    }

    /// `json`, the value of `root`, with all masked places replaced.
    pub fn apply(&self, root: Root, json: &Json) -> Json {
        let within = self.0.iter().filter(|pointer| pointer.root == root);
        let paths: Vec<&[String]> = within.map(|pointer| pointer.names.as_slice()).collect();
        if paths.is_empty() { json.clone() } else { json.masked(&paths, REDACTED) }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self::of([self.0, other.0].concat())
    }

    pub(super) fn of(mut pointers: Vec<Pointer>) -> Self {
        pointers.sort();
        pointers.dedup();
        Self(pointers)
    }
}

impl TryFrom<Vec<Pointer>> for Redact {
    type Error = &'static str;

    fn try_from(pointers: Vec<Pointer>) -> Result<Self, Self::Error> {
        if pointers.len() > MAX_POINTERS {
            Err("more than 64 pointers")
        } else {
            Ok(Self::of(pointers))
        }
    }
}
