//! Temporary files that are removed on drop.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::settings;

/// One file in the cache directory, removed on drop.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Creates the file. The name contains our process id, so that two runs do not conflict.
    pub(super) fn create(name: &str, bytes: &[u8]) -> Result<Self> {
        let directory = settings::cache_directory()?;
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("create `{}`", directory.display()))?;
        let path = directory.join(format!("{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).with_context(|| format!("write `{}`", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_its_owner() {
        let scratch = Scratch::create("scratch-test", b"x").expect("create");
        let path = scratch.path.clone();
        assert_eq!(std::fs::read(&path).expect("read"), b"x");
        drop(scratch);
        assert!(!path.exists());
    }
}
