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
//! | [`OPA`], [`OPENFGA`] | set for tests | absolute paths of the programs of these servers |
//!
//! A test that lacks what it needs must fail unless [`ALLOW_SKIP`] is set; then it appends its
//! line to [`SKIP_LOG`] and returns. That way no green line hides a test that tested nothing.
#![expect(clippy::disallowed_methods, reason = "this is the one place where xtask reads them")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use ringfence_testkit::settings::{ALLOW_SKIP, OPA, OPENFGA, SKIP_LOG, cache_directory, skip};

/// Variable with the path of the binary under test.
pub const BINARY: &str = "RINGFENCE_BIN";

/// Whether a missing prerequisite is a failure.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// `PATH`, or an empty string.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// The cargo that started this process, or the one on `PATH`.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Root of the checkout that this xtask was built from.
pub fn workspace_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
