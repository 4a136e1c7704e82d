//! Directory that is removed when dropped.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Temporary directory with a short path, because a socket's path may have 107 bytes.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
}

impl Directory {
    /// New directory; its name has the process id, so that two runs do not collide.
    pub(super) fn create(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("ringfence-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(problem) = fs::remove_dir_all(&self.path) {
            eprintln!("left behind: `{}`: {problem}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_goes_with_its_owner() {
        let directory = Directory::create("scratch-test").expect("create");
        let path = directory.path.clone();
        fs::write(path.join("file"), b"x").expect("write");
        drop(directory);
        assert!(!path.exists());
    }
}
