//! Machine with systemd: a small Debian, its service manager as first process, and an ordinary user
//! whose own manager lingers.
//!
//! The tree is made once by debootstrap, which needs root, and kept in the cache. It boots from
//! memory, as the other machine does, so a run leaves nothing behind. Software emulation makes it
//! slow, so it is for use by hand and not part of the suites.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ringfence_testkit::first_page;

use super::cpio::Archive;
use super::scratch::Scratch;
use super::{Boot, kernel, rootfs};
use crate::{host, settings, shell};

/// Time limit of a machine with systemd: it boots in half a minute of emulation.
pub const DEADLINE: Duration = Duration::from_secs(1200);

/// Release, and packages added to its smallest variant. `curl` and `sudo` are used by the README's
/// first page.
const RELEASE: &str = "bookworm";
const PACKAGES: &str =
    "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3,curl,procps,sudo";

/// Directories that are not needed in the machine.
const LEFT_OUT: [&str; 6] = [
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
];

/// Kernel options that mask units which wait for devices and terminals.
const APPEND: &str = "systemd.show_status=no systemd.mask=serial-getty@ttyS0.service \
                      systemd.mask=getty@tty1.service systemd.mask=systemd-udevd.service \
                      systemd.mask=systemd-udev-trigger.service";

/// Boots the machine, runs `script` there as root with `as-user COMMAND` for the ordinary user,
/// passes every console line to `on_line`, and returns the script's exit code.
pub fn run(binary: Option<&Path>, script: &str, on_line: &mut dyn FnMut(&str)) -> Result<i32> {
    let initramfs = Scratch::create("systemd", &build(&tree()?, binary, script)?)?;
    let boot = Boot { memory: "2048", append: APPEND };
    super::boot(boot.emulator(&kernel::image()?, &initramfs.path)?, DEADLINE, on_line)
}

/// Script of checks on the binary: the README's first page as root and as an ordinary user, and a
/// service whose stop delivers the result of a running call.
pub fn checks() -> Result<String> {
    let readme = settings::workspace_root().join("README.md");
    let page =
        fs::read_to_string(&readme).with_context(|| format!("read `{}`", readme.display()))?;
    let page = first_page::script(&page);
    Ok(include_str!("checks.sh").replace("@FIRST_PAGE@", &page))
}

/// Tree from the cache, or a new one.
fn tree() -> Result<PathBuf> {
    let tree = settings::cache_directory()?.join(format!("systemd-{RELEASE}"));
    if tree.is_dir() {
        return Ok(tree);
    }
    if !host::is_root() {
        bail!("the tree of the machine is made by debootstrap, which only root can run");
    }
    let debootstrap =
        shell::find_program("debootstrap").context("find `debootstrap` (package debootstrap)")?;
    println!("installing Debian {RELEASE} into {}", tree.display());
    let staging = tree.with_extension(format!("incoming-{}", std::process::id()));
    let made = shell::run(
        shell::command(debootstrap)
            .args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE])
            .arg(&staging),
    );
    let kept = made.and_then(|()| fs::rename(&staging, &tree).context("keep the tree"));
    if kept.is_err() && staging.exists() {
        fs::remove_dir_all(&staging).with_context(|| format!("remove `{}`", staging.display()))?;
    }
    kept.map(|()| tree)
}

fn build(tree: &Path, binary: Option<&Path>, script: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    // Entries that are added first win over the tree's own.
    add_ours(&mut archive, tree, script)?;
    if let Some(binary) = binary {
        rootfs::add_binary(&mut archive, "ringfence", binary)?;
    }
    rootfs::add_busybox_alone(&mut archive)?;
    add_tree(&mut archive, tree, "")?;
    Ok(archive.finish())
}

fn add_ours(archive: &mut Archive, tree: &Path, script: &str) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.symlink(name, &format!("usr/{name}"));
    }
    archive.file("init", 0o755, include_bytes!("init.sh"));
    archive.file("command", 0o755, script.as_bytes());
    archive.file("usr/local/sbin/vm-command", 0o755, include_bytes!("command.sh"));
    archive.file("usr/local/bin/as-user", 0o755, include_bytes!("as-user.sh"));
    let units = "etc/systemd/system";
    archive.file(&format!("{units}/vm-command.service"), 0o644, include_bytes!("command.service"));
    let wanted = format!("{units}/multi-user.target.wants/vm-command.service");
    archive.symlink(&wanted, "../vm-command.service");
    let shipped = settings::workspace_root().join("deploy/systemd/ringfence.service");
    let unit = fs::read(&shipped).with_context(|| format!("read `{}`", shipped.display()))?;
    archive.file(&format!("{units}/ringfence.service"), 0o644, &unit);
    archive.symlink("usr/local/bin/ringfence", "../../bin/ringfence");
    archive.file("var/lib/systemd/linger/ada", 0o644, b"");
    archive.directory("home/ada");
    for (name, mode, line) in [
        // tidy-ok: the user of the emulated machine
        ("etc/passwd", 0o644, "ada:x:1000:1000:Ada:/home/ada:/bin/bash\n"),
        ("etc/group", 0o644, "ada:x:1000:\n"),
        ("etc/shadow", 0o640, "ada:*:19000:0:99999:7:::\n"),
    ] {
        let path = tree.join(name);
        let text =
            fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
        archive.file(name, mode, (text + line).as_bytes());
    }
    Ok(())
}

/// Adds files, directories and links; device nodes are made at boot.
fn add_tree(archive: &mut Archive, tree: &Path, below: &str) -> Result<()> {
    let directory = tree.join(below);
    let problem = |path: &Path| format!("read `{}` for the machine", path.display());
    for entry in fs::read_dir(&directory).with_context(|| problem(&directory))? {
        let path = entry?.path();
        let inside = path.strip_prefix(tree).context("an entry of the tree")?;
        let inside = inside.to_str().context("names of the tree are text")?.to_owned();
        let metadata = fs::symlink_metadata(&path).with_context(|| problem(&path))?;
        let mode = metadata.permissions().mode();
        if metadata.is_symlink() {
            let target = fs::read_link(&path).with_context(|| problem(&path))?;
            archive.symlink(&inside, target.to_str().context("targets of the tree are text")?);
        } else if metadata.is_dir() && !LEFT_OUT.contains(&inside.as_str()) {
            archive.directory_with(&inside, mode);
            add_tree(archive, tree, &inside)?;
        } else if metadata.is_file() {
            archive.file(&inside, mode, &fs::read(&path).with_context(|| problem(&path))?);
        }
    }
    Ok(())
}
