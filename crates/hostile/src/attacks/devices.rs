//! Making and opening devices.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, makedev, mknodat};

use crate::{
    AttackContext, Case, Finding, Group,
    context::worst,
    finding::{escaped, held, not_applicable},
};

/// Devices that any program may have.
const MINIMAL: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"];

/// Devices of many hosts whose opening alone has no effect.
const OPENABLE: &[&str] = &[
    "/dev/kmsg",
    "/dev/fuse",
    "/dev/net/tun",
    "/dev/loop-control",
    "/dev/userfaultfd",
    "/dev/kvm",
    "/dev/mem",
    "/dev/port",
    "/dev/mapper/control",
    "/dev/vsock",
    "/dev/vhost-net",
    "/dev/uinput",
];

pub(super) fn cases() -> Vec<Case> {
    let mknod = [
        ("F27.mknod.mem", FileType::CharacterDevice, (1, 1)),
        ("F27.mknod.kmsg", FileType::CharacterDevice, (1, 11)),
        ("F27.mknod.disk", FileType::BlockDevice, (8, 0)),
        ("F27.mknod.virtio", FileType::BlockDevice, (254, 0)),
    ];
    let mut cases: Vec<Case> = mknod
        .map(|(id, kind, number)| {
            let promise = "no device of the host can be made";
            Case::new(Group::Filesystem, id, promise, move |context| make(context, kind, number))
        })
        .into();
    let promise = "no device beyond the minimal set can be opened";
    cases.push(Case::new(Group::Filesystem, "F27.open", promise, open_known));
    let promise = "/dev holds the minimal set only";
    cases.push(Case::new(Group::Filesystem, "F27.set", promise, list_devices));
    cases
}

/// Makes a device. The control makes the null device instead of the one in the case.
fn make(context: &AttackContext, kind: FileType, (major, minor): (u32, u32)) -> Finding {
    let path = context.scratch().join("device");
    let (kind, device) =
        context.pick((kind, makedev(major, minor)), (FileType::CharacterDevice, makedev(1, 3)));
    let made = mknodat(CWD, &path, kind, 0o600.into(), device).map_err(io::Error::from);
    let opened = made.and_then(|()| OpenOptions::new().read(true).open(&path));
    drop(fs::remove_file(&path));
    context.succeeded("mknod and open", opened)
}

fn open_known(context: &AttackContext) -> Finding {
    let open = |path: &&str| {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let answer = OpenOptions::new().read(true).custom_flags(flags).open(path);
        match answer {
            Ok(_) => escaped(format!("{path} was opened")),
            Err(error) if context.is_outside() => not_applicable(format!("{path}: {error}")),
            Err(error) => held(format!("{path}: {error}")),
        }
    };
    worst(OPENABLE.iter().map(open)).unwrap_or_else(|| held("none"))
}

/// Lists devices. Their presence is enough to fail: some devices act on being opened, so none is
/// opened.
fn list_devices(_: &AttackContext) -> Finding {
    let mut extra = Vec::new();
    collect(Path::new("/dev"), 0, &mut extra);
    match extra.first() {
        Some(first) => {
            escaped(format!("{} devices more, such as {}", extra.len(), first.display()))
        }
        None => held("the minimal set only"),
    }
}

fn collect(directory: &Path, depth: usize, extra: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().take(1000) {
        let Ok(kind) = entry.file_type() else { continue };
        let known = MINIMAL.iter().any(|name| entry.file_name() == *name)
            || directory == Path::new("/dev/pts");
        if kind.is_dir() && depth < 3 {
            collect(&entry.path(), depth + 1, extra);
        } else if (kind.is_block_device() || kind.is_char_device()) && !known {
            extra.push(entry.path());
        }
    }
}
