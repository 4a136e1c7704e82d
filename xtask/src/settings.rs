//! Every environment variable that the chores read, and every one they set for tests.
//!
//! | variable | direction | meaning |
//! |---|---|---|
//! | `CI` | read | `true`: a missing prerequisite is a failure instead of a counted skip |
//! | `XDG_CACHE_HOME`, `HOME` | read | where downloaded kernels are kept (`…/ringfence`) |
//! | `PATH` | read | where programs are looked for after the system directories |
//! | `CARGO`, `CARGO_TARGET_DIR` | read | which cargo to call, where it builds |
//! | [`BINARY`] | set for tests | absolute path of the built `ringfence` binary |
//! | [`SKIP_LOG`] | set for tests | file to which a skipped test appends one line: `name: reason` |
//! | [`ALLOW_SKIP`] | set for tests | `1` if a test may skip for want of a prerequisite; absent under CI |
//!
//! A test that lacks what it needs must fail unless [`ALLOW_SKIP`] is set; then it appends its
//! line to [`SKIP_LOG`] and returns. That way no green line hides a test that tested nothing.
#![expect(clippy::disallowed_methods, reason = "this is the one place where xtask reads them")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Tells tests where the binary under test is.
pub const BINARY: &str = "RINGFENCE_BIN";
/// Tells tests where to record that they skipped.
pub const SKIP_LOG: &str = "RINGFENCE_SKIP_LOG";
/// Tells tests that they may skip.
pub const ALLOW_SKIP: &str = "RINGFENCE_ALLOW_SKIP";

/// Whether a missing prerequisite is a failure.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Whether this test run lets a test skip for want of a prerequisite.
pub fn may_skip() -> bool {
    std::env::var_os(ALLOW_SKIP).is_some()
}

/// Where a skipped test leaves its line.
pub fn skip_log() -> Option<PathBuf> {
    std::env::var_os(SKIP_LOG).map(PathBuf::from)
}

/// The directory for things worth keeping between runs, outside any checkout.
pub fn cache_directory() -> Result<PathBuf> {
    cache_below(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// `PATH`, or nothing.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// The cargo that runs us, or the one on `PATH`.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The root of the checkout that this xtask was built from.
pub fn workspace_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(PathBuf::new, Path::to_path_buf)
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
