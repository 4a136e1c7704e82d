//! Uploads on disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use ringfence_types::{Digest, Timestamp};

use crate::{files::Files, folder};

/// Prefix of folders that are incomplete or about to be removed.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// Stored upload.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Digest in the name of its folder.
    pub(crate) digest: Digest,
    pub(crate) path: PathBuf,
    pub(crate) files: Result<Files, Vec<String>>,
    pub(crate) since: Option<Timestamp>,
}

/// Creates the upload directory and removes leftovers of a crash.
pub(crate) fn prepare(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)?;
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// All uploads, sorted by time of registration. Unknown names are ignored.
pub(crate) fn stored(place: &Path) -> io::Result<Vec<Stored>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let name = entry.file_name();
        let digest = name.to_str().and_then(|hex| format!("sha256:{hex}").parse().ok());
        if let Some(digest) = digest {
            all.push(read(entry.path(), digest));
        }
    }
    all.sort_by_key(|stored| (stored.since, stored.digest));
    Ok(all)
}

fn read(path: PathBuf, digest: Digest) -> Stored {
    let since = fs::read_to_string(path.join("registered")).ok();
    let since = since.and_then(|text| text.trim().parse().ok());
    Stored { digest, files: folder::read_one(&path.join("skill")), path, since }
}

/// Stores a skill. A folder of the same digest is replaced: it is this skill, or damaged.
pub(super) fn keep(place: &Path, digest: Digest, files: &Files, at: Timestamp) -> io::Result<()> {
    let unfinished = place.join(format!("{UNFINISHED_PREFIX}{}", digest.hex()));
    remove(&unfinished)?;
    let skill = unfinished.join("skill");
    fs::create_dir_all(&skill)?;
    for (path, content) in files.iter() {
        write(&skill, path, content)?;
    }
    write(&unfinished, "registered", at.to_string().as_bytes())?;
    sync_folders(&unfinished)?;
    let finished = place.join(digest.hex());
    set_aside(place, &finished)?;
    fs::rename(&unfinished, &finished)?;
    File::open(place)?.sync_all()
}

/// Removes a skill. A crash leaves all of it or only a hidden folder.
pub(super) fn forget(place: &Path, digest: Digest) -> io::Result<()> {
    set_aside(place, &place.join(digest.hex()))?;
    File::open(place)?.sync_all()
}

fn write(root: &Path, path: &str, content: &[u8]) -> io::Result<()> {
    let path = root.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::create_new(&path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Syncs the folders, because names are durable only when their folder is.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Renames a folder so that the next start removes it.
fn set_aside(place: &Path, folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let aside = place.join(format!("{UNFINISHED_PREFIX}old"));
    remove(&aside)?;
    fs::rename(folder, &aside)?;
    fs::remove_dir_all(&aside)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
