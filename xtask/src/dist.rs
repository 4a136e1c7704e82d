//! `cargo xtask dist`: a tarball, a Debian package and their checksums in `target/dist`.
//!
//! Made with the programs that every Debian has (`tar`, `dpkg-deb`, `sha256sum`). Times are those of the last
//! commit and owners are root, so the same commit and compiler give the same bytes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{settings, shell};

/// Architecture as Debian names it.
const ARCHITECTURE: &str = "amd64";
/// Place of the unit in the repository.
const UNIT: &str = "deploy/systemd/ringfence.service";
/// Program of the unit when it was installed by hand, and by the package.
const LOCAL_PROGRAM: &str = "/usr/local/bin/ringfence";
const PACKAGED_PROGRAM: &str = "/usr/bin/ringfence";

/// Builds the binary and packs it.
pub fn run() -> Result<()> {
    let root = settings::workspace_root();
    shell::run(shell::command("cargo").current_dir(&root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "ringfence",
    ]))?;
    let time =
        shell::read(shell::command("git").current_dir(&root).args(["log", "-1", "--format=%ct"]))?;
    let target = root.join("target");
    let binary = target.join("release/ringfence");
    for made in pack(&root, &binary, &target.join("dist"), time.trim())? {
        println!("{}", made.display());
    }
    Ok(())
}

/// Packs a binary; the files that were made. `time` is that of all files in them, in seconds since 1970.
pub fn pack(root: &Path, binary: &Path, out: &Path, time: &str) -> Result<Vec<PathBuf>> {
    let version = env!("CARGO_PKG_VERSION");
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("empty `{}`", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("make `{}`", out.display()))?;
    let tarball = tarball(root, binary, out, version, time)?;
    let package = package(root, binary, out, version, time)?;
    let sums = out.join("SHA256SUMS");
    let names = [&tarball, &package].map(|path| path.file_name().unwrap_or_default());
    let text = shell::read(shell::command("sha256sum").current_dir(out).args(names))?;
    fs::write(&sums, text).with_context(|| format!("write `{}`", sums.display()))?;
    Ok(vec![tarball, package, sums])
}

/// Everything in one folder, to be unpacked anywhere.
fn tarball(root: &Path, binary: &Path, out: &Path, version: &str, time: &str) -> Result<PathBuf> {
    let name = format!("ringfence-{version}-x86_64-linux");
    let folder = out.join(&name);
    put(binary, &folder.join("ringfence"), 0o755)?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"] {
        put(&root.join(file), &folder.join(file), 0o644)?;
    }
    put(&root.join(UNIT), &folder.join("ringfence.service"), 0o644)?;
    let path = out.join(format!("{name}.tar.gz"));
    shell::run(
        shell::command("tar")
            .current_dir(out)
            .args(["--sort=name", "--owner=root:0", "--group=root:0"])
            .arg(format!("--mtime=@{time}"))
            .arg("-czf")
            .arg(&path)
            .arg(&name),
    )?;
    fs::remove_dir_all(&folder).context("remove the folder of the tarball")?;
    Ok(path)
}

/// A Debian package with the binary, the unit and the documents.
fn package(root: &Path, binary: &Path, out: &Path, version: &str, time: &str) -> Result<PathBuf> {
    let tree = out.join("deb");
    put(binary, &tree.join("usr/bin/ringfence"), 0o755)?;
    let unit = fs::read_to_string(root.join(UNIT)).context("read the unit")?;
    if !unit.contains(LOCAL_PROGRAM) {
        bail!("the unit does not start `{LOCAL_PROGRAM}`");
    }
    let unit = unit.replace(LOCAL_PROGRAM, PACKAGED_PROGRAM);
    // What is said of copying it by hand is not true of a package.
    let unit: String = unit
        .lines()
        .filter(|line| !line.contains("cp this file"))
        .map(|l| l.to_owned() + "\n")
        .collect();
    write(&tree.join("usr/lib/systemd/system/ringfence.service"), &unit, 0o644)?;
    let documents = tree.join("usr/share/doc/ringfence");
    put(&root.join("LICENSE"), &documents.join("copyright"), 0o644)?;
    for file in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
        put(&root.join(file), &documents.join(file), 0o644)?;
    }
    let size = size_in_kib(&tree)?;
    write(&tree.join("DEBIAN/control"), &control(version, size), 0o644)?;
    write(&tree.join("DEBIAN/postinst"), POSTINST, 0o755)?;
    write(&tree.join("DEBIAN/prerm"), PRERM, 0o755)?;
    let path = out.join(format!("ringfence_{version}_{ARCHITECTURE}.deb"));
    shell::run(
        shell::command("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", time)
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(&tree)
            .arg(&path),
    )?;
    fs::remove_dir_all(&tree).context("remove the folder of the package")?;
    Ok(path)
}

fn control(version: &str, size: u64) -> String {
    format!(
        "Package: ringfence\n\
         Version: {version}\n\
         Architecture: {ARCHITECTURE}\n\
         Maintainer: Ringfence <ringfence@localhost>\n\
         Installed-Size: {size}\n\
         Section: admin\n\
         Priority: optional\n\
         Depends: libc6 (>= 2.36)\n\
         Recommends: ca-certificates, nodejs, python3, uidmap\n\
         Suggests: dbus-user-session\n\
         Description: tools and code of agents in sandboxes, behind policy\n\
         \x20One binary that runs what AI agents ask for inside Linux sandboxes, behind policy and\n\
         \x20approval, and proves what happened. The service is not started by the installation:\n\
         \x20systemctl enable --now ringfence\n"
    )
}

const POSTINST: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # After an upgrade: what ran goes on with the new binary.
    systemctl try-restart ringfence.service
fi
";

const PRERM: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now ringfence.service || true
fi
";

/// Copies a file with this mode, making the folders above it.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| format!("copy `{}`", from.display()))?;
    set_mode(to, mode)
}

fn write(to: &Path, text: &str, mode: u32) -> Result<()> {
    make_parent(to)?;
    fs::write(to, text).with_context(|| format!("write `{}`", to.display()))?;
    set_mode(to, mode)
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("make `{}`", parent.display()))?;
    // Whatever the umask: dpkg-deb wants 0755, and so do readers.
    set_mode(parent, 0o755)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of `{}`", path.display()))
}

/// Size of all files of a tree, as Debian counts it.
fn size_in_kib(tree: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(tree).with_context(|| format!("read `{}`", tree.display()))? {
        let entry = entry?;
        let found = entry.metadata()?;
        size += match found.is_dir() {
            true => size_in_kib(&entry.path())?,
            false => found.len().div_ceil(1024),
        };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths and modes that a listing of an archive names: `-rwxr-xr-x root/root … ./usr/bin/ringfence`.
    fn listed(listing: &str) -> Vec<(String, String)> {
        let line = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[1], "root/root", "{line}");
            (words[0].to_owned(), words[words.len() - 1].to_owned())
        };
        listing.lines().map(line).filter(|(_, path)| !path.ends_with('/')).collect()
    }

    #[test]
    fn the_archives_have_what_they_should_and_the_sums_fit() {
        let dir = tempfile::tempdir().expect("a directory");
        let binary = dir.path().join("built");
        fs::write(&binary, "#!/bin/sh\necho a program\n").expect("a file");
        let out = dir.path().join("dist");
        let root = settings::workspace_root();
        let made = pack(&root, &binary, &out, "1767225600").expect("archives");
        let [tarball, package, sums] = made.as_slice() else { panic!("{made:?}") };

        let read = |program: &str, args: &[&str], path: &Path| {
            shell::read(shell::command(program).args(args).arg(path)).expect("a listing")
        };
        let of_package = listed(&read("dpkg-deb", &["--contents"], package));
        let file = |mode: &str, path: &str| (mode.to_owned(), path.to_owned());
        let expected = [
            file("-rwxr-xr-x", "./usr/bin/ringfence"),
            file("-rw-r--r--", "./usr/lib/systemd/system/ringfence.service"),
            file("-rw-r--r--", "./usr/share/doc/ringfence/CHANGELOG.md"),
            file("-rw-r--r--", "./usr/share/doc/ringfence/README.md"),
            file("-rw-r--r--", "./usr/share/doc/ringfence/SECURITY.md"),
            file("-rw-r--r--", "./usr/share/doc/ringfence/copyright"),
        ];
        assert_eq!(of_package, expected);
        let about = read("dpkg-deb", &["--info"], package);
        for part in ["Package: ringfence", "Architecture: amd64", "postinst", "prerm"] {
            assert!(about.contains(part), "no `{part}` in {about}");
        }
        let unit = dir.path().join("unpacked");
        shell::run(shell::command("dpkg-deb").arg("--extract").arg(package).arg(&unit))
            .expect("it unpacks");
        let unit = fs::read_to_string(unit.join("usr/lib/systemd/system/ringfence.service"));
        let unit = unit.expect("a unit");
        assert!(unit.contains("ExecStart=/usr/bin/ringfence serve"), "{unit}");
        assert!(!unit.contains("/usr/local"), "{unit}");

        let of_tarball = listed(&read("tar", &["-tvzf"], tarball));
        let names: Vec<_> =
            of_tarball.iter().filter_map(|(_, path)| path.rsplit('/').next()).collect();
        let expected = [
            "CHANGELOG.md",
            "LICENSE",
            "README.md",
            "SECURITY.md",
            "ringfence",
            "ringfence.service",
        ];
        assert_eq!(names, expected);
        shell::run(shell::command("sha256sum").current_dir(&out).args(["-c", "SHA256SUMS"]))
            .expect("the sums fit");
        // The same again is the same.
        let before = fs::read_to_string(sums).expect("sums");
        pack(&root, &binary, &out, "1767225600").expect("archives");
        assert_eq!(fs::read_to_string(sums).expect("sums"), before);
    }
}
