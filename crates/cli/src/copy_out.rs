//! Files of a workspace, copied to the user's paths after the program has ended.
//!
//! They are untrusted, so they are read through the workspace's own interface: regular files only,
//! no link followed. A file is written beside its target and renamed into it; a directory is
//! unpacked beside its target, and renamed when it is complete.
//!
//! Invariant: only the named local path is written, and never partially.

use std::{
    fs,
    io::{self, Read},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use ringfence_sandbox::{
    archive::{self, Links, Meta, PackOptions, Policy, Problem, Sink, UnpackLimits, WorkspaceSink},
    files::{BoxPath, FileLimits, Owner, Refused, Workspace},
};
use ringfence_types::error_chain;
use serde_json::{Value, json};

use crate::copy_spec::FileOut;

/// Result of one `--out`.
#[derive(Debug)]
pub(crate) struct Copied {
    inside: String,
    local: PathBuf,
    /// Bytes copied, or the error.
    pub(crate) done: Result<u64, String>,
}

impl Copied {
    pub(crate) fn json(&self) -> Value {
        let (bytes, error) = match &self.done {
            Ok(bytes) => (Some(*bytes), None),
            Err(error) => (None, Some(error)),
        };
        json!({ "inside": self.inside, "local": self.local, "bytes": bytes, "error": error })
    }

    /// The error as text, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let why = self.done.as_ref().err()?;
        Some(format!("--out `{}`: {why}", self.inside))
    }
}

/// Copies all files, each independently of the others.
pub(crate) fn copy_out(workspace: Option<&Workspace>, wanted: &[FileOut]) -> Vec<Copied> {
    let copy = |file: &FileOut| match workspace {
        None => Err("the sandbox ended before its workspace could be had".to_owned()),
        Some(workspace) if file.is_directory => directory(workspace, file),
        Some(workspace) => one_file(workspace, file),
    };
    wanted
        .iter()
        .map(|file| Copied {
            inside: file.inside.to_string(),
            local: file.local.clone(),
            done: copy(file),
        })
        .collect()
}

fn one_file(workspace: &Workspace, file: &FileOut) -> Result<u64, String> {
    let mut artifact = workspace.get(&file.inside).map_err(|refused| refused.reason.to_string())?;
    let write = || -> io::Result<u64> {
        let mut beside = tempfile::NamedTempFile::new_in(parent(&file.local)?)?;
        let copied = artifact.copy_to(beside.as_file_mut())?;
        let mode = fs::Permissions::from_mode(artifact.mode & permitted());
        beside.as_file().set_permissions(mode)?;
        beside.persist(&file.local)?;
        Ok(copied.bytes)
    };
    let mut write = write;
    write().map_err(|error| cannot_write(&file.local, &error))
}

fn directory(workspace: &Workspace, file: &FileOut) -> Result<u64, String> {
    let cannot = |error: io::Error| cannot_write(&file.local, &error);
    let mut tar = tempfile::tempfile().map_err(cannot)?;
    let options =
        PackOptions { links: Links::Refuse, skip_special: false, ..PackOptions::default() };
    let packed = archive::pack(workspace, &file.inside, &mut tar, options);
    let packed = packed.map_err(|error| unpackable(&error))?;
    io::Seek::rewind(&mut tar).map_err(cannot)?;
    let beside = parent(&file.local).and_then(tempfile::TempDir::new_in).map_err(cannot)?;
    let top = beside.path().join("top");
    fs::create_dir(&top).map_err(cannot)?;
    unpack(tar, &top).map_err(|error| error_chain(&error))?;
    fs::rename(&top, &file.local).map_err(cannot)?;
    Ok(packed.bytes)
}

fn unpack(tar: fs::File, top: &Path) -> Result<(), archive::Error> {
    let dir = OwnedFd::from(fs::File::open(top).map_err(archive::Problem::from)?);
    let owner = Owner {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let place = Workspace::new(dir, owner, FileLimits::default());
    let into = WorkspaceSink { workspace: &place, at: BoxPath::root() };
    let mut sink = Permitted { into, permitted: permitted() };
    archive::unpack(tar, &mut sink, Policy::UPLOAD, UnpackLimits::default()).map(drop)
}

/// Permission bits of a new file under our umask. Set-id bits are dropped.
fn permitted() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    0o777 & !umask.unwrap_or(0o022)
}

/// A local directory in which permissions are limited by our umask.
struct Permitted<'a> {
    into: WorkspaceSink<'a>,
    permitted: u32,
}

impl Permitted<'_> {
    fn meta(&self, meta: Meta) -> Meta {
        Meta { mode: meta.mode & self.permitted, ..meta }
    }
}

impl Sink for Permitted<'_> {
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused> {
        self.into.directory(path, self.meta(meta))
    }

    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        self.into.file(path, self.meta(meta), content)
    }

    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        self.into.symlink(path, target)
    }

    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        self.into.hard_link(path, original)
    }
}

/// Parent of a path; the current directory for a bare name. It must exist: otherwise the error
/// would name the temporary file.
fn parent(path: &Path) -> io::Result<&Path> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::metadata(parent).map(|_| parent)
}

fn cannot_write(local: &Path, error: &io::Error) -> String {
    format!("cannot write `{}`: {error}", local.display())
}

/// Reason why a directory was not copied, without mention of the archive.
fn unpackable(error: &archive::Error) -> String {
    match (&error.problem, &error.entry) {
        (Problem::Files(refused), _) => error_chain(refused),
        (problem, Some(entry)) => format!("`{entry}`: {}", error_chain(problem)),
        (problem, None) => error_chain(problem),
    }
}
