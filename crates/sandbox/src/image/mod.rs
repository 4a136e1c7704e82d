//! Images: root file systems that sandboxes can be given instead of the host's own programs.
//!
//! The store is a directory, `<name>/{rootfs/, image.json}` for each image. An import happens in a
//! hidden sibling and is renamed at its end, so an image is complete or absent. Images are
//! untrusted: every digest is verified before its content is used, every entry passes the same
//! checks as an upload, and nothing of an image is resolved or executed on the host.

mod copy;
mod error;
mod info;
mod layer;
mod layout;
mod name;
mod notes;
mod oci;
mod rootfs;
mod staging;

use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Dir, Mode, OFlags, mkdirat, openat};

pub use self::{
    error::{Error, Problem},
    info::{ImageConfig, ImageInfo, ImageSource, Progress},
    name::ImageName,
};
use self::{layout::Layout, rootfs::Rootfs, staging::Staging};
use crate::{
    archive::{self, Policy, UnpackLimits},
    files::{BoxPath, Tree},
};

/// Limits for images, which are larger than uploads.
pub const LIMITS: UnpackLimits =
    UnpackLimits { bytes: 16 << 30, entries: 1_000_000, name_len: 4095, depth: 256, ratio: 500 };

/// Largest `image.json` that is read, in case of a damaged disk.
const MAX_INFO: u64 = 1 << 20;

/// The images of one installation.
#[derive(Debug)]
pub struct ImageStore {
    path: PathBuf,
    tree: Tree,
}

/// Request to import an image.
#[derive(Debug, Clone)]
pub struct Import {
    /// The image's name.
    pub name: ImageName,
    /// A directory, an archive of one, or an OCI or Docker image archive.
    pub source: PathBuf,
    /// Whether a directory is copied; else it is used where it is.
    pub copy: bool,
    /// Whether an image of the same name is replaced.
    pub replace: bool,
    /// Current time, RFC 3339.
    pub created_at: String,
    /// Limits on the content of the image.
    pub limits: UnpackLimits,
}

/// Content of a store.
#[derive(Debug, Default)]
pub struct ImageListing {
    /// The images, by name.
    pub images: Vec<ImageInfo>,
    /// Directories with an image's name whose metadata cannot be read; they can still be removed.
    pub broken: Vec<Error>,
}

/// An image's root file system, ready to be mounted.
#[derive(Debug)]
pub struct RootfsDir {
    /// Path of the directory.
    pub path: PathBuf,
    /// Descriptor of the directory; this is mounted, not the path.
    pub dir: OwnedFd,
}

impl ImageStore {
    /// Opens the store at `path`, making it if it is missing.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |error| Error::new(path.display().to_string(), Problem::Io(error));
        fs::create_dir_all(path).map_err(fail)?;
        let path = path.canonicalize().map_err(fail)?;
        let dir = openat(CWD, &path, DIRECTORY, Mode::empty()).map_err(|e| fail(e.into()))?;
        Ok(Self { path, tree: Tree::new(dir) })
    }

    /// Imports an image; on an error the store is unchanged.
    pub fn import(
        &self,
        import: &Import,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImageInfo, Error> {
        self.run_import(import, progress).map_err(|error| Error {
            what: if error.what.is_empty() { import.name.to_string() } else { error.what },
            problem: error.problem,
        })
    }

    /// All images; a broken one does not hide others.
    pub fn list(&self) -> Result<ImageListing, Error> {
        let fail = |errno: rustix::io::Errno| Error::new("store", errno);
        let dir = self.tree.open_dir(&BoxPath::root()).map_err(here)?;
        let mut listing = ImageListing::default();
        for entry in Dir::new(dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // Other names are staging directories or not ours.
            let name = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            match name.map(|name| self.info(&name)) {
                Some(Ok(info)) => listing.images.push(info),
                Some(Err(error)) => listing.broken.push(error),
                None => {}
            }
        }
        listing.images.sort_by(|a, b| a.name.cmp(&b.name));
        listing.broken.sort_by(|a, b| a.what.cmp(&b.what));
        Ok(listing)
    }

    /// Metadata of one image.
    pub fn info(&self, name: &ImageName) -> Result<ImageInfo, Error> {
        let fail = |problem: Problem| Error::new(name.as_str(), problem);
        let path = inside(&format!("{name}/image.json")).map_err(fail)?;
        let file = self.tree.open(&path, OFlags::RDONLY).map_err(|refused| {
            let missing = matches!(refused.reason, crate::files::Reason::NotFound);
            fail(if missing { Problem::NotFound } else { refused.into() })
        })?;
        let mut json = Vec::new();
        let read = File::from(file).take(MAX_INFO).read_to_end(&mut json);
        read.map_err(|error| fail(error.into()))?;
        serde_json::from_slice(&json).map_err(|error| fail(Problem::Json(error)))
    }

    /// Root file system of an image. One that is used in place must still be the same directory.
    pub fn rootfs(&self, name: &ImageName) -> Result<RootfsDir, Error> {
        let fail = |problem: Problem| Error::new(name.as_str(), problem);
        let info = self.info(name)?;
        let ImageSource::Directory { path, device, inode } = info.source else {
            let inner = inside(&format!("{name}/rootfs")).map_err(fail)?;
            let dir = self.tree.open_dir(&inner).map_err(|refused| fail(refused.into()))?;
            return Ok(RootfsDir { path: self.path.join(name.as_str()).join("rootfs"), dir });
        };
        let dir = openat(CWD, &path, DIRECTORY, Mode::empty()).map_err(|_| fail(Problem::Moved))?;
        let stat = rustix::fs::fstat(&dir).map_err(|errno| fail(errno.into()))?;
        if (stat.st_dev, stat.st_ino) != (device, inode) {
            return Err(fail(Problem::Moved));
        }
        Ok(RootfsDir { path, dir })
    }

    /// Removes an image; a directory that is used in place stays as it is.
    pub fn remove(&self, name: &ImageName) -> Result<(), Error> {
        staging::take_away(&self.tree, name.as_str())
            .map_err(|problem| Error::new(name.as_str(), problem))
    }

    fn run_import(
        &self,
        import: &Import,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImageInfo, Error> {
        if !import.replace && self.tree.stat(&inside(import.name.as_str()).map_err(here)?).is_ok() {
            return Err(here(Problem::Exists));
        }
        let source = fs::metadata(&import.source).map_err(|error| {
            here(Problem::Unread { path: import.source.clone(), source: error })
        })?;
        let staging = Staging::new(&self.tree).map_err(here)?;
        let info = if source.is_dir() {
            self.import_dir(import, &staging, progress)?
        } else if source.is_file() {
            import_archive(import, &staging, progress)?
        } else {
            return Err(here(Problem::Source));
        };
        write_info(&staging, &info).map_err(here)?;
        staging.promote(import.name.as_str(), import.replace).map_err(here)?;
        Ok(info)
    }

    fn import_dir(
        &self,
        import: &Import,
        staging: &Staging<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImageInfo, Error> {
        let path = import.source.canonicalize().map_err(here)?;
        let dir = openat(CWD, &path, DIRECTORY, Mode::empty()).map_err(here)?;
        let source = match Layout::recognise(Tree::new(dir)) {
            Ok(layout) => return import_layout(import, &layout, staging, progress),
            Err(tree) => tree,
        };
        self.check_dir(&path).map_err(here)?;
        if import.copy {
            let mut rootfs = Rootfs::new(staging.make("rootfs").map_err(here)?, progress);
            copy::copy(&source, &mut rootfs, import.limits)?;
            return Ok(info(import, rootfs, ImageSource::Copy, None, ImageConfig::default()));
        }
        let meta = fs::metadata(&path).map_err(here)?;
        let source = ImageSource::Directory { path, device: meta.dev(), inode: meta.ino() };
        Ok(ImageInfo {
            name: import.name.clone(),
            digest: None,
            source,
            bytes: 0,
            entries: 0,
            created_at: import.created_at.clone(),
            config: ImageConfig::default(),
            notes: Vec::new(),
        })
    }

    fn check_dir(&self, path: &Path) -> Result<(), Problem> {
        if path.to_str().is_none() {
            return Err(Problem::Directory("has a name that is not UTF-8"));
        }
        if self.path.starts_with(path) || path.starts_with(&self.path) {
            return Err(Problem::Directory("contains the image store or lies in it"));
        }
        if fs::read_dir(path)?.next().is_none() {
            return Err(Problem::Directory("is empty"));
        }
        Ok(())
    }
}

fn import_archive(
    import: &Import,
    staging: &Staging<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<ImageInfo, Error> {
    let mut file = File::open(&import.source).map_err(here)?;
    let (digest, bytes) = layout::digest_of(&mut file).map_err(here)?;
    progress(Progress::Verified { digest: digest.to_string(), bytes });
    file.rewind().map_err(here)?;
    // Unpacking shows which kind of archive it is; a separate pass over gigabytes would only find
    // out earlier.
    let mut rootfs = Rootfs::new(staging.make("rootfs").map_err(here)?, progress);
    let report = archive::unpack_stream(file, &mut rootfs, Policy::ROOTFS, import.limits);
    let report = report.map_err(here)?;
    let unpacked = (rootfs.entries, rootfs.bytes);
    match Layout::recognise(rootfs.tree) {
        Err(tree) => {
            let mut rootfs = Rootfs::new(tree.dir, progress);
            (rootfs.entries, rootfs.bytes) = unpacked;
            rootfs.notes.add_all(&report);
            let digest = Some(digest.to_string());
            Ok(info(import, rootfs, ImageSource::Tarball, digest, ImageConfig::default()))
        }
        Ok(layout) => {
            rustix::fs::renameat(&staging.dir, "rootfs", &staging.dir, "layout").map_err(here)?;
            let info = import_layout(import, &layout, staging, progress)?;
            staging.discard("layout").map_err(here)?;
            Ok(info)
        }
    }
}

fn import_layout(
    import: &Import,
    layout: &Layout,
    staging: &Staging<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<ImageInfo, Error> {
    let verified = layout.verify(import.limits, progress)?;
    let (digest, source) = (verified.digest.to_string(), verified.source.clone());
    let config = verified.config.clone();
    let mut rootfs = Rootfs::new(staging.make("rootfs").map_err(here)?, progress);
    verified.apply(&mut rootfs, import.limits)?;
    Ok(info(import, rootfs, source, Some(digest), config))
}

fn info(
    import: &Import,
    rootfs: Rootfs<'_>,
    source: ImageSource,
    digest: Option<String>,
    config: ImageConfig,
) -> ImageInfo {
    ImageInfo {
        name: import.name.clone(),
        digest,
        source,
        bytes: rootfs.bytes,
        entries: rootfs.entries,
        created_at: import.created_at.clone(),
        config,
        notes: rootfs.notes.into_list(),
    }
}

fn write_info(staging: &Staging<'_>, info: &ImageInfo) -> Result<(), Problem> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&staging.dir, "image.json", flags, Mode::from_raw_mode(0o644))?;
    let json = serde_json::to_vec_pretty(info).map_err(Problem::Json)?;
    File::from(file).write_all(&json)?;
    if matches!(info.source, ImageSource::Directory { .. }) {
        // Every image has the same shape; this one has an empty `rootfs`.
        mkdirat(&staging.dir, "rootfs", Mode::from_raw_mode(0o755))?;
    }
    Ok(())
}

/// Error about the image as a whole; `import` fills in its name.
fn here(problem: impl Into<Problem>) -> Error {
    Error::new("", problem)
}

fn inside(path: &str) -> Result<BoxPath, Problem> {
    BoxPath::relative(path.as_bytes()).map_err(|_| Problem::Name)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
