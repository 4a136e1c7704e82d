//! One server per data directory: an advisory lock, held for as long as the writer lives.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::Error;

/// The lock. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Makes the directory and the database file, for their owner only, and takes the lock.
pub(crate) fn prepare(database: &Path) -> Result<Lock, Error> {
    let directory = parent(database);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(Error::files("make directory", directory))?;
    let lock = take(&with_suffix(database, ".lock"))?;
    // SQLite gives its log and its index the mode of the database, so this one decides.
    private_file(database)?;
    // A file whose name is not on disk is lost in a power cut, with all that was acknowledged.
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::files("sync directory", directory))?;
    Ok(lock)
}

/// Time for which a server that is just ending may keep us waiting. A child that it was starting shares
/// its lock until that child has become another program.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

fn take(path: &Path) -> Result<Lock, Error> {
    let file = private_file(path)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(Error::files("lock", path)(error)),
        }
    }
}

fn private_file(path: &Path) -> Result<File, Error> {
    let open = || -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        Ok(file)
    };
    open().map_err(Error::files("open", path))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
