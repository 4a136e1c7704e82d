//! Local files and directories for the workspace, read before the sandbox exists.
//!
//! Invariant: a symbolic link inside a given directory is followed only to a file of the same
//! directory. An untrusted repository must not make us read the user's other files.

use std::{
    fs,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

use ringfence_sandbox::{InputFile, files::BoxPath};

use crate::copy_spec::FileIn;

/// Files read so far, and problems of the others.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) files: Vec<InputFile>,
    pub(crate) problems: Vec<String>,
    /// Bytes that may still be read: the size of the workspace bounds our memory.
    room: u64,
}

/// Reads everything for a workspace of `room` bytes.
pub(crate) fn gather(wanted: &[FileIn], room: u64) -> Gathered {
    let mut gathered = Gathered { files: Vec::new(), problems: Vec::new(), room };
    for FileIn { local, inside } in wanted {
        gathered.add(local, inside);
    }
    gathered
}

impl Gathered {
    fn add(&mut self, local: &Path, inside: &BoxPath) {
        match fs::metadata(local) {
            Err(error) => self.refuse(local, &error.to_string()),
            Ok(found) if found.is_dir() => match local.canonicalize() {
                Ok(top) => self.add_directory(&top, &top, inside),
                Err(error) => self.refuse(local, &error.to_string()),
            },
            Ok(found) if found.is_file() => self.add_file(local, inside),
            Ok(_) => self.refuse(local, "is neither a regular file nor a directory"),
        }
    }

    fn add_directory(&mut self, top: &Path, directory: &Path, inside: &BoxPath) {
        if !inside.is_root() {
            self.files.push(InputFile::directory(inside.clone(), mode_of(directory)));
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.refuse(directory, &error.to_string()),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths {
            let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
            match inside.join(name) {
                Ok(inside) => self.add_entry(top, &path, &inside),
                Err(error) => self.refuse(&path, &error.to_string()),
            }
        }
    }

    fn add_entry(&mut self, top: &Path, path: &Path, inside: &BoxPath) {
        match fs::symlink_metadata(path) {
            Err(error) => self.refuse(path, &error.to_string()),
            Ok(found) if found.is_dir() => self.add_directory(top, path, inside),
            Ok(found) if found.is_file() => self.add_file(path, inside),
            Ok(found) if found.is_symlink() => self.add_link(top, path, inside),
            Ok(_) => self.refuse(path, "is neither a regular file nor a directory"),
        }
    }

    fn add_link(&mut self, top: &Path, path: &Path, inside: &BoxPath) {
        match path.canonicalize() {
            Ok(target) if target.starts_with(top) && target.is_file() => {
                self.add_file(&target, inside);
            }
            _ => self.refuse(path, "is a symbolic link that leads to no file of that directory"),
        }
    }

    fn add_file(&mut self, path: &Path, inside: &BoxPath) {
        match read(path, self.room) {
            Ok((content, mode)) => {
                self.room -= content.len() as u64;
                let file = InputFile { path: inside.clone(), mode, content: content.into() };
                self.files.push(file);
            }
            Err(why) => self.refuse(path, &why),
        }
    }

    fn refuse(&mut self, local: &Path, why: &str) {
        self.problems.push(format!("--file `{}`: {why}", local.display()));
    }
}

/// Permission bits; an unreadable directory is refused when it is read.
fn mode_of(directory: &Path) -> u32 {
    fs::metadata(directory).map_or(0o755, |found| found.permissions().mode() & 0o777)
}

fn read(path: &Path, room: u64) -> Result<(Vec<u8>, u32), String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    let mut content = Vec::new();
    file.take(room + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > room {
        return Err("does not fit into the workspace; raise --disk".to_owned());
    }
    // The owner inside can always read and replace it.
    Ok((content, mode | 0o600))
}
