//! Files: their bytes, their number, their depth and their names.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use ringfence_types::Limit;
use rustix::{
    fs::{Advice, FallocateFlags, Mode, OFlags, fadvise, fallocate, fcntl_setfl, fsync, open},
    io::Errno,
};

use crate::{
    Case, Finding, Ground, Group, Judge,
    finding::{broken, escaped, held, not_applicable},
    ground::worst,
};

const MIB: u64 = 1 << 20;
/// What is tried, in MiB: more than the 16 of the sandbox, little for any host.
const MOST_MIB: u64 = 24;
/// What the sandbox may have of files in these cases.
const QUOTA_FILES: u64 = 256;
/// The sandbox adds what its own few files and directories take; a program can use what is spare.
const OURS: usize = 5;
/// What is tried: more than that, few enough for the slowest host disk.
const MOST_FILES: usize = 400;

type Grow = fn(&File, u64) -> io::Result<()>;
type Attack = fn(&Ground) -> Finding;
type Make = fn(&Path, usize) -> io::Result<()>;

pub(super) fn cases() -> Vec<Case> {
    let ways: [(&str, &str, Grow); 3] = [
        ("R05.write", "written bytes stop at the quota", write),
        ("R05.fallocate", "reserved bytes stop at the quota", reserve),
        ("R05.sparse", "a sparse file's bytes stop at the quota", sparse),
    ];
    let mut cases: Vec<Case> = ways
        .into_iter()
        .map(|(id, promise, grow)| {
            let attack = move |ground: &Ground| fill(ground, grow);
            Case::new(Group::Resources, id, promise, attack)
                .judged(Judge::ReportOrLimit(Limit::Disk))
        })
        .collect();
    let many: [(&str, &str, Make); 3] = [
        ("F31.files", "the number of files stops at the quota", empty_file),
        ("F31.names", "files with long names stop at the quota", long_name),
        ("F31.links", "symbolic links stop at the quota", |root, number| {
            std::os::unix::fs::symlink("/", root.join(format!("l{number}")))
        }),
    ];
    cases.extend(many.into_iter().map(|(id, promise, make)| {
        let attack = move |ground: &Ground| crowd(ground, make);
        Case::new(Group::Filesystem, id, promise, attack)
            .limited(|limits| limits.inodes = QUOTA_FILES)
            .judged(Judge::ReportOrLimit(Limit::Inodes))
    }));
    let promise = "very deep directories stop at the quota and are cleaned up";
    cases.push(
        Case::new(Group::Filesystem, "F31.deep", promise, dig)
            .limited(|limits| limits.inodes = QUOTA_FILES)
            .judged(Judge::ReportOrLimit(Limit::Inodes)),
    );
    let busy: [(&str, &str, Attack); 3] = [
        ("R06.direct", "no file is read past the page cache", read_directly),
        ("R06.evict", "no file is thrown out of the page cache", evict),
        ("R06.flush", "the host's disk is not flushed", flush),
    ];
    cases
        .extend(busy.map(|(id, promise, attack)| Case::new(Group::Resources, id, promise, attack)));
    cases
}

/// A file that is on the host's disk, whatever the root is.
const ON_DISK: &str = "/bin/sh";

fn read_directly(ground: &Ground) -> Finding {
    let open = |flags| open(ON_DISK, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty());
    let opened = open(OFlags::DIRECT).map(drop);
    // A file system in memory has no other way than its cache.
    if opened == Err(Errno::INVAL) && ground.pick(false, true) {
        return not_applicable(format!("{ON_DISK} is on a file system without direct reads"));
    }
    let set = open(OFlags::empty()).and_then(|file| fcntl_setfl(file, OFlags::DIRECT));
    let tried = [("opening it with O_DIRECT", opened), ("setting O_DIRECT later", set)];
    let found = tried.map(|(what, answer)| ground.succeeded(what, answer.map_err(io::Error::from)));
    worst(found).unwrap_or_else(|| broken("nothing was tried"))
}

fn evict(ground: &Ground) -> Finding {
    let answer = File::open(ON_DISK)
        .and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed).map(drop)?));
    ground.succeeded("dropping it from the page cache", answer)
}

/// A pipe has nothing to flush, which is how the kernel tells that it was asked.
fn flush(_: &Ground) -> Finding {
    match rustix::pipe::pipe().map(|(reading, _)| fsync(reading)) {
        Ok(Err(Errno::INVAL)) => escaped("fsync reached the kernel"),
        Ok(answer) => held(format!("fsync answered {answer:?} by itself")),
        Err(error) => broken(format!("no pipe: {error}")),
    }
}

/// Places that share one quota.
fn places(ground: &Ground) -> Vec<PathBuf> {
    let inside = vec![ground.scratch(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    ground.pick(inside, vec![".".into()])
}

/// Grows one file in each place by whole MiB until each is refused, and adds up.
fn fill(ground: &Ground, grow: Grow) -> Finding {
    let quota = ground.number("disk").unwrap_or(0) / MIB;
    let mut total = 0;
    let mut why = None;
    let mut files = Vec::new();
    for place in places(ground) {
        let path = place.join("hoard");
        let Ok(file) = File::create_new(&path) else { continue };
        files.push(path);
        for number in 0..MOST_MIB {
            match grow(&file, number) {
                Ok(()) => total += 1,
                Err(error) => {
                    why = Some(error);
                    break;
                }
            }
        }
    }
    files.iter().for_each(|path| drop(fs::remove_file(path)));
    match why {
        _ if total > quota => escaped(format!("{total} MiB, {quota} are allowed")),
        Some(error) if ground.is_outside() => not_applicable(format!("scratch: {error}")),
        Some(error) => held(format!("{total} MiB, then: {error}")),
        None => broken(format!("only {total} MiB were tried")),
    }
}

fn write(file: &File, number: u64) -> io::Result<()> {
    file.write_all_at(&vec![1; MIB as usize], number * MIB)
}

fn reserve(file: &File, number: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), number * MIB, MIB)?)
}

/// A giant by its apparent size, then real bytes far apart, then holes punched and filled again.
fn sparse(file: &File, number: u64) -> io::Result<()> {
    const APART: u64 = 1 << 30;
    file.set_len((number + 2) * APART)?;
    file.write_all_at(&vec![1; MIB as usize], number * APART)?;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if fallocate(file, hole, number * APART, MIB / 2).is_ok() {
        file.write_all_at(&vec![1; MIB as usize / 2], number * APART)?;
    }
    Ok(())
}

fn empty_file(root: &Path, number: usize) -> io::Result<()> {
    File::create(root.join(number.to_string())).map(drop)
}

fn long_name(root: &Path, number: usize) -> io::Result<()> {
    File::create(root.join(format!("{number:0>255}"))).map(drop)
}

/// Judges how many files could be made.
fn crowded(ground: &Ground, made: usize, why: Option<io::Error>) -> Finding {
    let quota = ground.number("inodes").unwrap_or(0) as usize;
    match why {
        _ if made > quota + OURS => escaped(format!("{made} files, {quota} are allowed")),
        Some(error) if ground.is_outside() => not_applicable(format!("scratch: {error}")),
        Some(error) => held(format!("{made} files, then: {error}")),
        None => broken(format!("only {made} files were tried")),
    }
}

fn crowd(ground: &Ground, make: Make) -> Finding {
    let root = ground.scratch().join("crowd");
    if let Err(error) = fs::create_dir_all(&root) {
        return broken(format!("scratch: {error}"));
    }
    let failure = (0..MOST_FILES).find_map(|number| Some((number, make(&root, number).err()?)));
    // Inside the files stay: removing them is the host's part.
    if ground.is_outside() {
        drop(fs::remove_dir_all(&root));
    }
    let (made, why) = failure.map_or((MOST_FILES, None), |(made, error)| (made, Some(error)));
    crowded(ground, made, why)
}

/// One directory in the other, far deeper than any path is long.
fn dig(ground: &Ground) -> Finding {
    let root = ground.scratch();
    let mut made = 0;
    let why = loop {
        let step = fs::create_dir("d").and_then(|()| std::env::set_current_dir("d"));
        match step {
            Ok(()) if made + 1 == MOST_FILES => break None,
            Ok(()) => made += 1,
            Err(error) => break Some(error),
        }
    };
    if ground.is_outside() {
        fill_in(made, ground.fact("scratch").map_or(root, PathBuf::from));
    }
    crowded(ground, made, why)
}

/// Climbs out again, taking each directory away; recursion would be as deep as the attack.
fn fill_in(depth: usize, root: PathBuf) {
    for _ in 0..=depth {
        if std::env::set_current_dir("..").is_err() || fs::remove_dir("d").is_err() {
            break;
        }
    }
    drop((std::env::set_current_dir(&root), fs::remove_dir(root.join("d"))));
}
