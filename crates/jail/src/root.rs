//! Mount tree that all sandboxes of one root start from.
//!
//! A small tmpfs holds the root directory itself; readable trees are mounted into it, read-only.
//! When [`build`] returns, the process has pivoted into that tree and the host's is unreachable: a
//! sandbox is cloned from here, so there is nothing left to hide from it.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{
    SetupError, Stage,
    confine::INSIDE_ID,
    stage::At,
    sys::{self, attr},
    wire::{RootSource, RootSpec},
};

/// An embedded file that every sandbox has in `/.ringfence`.
#[derive(Debug, Clone, Copy)]
pub struct OwnFile {
    /// Name; files in `bin/` are in the `PATH` of programs.
    pub name: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

impl OwnFile {
    /// Name of the library that a zygote loads. It is large, and only zygotes need it.
    pub const FOR_ZYGOTES: &'static str = "preload.so";
}

/// Directory in which the new root is assembled; every host has it. Only this process sees the
/// mount.
const STAGING: &CStr = c"/tmp";

/// Directories of a root that we provide, even if the source has them.
const OURS: [&str; 9] =
    ["proc", "sys", "dev", "tmp", "box", "workspace", "run", "root", ".ringfence"];

/// Link to the directory of the workspace with what a tool keeps between its calls.
const DATA: (&str, &str) = ("data", "workspace/data");

/// Packages of a root, beside our own files.
const PACKAGES: &str = ".ringfence/packages";

/// Trees of the host view. They hold no secrets on a well-kept host; `/etc` is not among them.
const HOST_TREES: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Parts of the host's `/etc` that programs need and that hold no secrets.
const HOST_ETC: [&str; 21] = [
    "alternatives", // What `/usr/bin/cc`, `java` and others point to.
    "ca-certificates.conf",
    "fonts",
    "gai.conf",
    "host.conf",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache", // Without it every program searches for its libraries.
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "perl",
    "protocols",
    "python3",
    "python3.11",
    "services",
    "ssl/certs", // Public certificates; `ssl/private` stays outside.
    "ssl/openssl.cnf",
];

/// Files of `/etc` that we write ourselves, so that they reveal nothing of the host.
const WRITTEN_ETC: [(&str, &str); 5] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/workspace:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n", // tidy-ok: an account name
    ),
    ("group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("resolv.conf", "# There is no network here.\n"),
];

/// Devices with their numbers.
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Builds the tree and moves this process into it. The process must be in a mount namespace of its
/// own, and be the first of a pid namespace of its own.
pub(crate) fn build(spec: &RootSpec, own: &[OwnFile]) -> Result<(), SetupError> {
    // Without a umask, files get their modes without a second call for each.
    let before = rustix::process::umask(Mode::empty());
    let built = assemble(spec, own);
    rustix::process::umask(before);
    built
}

fn assemble(spec: &RootSpec, own: &[OwnFile]) -> Result<(), SetupError> {
    sys::mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE).at(Stage::TemplateMounts)?;
    let source = open_source(&spec.source).at(Stage::OpenRoot)?;
    let mut parts = take_parts(&spec.source, source.as_fd()).at(Stage::OpenRoot)?;
    if let Some(path) = &spec.packages {
        parts.push(take_packages(path).at(Stage::OpenRoot)?);
    }
    let devices = Devices::take().at(Stage::TemplateMounts)?;
    let attack = spec.with_attack.then(take_self).transpose().at(Stage::TemplateMounts)?;
    let root = new_tmpfs(c"64m", attr::NOSUID | attr::NODEV).at(Stage::TemplateMounts)?;
    let proc = new_proc().at(Stage::Proc)?;
    sys::move_mount(&root, STAGING).at(Stage::TemplateMounts)?;
    let tree = Tree(root.as_fd());
    tree.fill(parts, spec).at(Stage::TemplateMounts)?;
    tree.fill_devices(&devices).at(Stage::TemplateMounts)?;
    let own = own.iter().filter(|file| spec.with_zygote || file.name != OwnFile::FOR_ZYGOTES);
    tree.fill_own(own, attack).at(Stage::TemplateMounts)?;
    tree.attach(&proc, "proc").at(Stage::Proc)?;
    sys::mount_setattr(&root, attr::RDONLY, false).at(Stage::TemplateMounts)?;
    pivot().at(Stage::PivotRoot)
}

fn pivot() -> sys::Result<()> {
    rustix::process::chdir(STAGING)?;
    // Stacks the new root on the old one; the next step unmounts the old one.
    sys::pivot_root(c".", c".")?;
    sys::umount_detach(c".")?;
    rustix::process::chdir(c"/")
}

/// Opens the source once, following no symlink; it is used by descriptor from here on, so what was
/// checked is what gets mounted.
fn open_source(source: &RootSource) -> sys::Result<OwnedFd> {
    let path = match source {
        RootSource::HostView => Path::new("/"),
        RootSource::Directory(path) => path,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// One entry of the new root.
enum RootEntry {
    Tree { name: String, mount: OwnedFd, is_dir: bool },
    Copy { name: String, content: Vec<u8> },
    Link { name: String, target: CString },
}

fn take_parts(source: &RootSource, root: BorrowedFd<'_>) -> sys::Result<Vec<RootEntry>> {
    let names = match source {
        RootSource::HostView => HOST_TREES.map(str::to_owned).to_vec(),
        RootSource::Directory(_) => top_level(root)?,
    };
    let mut parts = Vec::new();
    for name in names {
        parts.extend(take(root, &name)?);
    }
    if matches!(source, RootSource::HostView) {
        for name in HOST_ETC {
            let name = format!("etc/{name}");
            parts.extend(match copy(root, &name)? {
                Some(part) => Some(part),
                None => take(root, &name)?,
            });
        }
    }
    Ok(parts)
}

/// Directory with packages, opened like the source of a root.
fn take_packages(path: &Path) -> sys::Result<RootEntry> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return Err(Errno::INVAL);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    match take(parent.as_fd(), name)? {
        Some(RootEntry::Tree { mount, is_dir: true, .. }) => {
            Ok(RootEntry::Tree { name: PACKAGES.to_owned(), mount, is_dir: true })
        }
        _ => Err(Errno::NOTDIR),
    }
}

fn top_level(root: BorrowedFd<'_>) -> sys::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&listing)? {
        let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else { continue };
        if name != "." && name != ".." && !OURS.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Size up to which files are copied: every mount of a root is copied for every sandbox.
const MAX_COPIED_BYTES: u64 = 128 << 10;

/// Content of a small world-readable file; `None` otherwise.
fn copy(root: BorrowedFd<'_>, name: &str) -> sys::Result<Option<RootEntry>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(root, name, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        other => other?,
    };
    let stat = rustix::fs::fstat(&file)?;
    let is_public = FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_mode & 0o004 != 0;
    if !is_public || stat.st_size as u64 > MAX_COPIED_BYTES {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(stat.st_size as usize);
    File::from(file)
        .take(MAX_COPIED_BYTES)
        .read_to_end(&mut content)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(Some(RootEntry::Copy { name: name.to_owned(), content }))
}

/// A detached read-only copy of one entry; `None` if the source does not have it.
fn take(root: BorrowedFd<'_>, name: &str) -> sys::Result<Option<RootEntry>> {
    let path = CString::new(name).map_err(|_| Errno::INVAL)?;
    let stat = match rustix::fs::statat(root, &path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let name = name.to_owned();
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(root, &path, Vec::new())?;
            Ok(Some(RootEntry::Link { name, target }))
        }
        kind @ (FileType::Directory | FileType::RegularFile) => {
            let mount = sys::open_tree(root, &path, true)?;
            let is_dir = kind == FileType::Directory;
            sys::mount_setattr(&mount, attr::RDONLY | attr::NOSUID | attr::NODEV, true)?;
            Ok(Some(RootEntry::Tree { name, mount, is_dir }))
        }
        _ => Ok(None),
    }
}

/// Source of the nodes of `/dev`.
enum Devices {
    /// A file system of our own with nodes that we made.
    Made(OwnedFd),
    /// Nodes of the host, each mounted on its own.
    Bound(Vec<(&'static str, OwnedFd)>),
}

impl Devices {
    /// Makes nodes where we may; a user namespace can only bind those of the host, for which
    /// `statvfs(2)` returns the size of the host's `/dev`, which reveals its memory.
    fn take() -> sys::Result<Self> {
        let made = new_tmpfs(c"64k", attr::NOSUID | attr::NOEXEC)?;
        let mode = Mode::from_raw_mode(0o666);
        for (name, major, minor) in DEVICES {
            let number = rustix::fs::makedev(major, minor);
            match rustix::fs::mknodat(&made, name, FileType::CharacterDevice, mode, number) {
                Err(Errno::PERM) => return Self::bind(),
                other => other?,
            }
        }
        Ok(Self::Made(made))
    }

    fn bind() -> sys::Result<Self> {
        let take = |(name, ..): (&'static str, u32, u32)| {
            let path = CString::new(format!("/dev/{name}")).map_err(|_| Errno::INVAL)?;
            let mount = sys::open_tree(CWD, &path, false)?;
            sys::mount_setattr(&mount, attr::NOSUID | attr::NOEXEC, false)?;
            Ok((name, mount))
        };
        DEVICES.into_iter().map(take).collect::<sys::Result<_>>().map(Self::Bound)
    }
}

fn take_self() -> sys::Result<OwnedFd> {
    let path = rustix::fs::readlinkat(CWD, c"/proc/self/exe", Vec::new())?;
    let mount = sys::open_tree(CWD, &path, false)?;
    sys::mount_setattr(&mount, attr::RDONLY | attr::NOSUID | attr::NODEV, false)?;
    Ok(mount)
}

/// A tmpfs with explicit limits: the defaults would reveal the host's memory.
fn new_tmpfs(size: &CStr, attributes: u64) -> sys::Result<OwnedFd> {
    let fs = sys::fsopen(c"tmpfs")?;
    sys::fsconfig(&fs, c"source", Some(c"root"))?;
    sys::fsconfig(&fs, c"mode", Some(c"755"))?;
    sys::fsconfig(&fs, c"size", Some(size))?;
    sys::fsconfig(&fs, c"nr_inodes", Some(c"16k"))?;
    sys::fsmount(&fs, attributes)
}

/// A complete `/proc` of the template's own pid namespace. Every sandbox replaces it by its own;
/// the kernel requires a visible one before it lets a user namespace make another.
fn new_proc() -> sys::Result<OwnedFd> {
    let fs = sys::fsopen(c"proc")?;
    sys::fsmount(&fs, attr::NOSUID | attr::NODEV | attr::NOEXEC)
}

/// The new root while it is filled.
struct Tree<'a>(BorrowedFd<'a>);

impl Tree<'_> {
    fn fill(&self, parts: Vec<RootEntry>, spec: &RootSpec) -> sys::Result<()> {
        for dir in OURS.into_iter().filter(|dir| *dir != "sys") {
            self.dir(dir)?;
        }
        if spec.source == RootSource::HostView {
            self.dir("etc")?;
            self.dir("etc/ssl")?;
            for (name, content) in WRITTEN_ETC {
                self.file(&format!("etc/{name}"), content.as_bytes(), 0o644)?;
            }
        }
        for part in parts {
            match part {
                RootEntry::Link { name, target } => rustix::fs::symlinkat(&target, self.0, &name)?,
                RootEntry::Copy { name, content } => self.file(&name, &content, 0o644)?,
                RootEntry::Tree { name, mount, is_dir: true } => {
                    self.dir(&name)?;
                    self.attach(&mount, &name)?;
                }
                RootEntry::Tree { name, mount, .. } => {
                    self.file(&name, b"", 0o644)?;
                    self.attach(&mount, &name)?;
                }
            }
        }
        // What a tool keeps between its calls; a root with a directory of this name has its own.
        match rustix::fs::symlinkat(DATA.1, self.0, DATA.0) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    fn fill_devices(&self, devices: &Devices) -> sys::Result<()> {
        if let Devices::Made(dev) = devices {
            self.attach(dev, "dev")?;
        }
        self.dir("dev/pts")?;
        self.dir("dev/shm")?;
        for (name, target) in DEVICE_LINKS {
            rustix::fs::symlinkat(target, self.0, format!("dev/{name}"))?;
        }
        match devices {
            Devices::Made(dev) => sys::mount_setattr(dev, attr::RDONLY, false),
            Devices::Bound(nodes) => nodes.iter().try_for_each(|(name, mount)| {
                let name = format!("dev/{name}");
                self.file(&name, b"", 0o666)?;
                self.attach(mount, &name)
            }),
        }
    }

    fn fill_own<'a>(
        &self,
        own: impl Iterator<Item = &'a OwnFile>,
        attack: Option<OwnedFd>,
    ) -> sys::Result<()> {
        self.dir(".ringfence/bin")?;
        self.dir(".ringfence/sdk")?;
        for file in own {
            self.file(&format!(".ringfence/{}", file.name), file.content, 0o755)?;
        }
        if let Some(mount) = attack {
            self.file(".ringfence/attack", b"", 0o755)?;
            self.attach(&mount, ".ringfence/attack")?;
        }
        Ok(())
    }

    fn dir(&self, name: &str) -> sys::Result<()> {
        match rustix::fs::mkdirat(self.0, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> sys::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.0, name, flags, Mode::from_raw_mode(mode))?;
        let mut rest = content;
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&file, rest)?..];
        }
        Ok(())
    }

    fn attach(&self, mount: &OwnedFd, name: &str) -> sys::Result<()> {
        let staging = Path::new(std::ffi::OsStr::from_bytes(STAGING.to_bytes()));
        let target = CString::new(staging.join(name).as_os_str().as_bytes().to_vec())
            .map_err(|_| Errno::INVAL)?;
        sys::move_mount(mount, &target)
    }
}

/// Environment that every program starts from. Nothing of the service's is in it.
pub fn base_environment() -> Vec<(&'static str, &'static str)> {
    debug_assert_eq!(INSIDE_ID, 1000, "passwd above names the same id");
    vec![
        ("PATH", "/.ringfence/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/workspace"),
        ("USER", "sandbox"),
        ("LOGNAME", "sandbox"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("SHELL", "/bin/bash"),
        // Output of a Python program is visible at once, and kept if the program is killed.
        ("PYTHONUNBUFFERED", "1"),
    ]
}
