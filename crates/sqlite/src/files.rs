//! Whether the files of the database are still those that were opened.
//!
//! A file that is deleted under a process stays usable for it: SQLite would go on writing into a file
//! without a name, and all of it would be gone with the process. And without the lock file another
//! server can open the same database. So the writer looks before each transaction, and again after
//! the commit and before anything is acknowledged.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::{Error, lock::with_suffix};

/// The files of an open database. Clones share what was found out about them.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    database: Arc<Opened>,
    /// The write-ahead log, its index, and the lock file.
    beside: Arc<[Opened]>,
    /// The first thing that was wrong. From then on nothing is written: a log or a lock that comes
    /// back may have served another process meanwhile.
    gone: Arc<OnceLock<Error>>,
}

/// A file by its path, and as it was when it was opened.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Files {
    /// The files as they are now. SQLite has all of them open, so no other file can get their inodes.
    pub(crate) fn opened(database: &Path) -> Result<Self, Error> {
        // SQLite follows symbolic links, and puts its own files beside the database itself.
        let target = fs::canonicalize(database).map_err(Error::files("resolve", database))?;
        let beside = [
            with_suffix(&target, "-wal"),
            with_suffix(&target, "-shm"),
            with_suffix(database, ".lock"),
        ];
        let beside = beside.into_iter().map(Opened::now).collect::<Result<_, _>>()?;
        let database = Arc::new(Opened::now(database.to_owned())?);
        Ok(Self { database, beside, gone: Arc::default() })
    }

    /// Fails from the first time on that a file is not the one that was opened.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(error) = self.gone() {
            return Err(error);
        }
        let files = std::iter::once(&*self.database).chain(&*self.beside);
        let Some(error) = files.into_iter().find_map(Opened::problem) else { return Ok(()) };
        Err(self.gone.get_or_init(|| error).clone())
    }

    /// The problem that was found at the last look.
    pub(crate) fn gone(&self) -> Option<Error> {
        self.gone.get().cloned()
    }

    /// Whether the database file itself is in its place, whatever became of the others.
    pub(crate) fn has_database(&self) -> bool {
        self.database.problem().is_none()
    }
}

impl Opened {
    fn now(path: PathBuf) -> Result<Self, Error> {
        let found = fs::metadata(&path).map_err(Error::files("look at", &path))?;
        Ok(Self { path, device: found.dev(), inode: found.ino() })
    }

    fn problem(&self) -> Option<Error> {
        let what = match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => return None,
            Ok(_) => "replaced",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "deleted",
            Err(_) => "made inaccessible",
        };
        Some(Error::Gone { path: self.path.clone(), what })
    }
}
