//! Reader of skill folders on disk, beneath a held directory and without following links.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use crate::{
    files::{Files, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, Problem, is_ignored},
    skill::MARKERS,
    text::shown,
};

/// Subdirectories visited in one place.
const MAX_FOLDERS: usize = 4_096;
/// Problems reported while reading one folder.
const MAX_PROBLEMS: usize = 20;
/// Names in a folder; a longer listing is not a skill's.
const MAX_NAMES: usize = 4 * MAX_FILES;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Non-blocking, because a file may have become a FIFO since it was listed.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Folder that looks like a skill.
#[derive(Debug)]
pub(crate) struct Found {
    /// Printable name of the folder.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Files of the folder, or the problems of reading them.
    pub(crate) files: Result<Files, Vec<String>>,
}

/// Skill folders directly in `place`, sorted by name. A missing place has none.
pub(crate) fn read_all(place: &Path) -> io::Result<Vec<Found>> {
    let root = match File::open(place) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = names(&root, MAX_FOLDERS)?;
    names.retain(|name| !name.as_deref().is_ok_and(is_ignored));
    Ok(names.into_iter().filter_map(|name| found(&root, place, name)).collect())
}

/// Files of the folder at `path`, which may not be a link.
pub(crate) fn read_one(path: &Path) -> Result<Files, Vec<String>> {
    let unreadable = |error: rustix::io::Errno| vec![unreadable(error.into()).to_string()];
    let folder = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(unreadable)?;
    read(&folder)
}

fn found(root: &File, place: &Path, name: Result<String, String>) -> Option<Found> {
    let name = match name {
        Ok(name) => name,
        Err(shown) => {
            let files = Err(vec![Problem::Name.to_string()]);
            return Some(Found { path: place.join(&shown), name: shown, files });
        }
    };
    let kind =
        FileType::from_raw_mode(statat(root, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    let path = place.join(&name);
    let files = match kind {
        FileType::Directory => match openat(root, &name, DIRECTORY, Mode::empty()) {
            Ok(folder) if looks_like_skill(&folder) => read(&folder),
            Ok(_) => return None,
            // Removed since it was listed.
            Err(rustix::io::Errno::NOENT) => return None,
            Err(error) => Err(vec![unreadable(error.into()).to_string()]),
        },
        FileType::Symlink if path.is_dir() => {
            Err(vec!["the folder is a symbolic link; links are not followed".to_owned()])
        }
        _ => return None,
    };
    Some(Found { name: shown(&name), path, files })
}

/// Whether a folder looks like a skill. Other folders, such as tests, are ignored.
fn looks_like_skill(folder: &OwnedFd) -> bool {
    MARKERS.iter().any(|name| statat(folder, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

fn read(folder: &OwnedFd) -> Result<Files, Vec<String>> {
    let mut reader = Reader { files: Files::default(), problems: Vec::new() };
    reader.folder(folder, "", 0);
    if reader.problems.is_empty() { Ok(reader.files) } else { Err(reader.problems) }
}

struct Reader {
    files: Files,
    problems: Vec<String>,
}

impl Reader {
    fn folder(&mut self, folder: &impl AsFd, prefix: &str, depth: usize) {
        let names = match names(folder, MAX_NAMES) {
            Ok(names) => names,
            Err(error) => return self.note(prefix, &unreadable(error)),
        };
        for name in names {
            match name {
                _ if self.problems.len() >= MAX_PROBLEMS => return,
                Ok(name) if is_ignored(&name) => {}
                Ok(name) => self.entry(folder, &name, &format!("{prefix}{name}"), depth),
                Err(shown) => self.note(&format!("{prefix}{shown}"), &Problem::Name),
            }
        }
    }

    fn entry(&mut self, folder: &impl AsFd, name: &str, path: &str, depth: usize) {
        let taken = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(error) => Err(unreadable(error.into())),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth == MAX_DEPTH => Err(Problem::LongPath),
                FileType::Directory => match openat(folder, name, DIRECTORY, Mode::empty()) {
                    Ok(inner) => return self.folder(&inner, &format!("{path}/"), depth + 1),
                    Err(error) => Err(unreadable(error.into())),
                },
                FileType::RegularFile => content(folder, name, self.files.room())
                    .and_then(|content| self.files.add(path, content)),
                FileType::Symlink => Err(Problem::Link),
                _ => Err(Problem::Special),
            },
        };
        if let Err(problem) = taken {
            self.note(path, &problem);
        }
    }

    fn note(&mut self, path: &str, problem: &Problem) {
        self.problems.push(format!("{}: {problem}", shown(path)));
    }
}

/// Content of a file, unless it is too large.
fn content(folder: &impl AsFd, name: &str, room: u64) -> Result<Vec<u8>, Problem> {
    let file = openat(folder, name, FILE, Mode::empty()).map_err(|e| unreadable(e.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Problem::Special);
    }
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES.min(room) + 1).read_to_end(&mut content).map_err(unreadable)?;
    Ok(content)
}

/// Names in a directory, sorted; a name that is not UTF-8 in printable form.
fn names(folder: &impl AsFd, most: usize) -> io::Result<Vec<Result<String, String>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() == most {
            return Err(io::Error::other(format!("more than {most} entries")));
        }
        names.push(name.to_str().map(str::to_owned).map_err(|_| shown(&name.to_string_lossy())));
    }
    names.sort_by(|one, other| plain(one).cmp(plain(other)));
    Ok(names)
}

fn plain(name: &Result<String, String>) -> &str {
    name.as_deref().unwrap_or_else(|shown| shown)
}

fn unreadable(error: io::Error) -> Problem {
    Problem::Unreadable(error.to_string())
}
