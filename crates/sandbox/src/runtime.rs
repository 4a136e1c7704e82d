//! Digest of the host's runtime, which changes when its interpreters, their libraries or this
//! binary are replaced.
//!
//! Only dates and sizes of files and of their folders are read: installing, upgrading or removing a
//! package changes those. A library that is edited in place is not noticed.

use std::{
    fs::{Metadata, read_dir, symlink_metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
    time::{Duration, Instant},
};

use ringfence_jail::base_environment;
use ringfence_types::Digest;

use crate::native::lock;

/// Time for which a digest is cached.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Directories of libraries; these and the folders in them are checked.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/nodejs"];

/// Folders of packages below a Python's own folder.
const PACKAGES: [&str; 3] = ["dist-packages", "site-packages", "lib-dynload"];

/// Files that change with shared libraries or with programs behind names such as `node`.
const ETC: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];

/// Runtime of this host at the start and now.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// Our own binary, which contains the drivers.
    exe: PathBuf,
    first: OnceLock<Digest>,
    seen: Mutex<Option<(Instant, Digest)>>,
}

impl Runtime {
    pub(crate) fn new(exe: &Path) -> Self {
        Self { exe: exe.to_owned(), first: OnceLock::new(), seen: Mutex::default() }
    }

    /// Current digest; `None` if it differs from the first one.
    pub(crate) fn unchanged(&self) -> Option<Digest> {
        let now = self.digest();
        (*self.first.get_or_init(|| now) == now).then_some(now)
    }

    fn digest(&self) -> Digest {
        let mut seen = lock(&self.seen);
        match *seen {
            Some((at, digest)) if at.elapsed() < CACHE_TIME => digest,
            _ => {
                let digest = of(&paths(), &self.exe);
                *seen = Some((Instant::now(), digest));
                digest
            }
        }
    }
}

/// Paths that change with the runtime.
fn paths() -> Vec<PathBuf> {
    let environment = base_environment();
    let path = environment.iter().find(|(name, _)| *name == "PATH").map_or("", |(_, path)| path);
    let mut paths: Vec<PathBuf> = path.split(':').chain(ETC).map(PathBuf::from).collect();
    for folder in LIBRARIES.map(PathBuf::from) {
        paths.extend(inside(&folder));
        paths.push(folder);
    }
    paths
}

/// Folders in a folder, and the package folders in these.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<_> = folders.map(|entry| entry.path()).collect();
    found.sort();
    let packages = |folder: &PathBuf| PACKAGES.map(|name| folder.join(name));
    let packages: Vec<_> = found.iter().flat_map(packages).collect();
    found.extend(packages);
    found
}

/// Digest of the dates and sizes of these paths and of the binary, which may be named by a link.
fn of(paths: &[PathBuf], exe: &Path) -> Digest {
    let mut text = String::from(env!("CARGO_PKG_VERSION"));
    text += &line(exe, std::fs::metadata(exe).ok());
    for path in paths {
        text += &line(path, symlink_metadata(path).ok());
    }
    Digest::of(text.as_bytes())
}

fn line(path: &Path, metadata: Option<Metadata>) -> String {
    let Some(of) = metadata else { return String::new() };
    let dates = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
    format!("\n{path:?} {} {dates:?}", of.size())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_package_that_comes_or_goes_is_another_runtime_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let packages = dir.path().join("python3.11/dist-packages");
        fs::create_dir_all(packages.join("numpy-1.dist-info")).unwrap();
        let exe = dir.path().join("exe");
        fs::write(&exe, "one").unwrap();
        let now = || of(&inside(dir.path()), &exe);
        let before = now();
        assert_eq!(now(), before);
        fs::rename(packages.join("numpy-1.dist-info"), packages.join("numpy-2.dist-info")).unwrap();
        let upgraded = now();
        assert_ne!(upgraded, before);
        fs::write(&exe, "another").unwrap();
        assert_ne!(now(), upgraded);
    }

    #[test]
    fn a_runtime_that_changed_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("exe");
        fs::write(&exe, "one").unwrap();
        let runtime = Runtime::new(&exe);
        let first = runtime.unchanged();
        assert!(first.is_some());
        assert_eq!(runtime.unchanged(), first);
        fs::write(&exe, "another").unwrap();
        *lock(&runtime.seen) = None;
        assert_eq!(runtime.unchanged(), None);
    }

    #[test]
    fn this_host_s_interpreter_folder_is_looked_at() {
        let paths = paths();
        assert!(paths.contains(&PathBuf::from("/usr/bin")), "{paths:?}");
        assert!(paths.iter().any(|path| path.ends_with("dist-packages")), "{paths:?}");
    }
}
