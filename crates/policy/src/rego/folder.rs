//! Reader of a folder of rules.
//!
//! No file is skipped silently: a rule file that is not read would be a rule that does not hold.
//! Hidden entries are left out, because mounted configuration keeps its older versions there; so are
//! notes in `*.md`.
//!
//! Invariant: nothing outside the folder is read. A link is followed only to a file within it, as
//! mounted configuration needs.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{
    bundle::{DATA, MAX_FILES, MAX_TOTAL_BYTES},
    problem::Problem,
};

/// Nesting limit of folders.
const MAX_DEPTH: usize = 8;
/// Entries visited, of any kind.
const MAX_ENTRIES: usize = 4096;

/// All files by their path within the folder.
pub(super) fn read(folder: &Path, problems: &mut Vec<Problem>) -> Vec<(String, String)> {
    let root = match folder.canonicalize() {
        Ok(root) => root,
        Err(error) => {
            problems.push(Problem::in_file(&folder.to_string_lossy(), error.to_string()));
            return Vec::new();
        }
    };
    let mut reading = Reading { root: &root, files: Vec::new(), bytes: 0, entries: 0, problems };
    reading.folder(&root, "", 0);
    reading.files
}

struct Reading<'a> {
    root: &'a Path,
    files: Vec<(String, String)>,
    bytes: usize,
    entries: usize,
    problems: &'a mut Vec<Problem>,
}

impl Reading<'_> {
    fn folder(&mut self, path: &Path, prefix: &str, depth: usize) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.problem(prefix, error.to_string()),
        };
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES
                || self.files.len() > MAX_FILES
                || self.bytes > MAX_TOTAL_BYTES
            {
                let most = format!(
                    "more than {MAX_FILES} files or {MAX_TOTAL_BYTES} bytes or too many entries"
                );
                return self.problem(".", most);
            }
            match entry {
                Ok(entry) => self.entry(&entry, prefix, depth),
                Err(error) => self.problem(prefix, error.to_string()),
            }
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, prefix: &str, depth: usize) {
        let file_name = entry.file_name();
        let name = format!("{prefix}{}", file_name.to_string_lossy());
        if file_name.to_string_lossy().starts_with('.') || name.ends_with(".md") {
            return;
        }
        if file_name.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
            return self.problem(&name, "not a name of printable text");
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                self.folder(&entry.path(), &format!("{name}/"), depth + 1);
            }
            Ok(kind) if kind.is_dir() => self.problem(&name, "too many folders in folders"),
            Ok(_) => self.file(&entry.path(), name),
            Err(error) => self.problem(&name, error.to_string()),
        }
    }

    fn file(&mut self, path: &Path, name: String) {
        match self.within(path).and_then(|path| bounded(&path)) {
            Ok(text) => {
                self.bytes += text.len();
                self.files.push((name, text));
            }
            Err(error) => self.problem(&name, error.to_string()),
        }
    }

    /// Real path of a file, if it is within the folder.
    fn within(&self, path: &Path) -> io::Result<PathBuf> {
        let real = path.canonicalize()?;
        if !real.starts_with(self.root) {
            return Err(io::Error::other("a link that leads out of the folder"));
        }
        // Checked before opening: a named pipe would block.
        if !fs::symlink_metadata(&real)?.is_file() {
            return Err(io::Error::other("neither a file nor a link to one"));
        }
        Ok(real)
    }

    fn problem(&mut self, file: &str, message: impl Into<String>) {
        let file = if file.is_empty() { "." } else { file };
        self.problems.push(Problem::in_file(file, message));
    }
}

/// File content up to one byte over the limit, so that the bundle reports the excess.
fn bounded(path: &Path) -> io::Result<String> {
    let most = if path.ends_with(DATA) {
        super::bundle::MAX_DATA_BYTES
    } else {
        super::bundle::MAX_RULE_BYTES
    };
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}
