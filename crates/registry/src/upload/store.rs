//! Uploads on disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use ringfence_types::{Digest, Timestamp};

use crate::{files::Files, folder};

/// Folders that are not complete, or no longer wanted.
const UNFINISHED: &str = ".unfinished-";

/// One upload as it lies on disk.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What its folder says it is.
    pub(crate) digest: Digest,
    pub(crate) path: PathBuf,
    pub(crate) files: Result<Files, Vec<String>>,
    pub(crate) since: Option<Timestamp>,
}

/// Makes the folder for uploads and removes what a crash left in it.
pub(crate) fn prepare(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)?;
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// All uploads, sorted by the instant of registration. Whatever else lies there is not ours.
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

/// Keeps a skill. What lies under the same digest is replaced: it is this skill, or damaged.
pub(super) fn keep(place: &Path, digest: Digest, files: &Files, at: Timestamp) -> io::Result<()> {
    let unfinished = place.join(format!("{UNFINISHED}{}", digest.hex()));
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

/// Forgets a skill. A crash leaves all of it or nothing that anybody reads.
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

/// Names are durable only when the folder that has them is; the folders are all our own.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Moves a folder out of the way by a name that the next start removes.
fn set_aside(place: &Path, folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let aside = place.join(format!("{UNFINISHED}old"));
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
