//! Kernel of the test machine: Debian's packaged cloud kernel, downloaded, never installed.
//!
//! Installing it would touch the host's boot loader; unpacking the package into the cache gives
//! the same image without any privilege. The cache outlives checkouts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{settings, shell};

/// The package that depends on the newest cloud kernel of the distribution.
const META_PACKAGE: &str = "linux-image-cloud-amd64";

/// The kernel image, from the cache or freshly downloaded.
pub fn image() -> Result<PathBuf> {
    let cache = settings::cache_directory()?.join("kernel");
    match newest_image(&cache)? {
        Some(image) => Ok(image),
        None => download(&cache),
    }
}

fn download(cache: &Path) -> Result<PathBuf> {
    let package =
        dependency(&shell::read(shell::command("apt-cache").args(["depends", META_PACKAGE]))?)
            .with_context(|| format!("`{META_PACKAGE}` names no kernel; run `apt-get update`"))?;
    println!("downloading {package} into {}", cache.display());
    // A directory of its own per process and a rename at the end: two runs cannot mix.
    let staging = cache.join(format!(".incoming-{}", std::process::id()));
    fs::create_dir_all(&staging).with_context(|| format!("create `{}`", staging.display()))?;
    shell::run(shell::command("apt-get").args(["-q", "download", &package]).current_dir(&staging))?;
    let archive = only_deb(&staging)?;
    shell::run(shell::command("dpkg-deb").arg("-x").arg(&archive).arg(staging.join("unpacked")))?;
    let unpacked = cache.join(&package);
    let renamed = fs::rename(staging.join("unpacked"), &unpacked);
    fs::remove_dir_all(&staging).with_context(|| format!("remove `{}`", staging.display()))?;
    // A rename onto a filled directory fails when another run was faster; its result is the same.
    match newest_image(cache)? {
        Some(image) => Ok(image),
        None => {
            renamed.with_context(|| format!("keep `{}`", unpacked.display()))?;
            bail!("`{package}` holds no boot/vmlinuz-*")
        }
    }
}

fn newest_image(cache: &Path) -> Result<Option<PathBuf>> {
    let mut images = Vec::new();
    for package in entries(cache)? {
        let boot = package.join("boot");
        let is_image = |path: &PathBuf| file_name(path).starts_with("vmlinuz-");
        images.extend(entries(&boot)?.into_iter().filter(is_image));
    }
    Ok(images.into_iter().max())
}

fn only_deb(directory: &Path) -> Result<PathBuf> {
    entries(directory)?
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package behind")
}

/// Entries of a directory; none if it does not exist yet. Hidden entries are unfinished downloads.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let read = fs::read_dir(directory)
        .with_context(|| format!("read directory `{}`", directory.display()))?;
    let paths = read.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| !file_name(path).starts_with('.')).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn dependency(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_package_names_the_real_one() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-54-cloud-amd64\n";
        assert_eq!(dependency(text).as_deref(), Some("linux-image-6.1.0-54-cloud-amd64"));
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn an_unfinished_download_is_not_a_kernel() {
        let cache = tempfile::tempdir().expect("temp dir");
        let put = |package: &str| {
            let boot = cache.path().join(package).join("boot");
            fs::create_dir_all(&boot).expect("create");
            fs::write(boot.join("vmlinuz-6.1.0"), "").expect("write");
        };
        assert_eq!(newest_image(&cache.path().join("absent")).expect("read"), None);
        put(".incoming-7");
        assert_eq!(newest_image(cache.path()).expect("read"), None);
        put("linux-image-6.1.0");
        let expected = cache.path().join("linux-image-6.1.0/boot/vmlinuz-6.1.0");
        assert_eq!(newest_image(cache.path()).expect("read"), Some(expected));
    }
}
