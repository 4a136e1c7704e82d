//! Names and versions of tools from those of a document.

use std::collections::HashSet;

use ringfence_types::{Digest, ToolName};

/// Length limit of a name: what models and MCP clients take.
const MAX_NAME_CHARS: usize = 64;

/// Length limit of the part before the operation.
const MAX_PREFIX_CHARS: usize = 24;

/// Names that are taken within one document, in lower case: names that differ in case alone look alike.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// A free name: by the operation's id, else by method and path.
    pub(super) fn take(
        &mut self,
        prefix: &str,
        id: Option<&str>,
        method: &str,
        path: &str,
    ) -> Result<ToolName, String> {
        let by_path = format!("{method}_{path}");
        for candidate in id.into_iter().chain([by_path.as_str()]) {
            let name = bounded(&format!("{prefix}_{}", slug(candidate)));
            if self.0.insert(name.to_ascii_lowercase()) {
                return name.parse().map_err(|_| "has no usable name".to_owned());
            }
        }
        Err("another operation has the same name".to_owned())
    }
}

/// A name of at most [`MAX_NAME_CHARS`]: a longer one ends with a part of its digest.
fn bounded(name: &str) -> String {
    if name.len() <= MAX_NAME_CHARS {
        return name.to_owned();
    }
    let digest = Digest::of(name.as_bytes()).hex();
    format!("{}_{}", &name[..MAX_NAME_CHARS - 9], &digest[..8])
}

/// Letters, digits and single underscores.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    let out = out.trim_end_matches('_');
    if out.is_empty() { "api".to_owned() } else { out.to_owned() }
}

/// The beginning of the names of a document's tools.
pub(super) fn prefix(title: &str) -> String {
    let slug = slug(title).to_ascii_lowercase();
    let cut = &slug[..slug.len().min(MAX_PREFIX_CHARS)];
    cut.trim_end_matches('_').to_owned()
}

/// A version of three numbers, and a note if the document's own is another.
pub(super) fn version(text: &str) -> (String, Option<String>) {
    let numbers: Vec<String> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .take(3)
        .map(|part| part.trim_start_matches('0').chars().take(9).collect::<String>())
        .map(|part| if part.is_empty() { "0".to_owned() } else { part })
        .collect();
    let mut numbers = numbers;
    numbers.resize(3, "0".to_owned());
    let version = numbers.join(".");
    let note = (version != text)
        .then(|| format!("info.version: `{}` becomes {version}", crate::text::shown(text)));
    (version, note)
}
