//! Directories of tools: an index of manifests and OpenAPI documents with their digests.
//!
//! An index is written by others. It is bounded, every problem is named, and its paths stay below it. A document
//! counts only if its bytes are those of the digest in the index.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use ringfence_types::Digest;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::Deserialize;

use crate::{
    search,
    text::{message, shown},
};

/// Size limit of an index.
pub const MAX_INDEX_BYTES: usize = 8 << 20;

/// Documents of one index.
const MAX_LISTED: usize = 20_000;

/// Characters of a name, a tag or a path.
const MAX_CHARS: usize = 300;

/// Characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 4_000;

/// Problems reported for one index.
const MAX_PROBLEMS: usize = 50;

/// Kind of a listed document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// Manifest of one tool.
    Manifest,
    /// OpenAPI document.
    Openapi,
}

impl DocumentKind {
    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Openapi => "openapi",
        }
    }
}

/// One document of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDocument {
    /// Name, unique in its index.
    pub name: String,
    /// Description for people and for the search.
    pub description: String,
    /// Tags for the search.
    pub tags: Vec<String>,
    /// Kind of the document.
    pub kind: DocumentKind,
    /// Path below the index.
    pub path: String,
    /// Digest of its bytes.
    pub digest: Digest,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    tools: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    kind: DocumentKind,
    path: String,
    digest: String,
}

/// Reads an index, or names every problem.
pub fn read_index(bytes: &[u8]) -> Result<Vec<ListedDocument>, Vec<String>> {
    if bytes.len() > MAX_INDEX_BYTES {
        return Err(vec![format!("larger than {} MiB", MAX_INDEX_BYTES >> 20)]);
    }
    let read: Result<Index, _> = serde_json::from_slice(bytes);
    let index = read.map_err(|error| vec![message(&error.to_string())])?;
    if index.tools.len() > MAX_LISTED {
        return Err(vec![format!("tools: more than {MAX_LISTED}")]);
    }
    let mut problems = Vec::new();
    let mut names = std::collections::HashSet::new();
    let mut listed = Vec::with_capacity(index.tools.len());
    for (number, written) in index.tools.into_iter().enumerate() {
        match document(written) {
            Ok(document) if names.insert(document.name.clone()) => listed.push(document),
            Ok(document) => {
                problems.push(format!("tools.{number}: repeats `{}`", shown(&document.name)));
            }
            Err(problem) => problems.push(format!("tools.{number}: {problem}")),
        }
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    if problems.is_empty() { Ok(listed) } else { Err(problems) }
}

fn document(written: Written) -> Result<ListedDocument, String> {
    let Written { name, description, tags, kind, path, digest } = written;
    let is_plain = |text: &String| {
        (1..=MAX_CHARS).contains(&text.chars().count()) && !text.contains(char::is_control)
    };
    if !is_plain(&name) || !tags.iter().all(is_plain) || tags.len() > 32 {
        return Err(format!("name, tags: each has 1 to {MAX_CHARS} plain characters"));
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(format!("description: more than {MAX_DESCRIPTION_CHARS} characters"));
    }
    if !is_below(&path) {
        return Err(format!("path: `{}` is not a path below the index", shown(&path)));
    }
    let digest =
        digest.parse().map_err(|_| "digest: must be `sha256:` and 64 digits".to_owned())?;
    Ok(ListedDocument { name, description: message(&description), tags, kind, path, digest })
}

/// Whether a path names a file below its directory, in a folder and in a URL alike.
fn is_below(path: &str) -> bool {
    let is_name = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        !name.is_empty() && !name.starts_with('.') && name.chars().all(fits)
    };
    path.len() <= MAX_CHARS && path.split('/').all(is_name)
}

/// Reads a file below a folder, following no symbolic link, at most so many bytes.
pub fn read_below(folder: &Path, path: &str, most: usize) -> io::Result<Vec<u8>> {
    let directory = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, directory, Mode::empty())?;
    // Without waiting for a writer, if it is a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(&folder, path, flags, Mode::empty(), within)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > most {
        true => Err(io::Error::other(format!("larger than {} KiB", most >> 10))),
        false => Ok(bytes),
    }
}

/// Documents that fit a capability, with their scores: best first, then by name. Words shorter than three
/// characters do not count, and at least half of the others must be found.
pub fn fitting<'a>(
    listed: &'a [ListedDocument],
    capability: &str,
) -> Vec<(u32, &'a ListedDocument)> {
    let words = telling(capability);
    let scored = listed.iter().filter_map(|document| {
        let score = fit(&document.name, &document.tags, &document.description, &words)?;
        Some((score, document))
    });
    let mut found: Vec<_> = scored.collect();
    found.sort_by(|(one, a), (other, b)| {
        other.cmp(one).then_with(|| (&a.name, &a.path).cmp(&(&b.name, &b.path)))
    });
    found
}

/// Score of something for a capability; none if it does not fit.
pub fn fit_of(name: &str, tags: &[String], description: &str, capability: &str) -> Option<u32> {
    fit(name, tags, description, &telling(capability))
}

fn telling(capability: &str) -> Vec<String> {
    let all = search::words(capability);
    let long: Vec<_> = all.iter().filter(|word| word.chars().count() > 2).cloned().collect();
    if long.is_empty() { all } else { long }
}

fn fit(name: &str, tags: &[String], description: &str, words: &[String]) -> Option<u32> {
    let texts = search::Texts::new(name, tags, description);
    let scores: Vec<_> = words.iter().map(|word| texts.score(word)).collect();
    let matched = scores.iter().filter(|score| **score > 0).count();
    (matched > 0 && matched * 2 >= words.len()).then(|| scores.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(tools: &str) -> String {
        format!(r#"{{"tools": [{tools}]}}"#)
    }

    fn one(name: &str, path: &str) -> String {
        format!(
            r#"{{"name": "{name}", "kind": "manifest", "path": "{path}", "digest": "{}"}}"#,
            Digest::of(b"x")
        )
    }

    #[test]
    fn an_index_lists_documents_below_it() {
        let listed = read_index(index(&one("pdf", "tools/pdf.yaml")).as_bytes()).unwrap();
        assert_eq!((listed[0].name.as_str(), listed[0].digest), ("pdf", Digest::of(b"x")));
        for path in [
            "../x",
            "/etc/passwd",
            "a/../../b",
            "a//b",
            "a\\\\b",
            "%2e%2e/x",
            "x?y",
            "http://h/x",
            "",
            ".git/x",
        ] {
            let problems = read_index(index(&one("pdf", path)).as_bytes()).unwrap_err();
            assert!(problems[0].contains("path") || problems[0].contains("escape"), "{problems:?}");
        }
    }

    #[test]
    fn every_problem_of_an_index_is_named() {
        let twice = index(&[one("a", "a"), one("a", "b"), one("", "c")].join(","));
        let problems = read_index(twice.as_bytes()).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("tools.1: repeats"), "{problems:?}");
        let wrong = [b"[]".as_slice(), b"{}", br#"{"tools": [{}]}"#, br#"{"tools": [], "x": 1}"#];
        for text in wrong {
            assert!(read_index(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
        let digest = r#"{"name": "a", "kind": "manifest", "path": "a", "digest": "md5:1"}"#;
        let problems = read_index(index(digest).as_bytes()).unwrap_err();
        assert!(problems[0].contains("digest"), "{problems:?}");
        assert!(read_index(&vec![b' '; MAX_INDEX_BYTES + 1]).is_err());
    }

    #[test]
    fn documents_are_found_by_what_they_can_do_in_one_order() {
        let listed = |name: &str, description: &str| ListedDocument {
            name: name.to_owned(),
            description: description.to_owned(),
            tags: Vec::new(),
            kind: DocumentKind::Manifest,
            path: "x".to_owned(),
            digest: Digest::of(b"x"),
        };
        let all = [
            listed("b_pdf", "Reads PDF files"),
            listed("a_pdf", "Reads PDF files"),
            listed("images", "Converts a picture"),
            listed("weather", "Weather of a place"),
        ];
        let names = |capability: &str| -> Vec<&str> {
            fitting(&all, capability).iter().map(|(_, found)| found.name.as_str()).collect()
        };
        assert_eq!(names("read a pdf"), ["a_pdf", "b_pdf"]);
        assert_eq!(names("the weather of a place"), ["weather"]);
        assert_eq!(names("send a letter by post"), [""; 0]);
        assert_eq!(names(""), [""; 0]);
    }
}
