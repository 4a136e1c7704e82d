//! Environment variables of tests, and the handling of missing prerequisites.
#![expect(clippy::disallowed_methods, reason = "this is the one place where tests read them")]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Path of the OPA program.
pub const OPA: &str = "RINGFENCE_OPA";
/// Path of the OpenFGA program.
pub const OPENFGA: &str = "RINGFENCE_OPENFGA";
/// Folder with the jars of Kafka.
pub const KAFKA: &str = "RINGFENCE_KAFKA";
/// Folder of a Python environment with the weights of all-MiniLM-L6-v2.
pub const MINILM: &str = "RINGFENCE_MINILM";
/// Folder of a Python environment with llama.cpp and SmolLM2.
pub const LLAMA: &str = "RINGFENCE_LLAMA";
/// Path of `redis-server`.
pub const REDIS: &str = "RINGFENCE_REDIS_SERVER";
/// Path of the versitygw program.
pub const VERSITYGW: &str = "RINGFENCE_VERSITYGW";
/// File in which tests record their skips.
pub const SKIP_LOG: &str = "RINGFENCE_SKIP_LOG";
/// Set if tests may skip.
pub const ALLOW_SKIP: &str = "RINGFENCE_ALLOW_SKIP";

/// Cache directory for downloads and builds, outside any checkout.
pub fn cache_directory() -> Result<PathBuf> {
    cache_below(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// Path in a variable.
pub(crate) fn path(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Records that a test did not run for want of a prerequisite.
///
/// # Panics
///
/// Unless the run allows skips: a green line must not hide a test that tested nothing.
pub fn skip(test: &str, reason: &str) {
    let may_skip = std::env::var_os(ALLOW_SKIP).is_some();
    assert!(may_skip, "{test}: {reason} (set {ALLOW_SKIP}=1 to skip)");
    if let Some(path) = path(SKIP_LOG) {
        let log = fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(log.expect("the skip log can be opened"), "{test}: {reason}")
            .expect("the skip log can be written");
    }
}

fn cache_below(xdg: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    // The XDG specification says that a relative value must be ignored.
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    xdg.and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
        .map(|base| base.join("ringfence"))
        .context("neither XDG_CACHE_HOME nor HOME is an absolute path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_follows_xdg_then_home_and_ignores_relative_paths() {
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            cache_below(xdg.map(OsString::from), home.map(OsString::from)).ok()
        };
        assert_eq!(cache(Some("/x"), Some("/h")), Some("/x/ringfence".into()));
        assert_eq!(cache(None, Some("/h")), Some("/h/.cache/ringfence".into()));
        assert_eq!(cache(Some("x"), Some("/h")), Some("/h/.cache/ringfence".into()));
        assert_eq!(cache(Some("x"), None), None);
    }
}
