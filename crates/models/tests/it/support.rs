//! Weights for tests.

use std::path::PathBuf;

use ringfence_models::Library;

/// Library with all-MiniLM-L6-v2, or a recorded skip.
pub(crate) fn library(test: &str) -> Option<Library> {
    ringfence_testkit::minilm(test).map(Library::new)
}

/// File of this crate's test data.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
