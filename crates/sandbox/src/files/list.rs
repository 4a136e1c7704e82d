//! Listings of a workspace: bounded, without following symbolic links.

use rustix::{
    fs::{Dir, Stat},
    io::Errno,
};

use super::{
    BoxPath, InvalidPath, Kind, Reason, Refused,
    tree::{Tree, links, stat_name},
};

/// Bounds of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOptions {
    /// Whether directories below the first are read too.
    pub recursive: bool,
    /// Entries after which the listing stops.
    pub max_entries: usize,
    /// Levels below the listed directory that are read.
    pub max_depth: usize,
}

/// One name in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the workspace.
    pub path: BoxPath,
    /// Kind of file.
    pub kind: Kind,
    /// Its apparent size.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub links: u64,
    /// Seconds since the epoch at which its content last changed.
    pub modified_secs: i64,
}

/// Entries sorted by their bytes, so that a directory comes before its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Entries found.
    pub entries: Vec<Entry>,
    /// First omission, if something was left out.
    pub left_out: Option<LeftOut>,
}

/// A directory of a listing with entries left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The directory whose entries were left out.
    pub path: BoxPath,
    /// Reason for the omission.
    pub why: LeftOutBy,
}

/// Reason for leaving something out of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOutBy {
    /// [`ListOptions::max_entries`].
    MaxEntries,
    /// [`ListOptions::max_depth`].
    MaxDepth,
    /// The sandbox's user may not read the directory.
    Permission,
    /// An entry's path breaks a rule for paths, such as its length.
    Name(InvalidPath),
    /// The directory changed while it was read.
    Changed,
}

impl Listing {
    /// Whether everything is listed.
    pub fn is_complete(&self) -> bool {
        self.left_out.is_none()
    }

    fn leave_out(&mut self, path: &BoxPath, why: LeftOutBy) {
        self.left_out.get_or_insert_with(|| LeftOut { path: path.clone(), why });
    }
}

impl Entry {
    pub(crate) fn new(path: BoxPath, stat: &Stat) -> Self {
        Self {
            path,
            kind: Kind::of(stat),
            size: stat.st_size as u64,
            mode: stat.st_mode & 0o7777,
            links: links(stat),
            modified_secs: stat.st_mtime,
        }
    }
}

/// Lists `path`, which must be a directory itself and not a link to one.
pub(crate) fn list(tree: &Tree, path: &BoxPath, options: ListOptions) -> Result<Listing, Refused> {
    let mut listing = Listing { entries: Vec::new(), left_out: None };
    let top = path.depth();
    read_dir(tree, path, options, &mut listing)?;
    let mut next = 0;
    while options.recursive && next < listing.entries.len() {
        let entry = &listing.entries[next];
        next += 1;
        if entry.kind != Kind::Directory {
            continue;
        }
        if entry.path.depth() - top >= options.max_depth {
            let path = entry.path.clone();
            listing.leave_out(&path, LeftOutBy::MaxDepth);
            continue;
        }
        let below = entry.path.clone();
        // A directory that became inaccessible or vanished is no error of the listing.
        match read_dir(tree, &below, options, &mut listing) {
            Ok(()) => {}
            Err(Refused { reason: Reason::Denied, .. }) => {
                listing.leave_out(&below, LeftOutBy::Permission);
            }
            Err(_) => listing.leave_out(&below, LeftOutBy::Changed),
        }
    }
    listing.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

fn read_dir(
    tree: &Tree,
    path: &BoxPath,
    options: ListOptions,
    listing: &mut Listing,
) -> Result<(), Refused> {
    let fail = |errno| Refused::errno(path, errno);
    let fd = tree.open_dir(path)?;
    for item in Dir::read_from(&fd).map_err(fail)? {
        let item = item.map_err(fail)?;
        let name = item.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if listing.entries.len() >= options.max_entries {
            listing.leave_out(path, LeftOutBy::MaxEntries);
            return Ok(());
        }
        match (path.join(name), stat_name(&fd, name)) {
            (Ok(path), Ok(stat)) => listing.entries.push(Entry::new(path, &stat)),
            (Ok(_), Err(Errno::NOENT)) => {}
            (Err(invalid), _) => listing.leave_out(path, LeftOutBy::Name(invalid)),
            (Ok(_), Err(Errno::ACCESS)) => listing.leave_out(path, LeftOutBy::Permission),
            (Ok(_), Err(_)) => listing.leave_out(path, LeftOutBy::Changed),
        }
    }
    Ok(())
}
