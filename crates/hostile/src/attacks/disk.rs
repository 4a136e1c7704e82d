//! Limits of files: bytes, number, depth and names.

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
    AttackContext, Case, Criterion, Finding, Group,
    context::worst,
    finding::{broken, escaped, held, not_applicable},
};

const MIB: u64 = 1 << 20;
/// MiB tried: more than the 16 of the sandbox, little for any host.
const MIB_TRIED: u64 = 24;
/// File quota of the sandbox in these cases.
const QUOTA_FILES: u64 = 256;
/// Files that the sandbox adds for its own directories; a program can use the spare ones.
const OWN_FILES: usize = 5;
/// Number of files tried: more than the quota, few enough for the slowest host disk.
const MAX_FILES: usize = 400;

type Grow = fn(&File, u64) -> io::Result<()>;
type Attack = fn(&AttackContext) -> Finding;
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
            let attack = move |context: &AttackContext| fill(context, grow);
            Case::new(Group::Resources, id, promise, attack)
                .judged(Criterion::ReportOrLimit(Limit::Disk))
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
        let attack = move |context: &AttackContext| crowd(context, make);
        Case::new(Group::Filesystem, id, promise, attack)
            .limited(|limits| limits.inodes = QUOTA_FILES)
            .judged(Criterion::ReportOrLimit(Limit::Inodes))
    }));
    let promise = "very deep directories stop at the quota and are cleaned up";
    cases.push(
        Case::new(Group::Filesystem, "F31.deep", promise, dig)
            .limited(|limits| limits.inodes = QUOTA_FILES)
            .judged(Criterion::ReportOrLimit(Limit::Inodes)),
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

/// A file that is on the host's disk, with any root.
const ON_DISK: &str = "/bin/sh";

fn read_directly(context: &AttackContext) -> Finding {
    let open = |flags| open(ON_DISK, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty());
    let opened = open(OFlags::DIRECT).map(drop);
    // A file system in memory has no direct I/O.
    if opened == Err(Errno::INVAL) && context.pick(false, true) {
        return not_applicable(format!("{ON_DISK} is on a file system without direct reads"));
    }
    let set = open(OFlags::empty()).and_then(|file| fcntl_setfl(file, OFlags::DIRECT));
    let tried = [("opening it with O_DIRECT", opened), ("setting O_DIRECT later", set)];
    let found =
        tried.map(|(what, answer)| context.succeeded(what, answer.map_err(io::Error::from)));
    worst(found).unwrap_or_else(|| broken("nothing was tried"))
}

fn evict(context: &AttackContext) -> Finding {
    let answer = File::open(ON_DISK)
        .and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed).map(drop)?));
    context.succeeded("dropping it from the page cache", answer)
}

/// Flushes a pipe, which has nothing to flush: the kernel answers with an error if it was reached.
fn flush(_: &AttackContext) -> Finding {
    match rustix::pipe::pipe().map(|(reading, _)| fsync(reading)) {
        Ok(Err(Errno::INVAL)) => escaped("fsync reached the kernel"),
        Ok(answer) => held(format!("fsync answered {answer:?} by itself")),
        Err(error) => broken(format!("no pipe: {error}")),
    }
}

/// Directories that share one quota.
fn places(context: &AttackContext) -> Vec<PathBuf> {
    let inside = vec![context.scratch(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    context.pick(inside, vec![".".into()])
}

/// Grows one file in each directory by whole MiB until each is refused; counts the sum.
fn fill(context: &AttackContext, grow: Grow) -> Finding {
    let quota = context.number("disk").unwrap_or(0) / MIB;
    let mut total = 0;
    let mut why = None;
    let mut files = Vec::new();
    for place in places(context) {
        let path = place.join("hoard");
        let Ok(file) = File::create_new(&path) else { continue };
        files.push(path);
        for number in 0..MIB_TRIED {
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
        Some(error) if context.is_outside() => not_applicable(format!("scratch: {error}")),
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

/// A large apparent size, then real bytes far apart, then holes punched and filled again.
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

/// Finding for the number of files that could be made.
fn crowded(context: &AttackContext, made: usize, why: Option<io::Error>) -> Finding {
    let quota = context.number("inodes").unwrap_or(0) as usize;
    match why {
        _ if made > quota + OWN_FILES => escaped(format!("{made} files, {quota} are allowed")),
        Some(error) if context.is_outside() => not_applicable(format!("scratch: {error}")),
        Some(error) => held(format!("{made} files, then: {error}")),
        None => broken(format!("only {made} files were tried")),
    }
}

fn crowd(context: &AttackContext, make: Make) -> Finding {
    let root = context.scratch().join("crowd");
    if let Err(error) = fs::create_dir_all(&root) {
        return broken(format!("scratch: {error}"));
    }
    let failure = (0..MAX_FILES).find_map(|number| Some((number, make(&root, number).err()?)));
    // Inside the files stay: the host has to remove them.
    if context.is_outside() {
        drop(fs::remove_dir_all(&root));
    }
    let (made, why) = failure.map_or((MAX_FILES, None), |(made, error)| (made, Some(error)));
    crowded(context, made, why)
}

/// Nests directories far deeper than the longest path.
fn dig(context: &AttackContext) -> Finding {
    let root = context.scratch();
    let mut made = 0;
    let why = loop {
        let step = fs::create_dir("d").and_then(|()| std::env::set_current_dir("d"));
        match step {
            Ok(()) if made + 1 == MAX_FILES => break None,
            Ok(()) => made += 1,
            Err(error) => break Some(error),
        }
    };
    if context.is_outside() {
        fill_in(made, context.fact("scratch").map_or(root, PathBuf::from));
    }
    crowded(context, made, why)
}

/// Removes the nested directories from the inside; recursion would be as deep as the attack.
fn fill_in(depth: usize, root: PathBuf) {
    for _ in 0..=depth {
        if std::env::set_current_dir("..").is_err() || fs::remove_dir("d").is_err() {
            break;
        }
    }
    drop((std::env::set_current_dir(&root), fs::remove_dir(root.join("d"))));
}
