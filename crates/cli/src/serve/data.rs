//! Data directory, private to its owner.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::failure::Failure;

/// Creates it if necessary, and removes the permissions of others.
pub(super) fn prepare(data: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
    let closed = made.and_then(|()| {
        let mode = fs::metadata(data)?.permissions().mode();
        match mode & 0o077 {
            0 => Ok(()),
            _ => fs::set_permissions(data, fs::Permissions::from_mode(mode & 0o7700)),
        }
    });
    closed.map_err(|error| {
        Failure::because(format!("cannot use the data directory `{}`", data.display()), &error)
            .hint(format!(
                "choose another one with --data, or make it yours: sudo chown -R $(id -u) '{}'",
                data.display()
            ))
    })
}

/// Writes a file for the owner alone, atomically.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<fs::File> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    // Locked before it gets its name: a reader of the name finds it locked.
    file.lock()?;
    fs::rename(&fresh, path)?;
    if let Some(folder) = path.parent() {
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(file)
}
