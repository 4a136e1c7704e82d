//! Small Debian tree with Python, built once and cached as an archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::provide;
use crate::{host, settings, shell};

const SUITE: &str = "bookworm";
const PACKAGES: &str = "python3-minimal";

/// Archive, from the cache or freshly built in `scratch`.
pub(crate) fn archive(scratch: &Path) -> Result<PathBuf> {
    let cache = settings::cache_directory()?;
    let archive = cache.join(format!("debootstrap-{SUITE}-{PACKAGES}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    if !host::is_root() {
        bail!("making a Debian tree needs root");
    }
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    let tree = scratch.join("tree");
    bootstrap(&tree)?;
    // Renamed when complete: an interrupted run leaves no half archive.
    let partial = archive.with_extension(format!("part-{}", std::process::id()));
    let mut tar = shell::command("tar");
    tar.args(["--one-file-system", "--numeric-owner", "-cf"]).arg(&partial);
    shell::run(tar.arg("-C").arg(&tree).arg("."))?;
    fs::rename(&partial, &archive).context("keep the archive")?;
    fs::remove_dir_all(&tree).context("remove the tree")?;
    Ok(archive)
}

fn bootstrap(tree: &Path) -> Result<()> {
    let debootstrap = provide("debootstrap", "debootstrap")?;
    let mut targets = shell::command("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]);
    let targets = shell::read(targets.arg("Created-By: Packages"))?;
    let mirror = mirror(&targets)
        .with_context(|| format!("the package sources of this host name no `{SUITE}` main"))?;
    println!("making a small Debian tree");
    let mut command = shell::command(debootstrap);
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
    shell::run(command.arg(tree).arg(mirror).stdout(std::process::Stdio::null()))
}

/// First source of the suite's main component, as apt lists them.
fn mirror(targets: &str) -> Option<&str> {
    targets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [site, release, component] = fields[..] else { return None };
        (release == SUITE && component == "main").then_some(site)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_apt_uses_for_the_suite() {
        let targets = "http://a/security/ bookworm-security main\nhttp://b/debian/ bookworm main\n";
        assert_eq!(mirror(targets), Some("http://b/debian/"));
        assert_eq!(mirror("http://a/ trixie main\n"), None);
    }
}
