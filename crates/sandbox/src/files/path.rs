//! Paths inside a sandbox, parsed once from bytes.
//!
//! Invariant: a [`BoxPath`] is relative, has no empty, `.` or `..` component and no NUL, and fits
//! the kernel's limits. Accepted names are kept byte for byte: a newline, a leading `-`, invalid
//! UTF-8 and right-to-left marks are legal, so only [`fmt::Display`] escapes them.

use std::fmt;

/// Path of the workspace inside the sandbox; absolute paths are only accepted beneath it.
pub const WORKSPACE: &str = "/workspace";

/// Longest path: `PATH_MAX` less the terminating NUL.
pub const MAX_PATH: usize = 4095;

/// Longest name: `NAME_MAX`.
pub const MAX_NAME: usize = 255;

/// A path beneath the workspace; the empty one is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoxPath {
    /// Components joined by single slashes.
    bytes: Vec<u8>,
}

impl BoxPath {
    /// The workspace itself.
    pub const fn root() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Parses a client's path: relative, or absolute beneath [`WORKSPACE`].
    pub fn parse(raw: impl AsRef<[u8]>) -> Result<Self, InvalidPath> {
        let raw = raw.as_ref();
        let Some(inside) = raw.strip_prefix(WORKSPACE.as_bytes()) else {
            return Self::relative(raw);
        };
        match inside {
            b"" | b"/" => Ok(Self::root()),
            [b'/', rest @ ..] => Self::relative(rest),
            _ => Self::relative(raw),
        }
    }

    /// Parses a name that must be relative, such as that of an archive entry.
    pub fn relative(raw: &[u8]) -> Result<Self, InvalidPath> {
        match broken_rule(raw) {
            None => Ok(Self { bytes: raw.to_vec() }),
            Some(rule) => Err(InvalidPath { rule, shown: shown(raw) }),
        }
    }

    /// The bytes, without a leading slash; empty for the workspace itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether this is the workspace itself.
    pub fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The components from the top.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// Number of components.
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// Parent directory and name; `None` for the workspace itself.
    pub fn split(&self) -> Option<(BoxPath, &[u8])> {
        if self.is_root() {
            return None;
        }
        let slash = self.bytes.iter().rposition(|byte| *byte == b'/');
        let parent = self.bytes[..slash.unwrap_or(0)].to_vec();
        Some((Self { bytes: parent }, &self.bytes[slash.map_or(0, |at| at + 1)..]))
    }

    /// This path with one more component.
    pub fn join(&self, name: &[u8]) -> Result<Self, InvalidPath> {
        if self.is_root() {
            return Self::relative(name);
        }
        Self::relative(&[&self.bytes, b"/".as_slice(), name].concat())
    }

    /// Whether `other` is this path or lies beneath it.
    pub fn contains(&self, other: &BoxPath) -> bool {
        match other.bytes.strip_prefix(self.bytes.as_slice()) {
            Some(rest) => self.is_root() || rest.is_empty() || rest[0] == b'/',
            None => false,
        }
    }

    /// Bytes for the kernel, which takes `.` for the directory itself.
    pub(crate) fn for_kernel(&self) -> &[u8] {
        if self.is_root() { b"." } else { &self.bytes }
    }
}

impl fmt::Display for BoxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str(WORKSPACE) } else { escape(&self.bytes, f) }
    }
}

/// Refused path, with the rule it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path `{shown}` {}", self.rule.text())]
pub struct InvalidPath {
    /// The rule it breaks.
    pub rule: PathRule,
    /// The beginning of the path, escaped for display.
    pub shown: String,
}

impl InvalidPath {
    /// A stable name of the rule for clients.
    pub fn code(&self) -> &'static str {
        self.rule.code()
    }
}

/// Rules for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRule {
    /// The path is empty.
    Empty,
    /// The path is longer than [`MAX_PATH`].
    TooLong,
    /// A component is longer than [`MAX_NAME`].
    NameTooLong,
    /// The path has a NUL byte.
    Nul,
    /// The path is absolute and not beneath [`WORKSPACE`].
    Absolute,
    /// The path has a `..` component.
    Parent,
    /// The path has a `.` component.
    Dot,
    /// The path has an empty component: a double or a trailing slash.
    EmptyName,
}

impl PathRule {
    /// A stable name for clients.
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "path_empty",
            Self::TooLong => "path_too_long",
            Self::NameTooLong => "path_name_too_long",
            Self::Nul => "path_nul",
            Self::Absolute => "path_absolute",
            Self::Parent => "path_parent",
            Self::Dot => "path_dot",
            Self::EmptyName => "path_empty_name",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::TooLong => "is longer than 4095 bytes",
            Self::NameTooLong => "has a component longer than 255 bytes",
            Self::Nul => "contains a NUL byte",
            Self::Absolute => "is absolute and not beneath /workspace/",
            Self::Parent => "contains `..`",
            Self::Dot => "contains a `.` component",
            Self::EmptyName => "contains a double or trailing slash",
        }
    }
}

fn broken_rule(raw: &[u8]) -> Option<PathRule> {
    match raw {
        [] => return Some(PathRule::Empty),
        [b'/', ..] => return Some(PathRule::Absolute),
        _ if raw.len() > MAX_PATH => return Some(PathRule::TooLong),
        _ if raw.contains(&0) => return Some(PathRule::Nul),
        _ => {}
    }
    raw.split(|byte| *byte == b'/').find_map(|name| match name {
        b"" => Some(PathRule::EmptyName),
        b"." => Some(PathRule::Dot),
        b".." => Some(PathRule::Parent),
        _ if name.len() > MAX_NAME => Some(PathRule::NameTooLong),
        _ => None,
    })
}

/// Beginning of a refused path, enough to recognise it; the path may be megabytes long.
pub(crate) fn shown(raw: &[u8]) -> String {
    struct Escaped<'a>(&'a [u8]);
    impl fmt::Display for Escaped<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            escape(self.0, f)
        }
    }
    let start = &raw[..raw.len().min(120)];
    let dots = if start.len() < raw.len() { "…" } else { "" };
    format!("{}{dots}", Escaped(start))
}

fn escape(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '`' => f.write_str("\\`")?,
                _ if misleads(letter) => write!(f, "{}", letter.escape_unicode())?,
                _ => fmt::Write::write_char(f, letter)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Whether a character is a control character or reorders or hides the text around it.
fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061c}' | '\u{00ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
