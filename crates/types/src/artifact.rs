//! Artifacts: files that calls take in and leave behind.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ArtifactId, Digest};

/// Labels that the server itself puts on artifacts. Tenants add labels of their own.
pub mod label {
    /// Made by a call with network access.
    pub const WEB: &str = "web";
    /// Sent by a client.
    pub const UPLOAD: &str = "upload";
    /// Made by a call that a secret was used for.
    pub const SECRET_DERIVED: &str = "secret-derived";

    /// Longest label, in characters.
    pub const MAX_CHARS: usize = 64;
    /// Most labels of one artifact.
    pub const MAX_COUNT: usize = 32;

    /// Whether a text is a label: lower-case letters, digits, `-`, `_`, `.` and `:`.
    pub fn is_valid(text: &str) -> bool {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.:".contains(&b);
        (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// All labels of both lists, sorted, each once.
    pub fn union(one: &[String], other: &[String]) -> Vec<String> {
        let mut all: Vec<_> = one.iter().chain(other).cloned().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// File that a call left in its workspace, stored as the first version of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFile {
    /// Path in the workspace.
    pub path: String,
    /// Artifact.
    pub artifact: ArtifactId,
    /// Digest of the content.
    pub digest: Digest,
    /// Bytes of the content.
    pub size: u64,
    /// Media type, by the name of the file.
    pub media_type: String,
}

/// Files that a call left in its workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFiles {
    /// Files that were stored as artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<CallFile>,
    /// Files that were not stored: the first of them, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmittedFile>,
    /// Number of files that were not stored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_count: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CallFiles {
    /// Omitted files that are named; the others are counted.
    pub const MAX_NAMED: usize = 16;

    /// Adds a file that is not stored.
    pub fn omit(&mut self, path: String, reason: &str) {
        self.omitted_count += 1;
        if self.omitted.len() < Self::MAX_NAMED {
            self.omitted.push(OmittedFile { path, reason: reason.to_owned() });
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.omitted_count == 0
    }
}

/// File that was not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedFile {
    /// Path in the workspace.
    pub path: String,
    /// Reason in plain words.
    pub reason: String,
}

/// Artifact that a call was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenArtifact {
    /// Path in the workspace; none for standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Artifact.
    pub artifact: ArtifactId,
    /// Version of the artifact.
    pub version: u32,
    /// Digest of the content.
    pub digest: Digest,
}

/// Kind of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// Source text.
    Code,
    /// Text for people.
    Document,
    /// Picture or drawing.
    Design,
    /// Report of an examination.
    Analysis,
    /// Configuration.
    Config,
    /// Anything else.
    Data,
}

/// Invalid kind of artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a kind of artifact: code, document, design, analysis, config or data")]
pub struct UnknownArtifactKind;

impl ArtifactKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Code, Self::Document, Self::Design, Self::Analysis, Self::Config, Self::Data];

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Document => "document",
            Self::Design => "design",
            Self::Analysis => "analysis",
            Self::Config => "config",
            Self::Data => "data",
        }
    }

    /// Kind by the name of a file.
    pub fn of_path(path: &str) -> Self {
        match extension(path).as_str() {
            "py" | "js" | "mjs" | "ts" | "tsx" | "jsx" | "rs" | "go" | "c" | "h" | "cpp"
            | "java" | "rb" | "sh" | "sql" | "rego" | "css" => Self::Code,
            "md" | "txt" | "html" | "htm" | "pdf" | "rst" | "docx" => Self::Document,
            "svg" | "png" | "jpg" | "jpeg" | "gif" | "webp" => Self::Design,
            "toml" | "yaml" | "yml" | "ini" | "conf" | "env" => Self::Config,
            _ => Self::Data,
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ArtifactKind {
    type Err = UnknownArtifactKind;

    fn from_str(text: &str) -> Result<Self, UnknownArtifactKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownArtifactKind)
    }
}

/// Media type by the name of a file; `application/octet-stream` if the name does not say.
pub fn media_type_of(path: &str) -> &'static str {
    match extension(path).as_str() {
        "txt" | "log" | "ini" | "conf" | "rst" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "py" => "text/x-python",
        "rs" | "go" | "c" | "h" | "cpp" | "java" | "rb" | "sh" | "ts" | "tsx" | "jsx" | "sql"
        | "rego" => "text/plain",
        "json" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "parquet" => "application/vnd.apache.parquet",
        _ => "application/octet-stream",
    }
}

/// Extension of the last name of a path, in lower case; empty without one.
fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_ascii_lowercase(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_reads_what_it_writes() {
        for kind in ArtifactKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!("Code".parse::<ArtifactKind>(), Err(UnknownArtifactKind));
    }

    #[test]
    fn media_type_and_kind_follow_the_name() {
        assert_eq!(media_type_of("out/plot.PNG"), "image/png");
        assert_eq!(media_type_of(".png"), "application/octet-stream");
        assert_eq!(media_type_of("a.b/c"), "application/octet-stream");
        assert_eq!(ArtifactKind::of_path("x/main.py"), ArtifactKind::Code);
        assert_eq!(ArtifactKind::of_path("table.csv"), ArtifactKind::Data);
    }

    #[test]
    fn labels_are_short_plain_words() {
        for good in ["web", "secret-derived", "acme:pii", "x.1_2"] {
            assert!(label::is_valid(good), "{good}");
        }
        for bad in ["", "Web", "a b", "ä", &"x".repeat(65)] {
            assert!(!label::is_valid(bad), "{bad}");
        }
        let list = |labels: &[&str]| labels.iter().map(|&l| l.to_owned()).collect::<Vec<_>>();
        assert_eq!(label::union(&list(&["web", "a"]), &list(&["a"])), list(&["a", "web"]));
    }
}
