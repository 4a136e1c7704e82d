//! Files that a program left in its workspace, as artifacts of its call.

use std::sync::Arc;

use ringfence_sandbox::{
    InputFile,
    files::{BoxPath, Entry, Kind, ListOptions, Workspace},
};
use ringfence_types::{ArtifactId, CallFile, CallFiles, Digest, TenantId, media_type_of};
use uuid::Uuid;

use crate::engine::Inner;

/// Limits on artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Files of one call that are stored.
    pub files_per_call: usize,
    /// Bytes of all stored files of one call.
    pub bytes_per_call: u64,
    /// Bytes of all versions of all artifacts of a tenant.
    pub bytes_per_tenant: u64,
    /// Time for which bytes stay after nothing refers to them any more.
    pub grace: std::time::Duration,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self {
            files_per_call: 64,
            bytes_per_call: 32 << 20,
            bytes_per_tenant: 10 << 30,
            grace: std::time::Duration::from_secs(3_600),
        }
    }
}

/// Most patterns of a call or a tool.
pub(crate) const MAX_PATTERNS: usize = 16;
/// Bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 100;
/// Bytes of the path of a file that is stored.
const MAX_PATH_BYTES: usize = 512;
/// Names that a search of the workspace visits.
const MAX_VISITED: usize = 1_024;
/// Depth of a search.
const MAX_DEPTH: usize = 16;
/// Folders of tools that write for themselves.
const SKIPPED: [&[u8]; 2] = [b"__pycache__", b"node_modules"];

/// Whether a text is a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    (1..=MAX_PATTERN_BYTES).contains(&text.len()) && !text.contains('\0') && !text.starts_with('/')
}

/// Whether a path fits a pattern: `?` is one character, `*` any within a name, `**` any at all. Names that
/// begin with a dot fit only a pattern that says so.
fn fits(pattern: &str, path: &[u8]) -> bool {
    let is_hidden = path.starts_with(b".") || path.windows(2).any(|pair| pair == b"/.");
    let says_so = pattern.starts_with('.') || pattern.contains("/.");
    if is_hidden && !says_so {
        return false;
    }
    pattern == "**" || matches(pattern.as_bytes(), path)
}

/// Dynamic programming over both texts: the time is bounded by their product.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    // `reached[n]`: whether the pattern so far fits the first `n` bytes.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((first, after)) = rest.split_first() {
        let mut next = vec![false; path.len() + 1];
        if let Some(after) = rest.strip_prefix(b"**/") {
            // Also no folder at all.
            let mut any = false;
            for n in 0..=path.len() {
                any |= reached[n];
                next[n] = reached[n] || any && n > 0 && path[n - 1] == b'/';
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix(b"**") {
            let mut any = false;
            for n in 0..=path.len() {
                any |= reached[n];
                next[n] = any;
            }
            rest = after;
        } else if *first == b'*' {
            let mut any = false;
            for n in 0..=path.len() {
                if n > 0 && path[n - 1] == b'/' {
                    any = false;
                }
                any |= reached[n];
                next[n] = any;
            }
            rest = after;
        } else {
            for n in 0..path.len() {
                let fits = if *first == b'?' { path[n] != b'/' } else { path[n] == *first };
                next[n + 1] = reached[n] && fits;
            }
            rest = after;
        }
        reached = next;
    }
    reached[path.len()]
}

/// Files that are looked for in a workspace.
#[derive(Debug)]
pub(crate) struct Search {
    /// Patterns; none if nothing is stored.
    pub(crate) patterns: Vec<String>,
    /// Files that were there before: an unchanged one is not stored.
    pub(crate) before: Vec<InputFile>,
    /// Whether policy has output masked: then no file is stored.
    pub(crate) is_masked: bool,
}

/// Files that were found, with the bytes of those that are stored.
pub(crate) type Found = (CallFiles, Vec<Vec<u8>>);

impl Search {
    /// Looks for files in the workspace of a program that has ended.
    pub(crate) async fn run(
        self,
        inner: &Inner,
        tenant: &TenantId,
        workspace: Option<&Arc<Workspace>>,
    ) -> Found {
        let Some(workspace) = workspace.filter(|_| !self.patterns.is_empty()) else {
            return Found::default();
        };
        if self.before.is_empty() && is_empty(workspace) {
            return Found::default();
        }
        let limits = inner.parts.settings.artifacts;
        let used = match inner.parts.store.artifact_totals(tenant).await {
            Ok(totals) => totals.bytes,
            Err(error) => {
                let error = ringfence_types::error_chain(&error);
                tracing::warn!(error, "the artifacts of a tenant cannot be counted");
                u64::MAX
            }
        };
        let quota = limits.bytes_per_tenant.saturating_sub(used);
        let workspace = workspace.clone();
        let work = move || self.collect(&workspace, limits, quota);
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }

    fn collect(&self, workspace: &Workspace, limits: ArtifactLimits, quota: u64) -> Found {
        let mut found = Found::default();
        let options =
            ListOptions { recursive: true, max_entries: MAX_VISITED, max_depth: MAX_DEPTH };
        let listing = match workspace.list(&BoxPath::root(), options) {
            Ok(listing) => listing,
            Err(refused) => {
                found.0.omit(refused.path.to_string(), "the workspace could not be read");
                return found;
            }
        };
        let (mut call_room, mut quota) = (limits.bytes_per_call, quota);
        for entry in listing.entries.iter().filter(|entry| self.wants(entry)) {
            let path = entry.path.to_string();
            let reason = if self.is_masked {
                Some("policy has the output of the call masked")
            } else if path.len() > MAX_PATH_BYTES {
                Some("its path is too long")
            } else if found.0.stored.len() >= limits.files_per_call {
                Some("the call has left more files than are stored")
            } else if entry.size > call_room {
                Some("the files of the call are larger than is stored of one call")
            } else if entry.size > quota {
                Some("the artifacts of the tenant have reached their quota")
            } else {
                None
            };
            if let Some(reason) = reason {
                found.0.omit(path, reason);
                continue;
            }
            let Some(bytes) = read(workspace, entry) else {
                found.0.omit(path, "it could not be read");
                continue;
            };
            if self.is_unchanged(&entry.path, &bytes) {
                continue;
            }
            let size = bytes.len() as u64;
            (call_room, quota) = (call_room.saturating_sub(size), quota.saturating_sub(size));
            found.0.stored.push(CallFile {
                media_type: media_type_of(&path).to_owned(),
                path,
                artifact: ArtifactId(Uuid::now_v7()),
                digest: Digest::of(&bytes),
                size,
            });
            found.1.push(bytes);
        }
        if let Some(left_out) = listing.left_out {
            let why = "the workspace has more names than are searched";
            found.0.omit(left_out.path.to_string(), why);
        }
        found
    }

    fn wants(&self, entry: &Entry) -> bool {
        let path = entry.path.as_bytes();
        entry.kind == Kind::File
            && !entry.path.components().any(|name| SKIPPED.contains(&name))
            && self.patterns.iter().any(|pattern| fits(pattern, path))
    }

    fn is_unchanged(&self, path: &BoxPath, bytes: &[u8]) -> bool {
        self.before.iter().any(|file| file.path == *path && *file.content == *bytes)
    }
}

/// Whether nothing is in the workspace; most programs leave nothing.
fn is_empty(workspace: &Workspace) -> bool {
    let options = ListOptions { recursive: false, max_entries: 1, max_depth: 0 };
    workspace
        .list(&BoxPath::root(), options)
        .is_ok_and(|listing| listing.entries.is_empty() && listing.left_out.is_none())
}

fn read(workspace: &Workspace, entry: &Entry) -> Option<Vec<u8>> {
    let mut file = workspace.get(&entry.path).ok()?;
    // Nothing runs in the sandbox any more; a size that is another all the same is not trusted.
    if file.size != entry.size {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).ok()?);
    file.copy_to(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_shells_have_it() {
        let cases = [
            ("*.csv", "a.csv", true),
            ("*.csv", "out/a.csv", false),
            ("**/*.csv", "out/deep/a.csv", true),
            ("**/*.csv", "a.csv", true),
            ("out/**", "out/a/b", true),
            ("out/**", "outside/a", false),
            ("**", "a/b/c", true),
            ("**", ".cache/x", false),
            ("**", "a/.x", false),
            (".cache/**", ".cache/x", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("plot.png", "plot.png", true),
            ("plot.png", "plot_png", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(fits(pattern, path.as_bytes()), expected, "{pattern} {path}");
        }
        let stars = "*a".repeat(50);
        assert!(!fits(&stars, "b".repeat(512).as_bytes()), "in bounded time");
    }
}
