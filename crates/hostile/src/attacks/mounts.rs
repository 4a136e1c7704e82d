//! Changes of mounts: new ones, over others, and their flags.
//!
//! Controls work in a mount namespace of their own (in a user namespace, if the user is not root),
//! on a small tree made for the purpose; the host's mounts stay as they are.

use std::{fs, io, path::Path};

use ringfence_jail::attack::{self, Namespace};
use rustix::{
    fs::CWD,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
        MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount,
        mount_bind, mount_change, mount_remount, move_mount, open_tree, unmount,
    },
};

use crate::{
    AttackContext, Case, Finding, Group,
    child::in_child,
    context::worst,
    finding::{broken, escaped, held},
};

type Way = (&'static str, &'static str, fn(&str) -> io::Result<()>);

const WAYS: &[Way] = &[
    ("remount", "a read-only mount cannot be remounted writable", remount),
    ("setattr", "mount_setattr cannot make a mount writable", attack::set_remount_writable),
    ("fsmount", "fsopen and fsmount cannot put something over a mount", fs_mount),
    ("opentree", "open_tree and move_mount cannot copy a mount", copy_tree),
    ("tmpfs", "nothing can be mounted over a directory", |path| {
        Ok(mount("none", path, "tmpfs", MountFlags::empty(), None)?)
    }),
    ("bind", "no bind mount can be made", |path| Ok(mount_bind("/proc", path)?)),
    ("proc", "no second /proc can be mounted", |path| {
        Ok(mount("proc", path, "proc", MountFlags::empty(), None)?)
    }),
    ("overlay", "no overlay can be mounted", |path| {
        Ok(mount("overlay", path, "overlay", MountFlags::empty(), Some(c"lowerdir=/etc:/usr"))?)
    }),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            Group::Filesystem,
            "F25",
            "no mount of the host's disks is writable inside",
            writable_mounts,
        ),
        Case::new(
            Group::Filesystem,
            "F25.umount",
            "no mount can be taken off to see what is beneath",
            take_off,
        ),
    ];
    cases.extend(WAYS.iter().map(|(name, promise, way)| {
        let id = format!("F26.{name}");
        Case::new(Group::Filesystem, id, *promise, move |context| {
            in_child(|| change(context, *way))
        })
    }));
    cases
}

/// Tries one way on the sandbox's read-only trees; any success is an escape.
fn change(context: &AttackContext, way: fn(&str) -> io::Result<()>) -> Finding {
    if context.is_outside() {
        if let Err(error) = read_only_tree() {
            return context.refused("own mount namespace", &error);
        }
        // In another process, because a new pid namespace contains only children.
        return in_child(|| context.succeeded("the change", way("tree")));
    }
    let scratch = context.scratch().display().to_string();
    let targets = ["/usr", "/", "/etc", "/proc", scratch.as_str()];
    worst(targets.iter().map(|target| context.succeeded(target, way(target))))
        .unwrap_or_else(|| held("no target"))
}

/// A read-only mount of our own at `tree`, in namespaces of our own.
fn read_only_tree() -> io::Result<()> {
    attack::enter_own(Namespace::ALL[1].flag | Namespace::ALL[3].flag)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    fs::create_dir_all("tree")?;
    mount("none", "tree", "tmpfs", MountFlags::empty(), None)?;
    fs::write("tree/file", "x")?;
    mount_bind("tree", "tree")?;
    Ok(mount_remount("tree", MountFlags::BIND | MountFlags::RDONLY, "")?)
}

fn remount(path: &str) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND, "")?)
}

fn fs_mount(path: &str) -> io::Result<()> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let made = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(&made, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn copy_tree(path: &str) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let copy = open_tree(CWD, path, flags)?;
    Ok(move_mount(&copy, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Unmounts every mount; the control uncovers a hidden file.
fn take_off(context: &AttackContext) -> Finding {
    in_child(|| {
        if context.is_outside() {
            let prepared =
                read_only_tree().and_then(|()| Ok(unmount("tree", UnmountFlags::DETACH)?));
            return context.succeeded("umount2", prepared);
        }
        let mounts = mount_table().unwrap_or_default();
        let points = mounts.iter().map(|mount| mount.point.as_str()).chain(["/", "/proc", "/usr"]);
        let attempts = points.map(|point| {
            let answer = unmount(point, UnmountFlags::DETACH).map_err(io::Error::from);
            context.succeeded(point, answer)
        });
        worst(attempts).unwrap_or_else(|| held("no mount"))
    })
}

struct Mount {
    point: String,
    kind: String,
    writable: bool,
}

/// `/proc/self/mountinfo`: point and options, then the type after a lone dash.
fn mount_table() -> io::Result<Vec<Mount>> {
    let parse = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let fields: Vec<&str> = front.split(' ').collect();
        Some(Mount {
            point: (*fields.get(4)?).to_owned(),
            kind: back.split(' ').next()?.to_owned(),
            writable: fields.get(5)?.split(',').any(|option| option == "rw"),
        })
    };
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().filter_map(parse).collect())
}

/// File systems in memory that belong to the sandbox.
const OWN_KINDS: &[&str] = &["tmpfs", "proc", "devpts", "mqueue"];

fn writable_mounts(_: &AttackContext) -> Finding {
    let mounts = match mount_table() {
        Ok(mounts) => mounts,
        Err(error) => return broken(format!("mountinfo: {error}")),
    };
    let foreign = |mount: &&Mount| {
        let device = Path::new(&mount.point).parent() == Some(Path::new("/dev"));
        mount.writable && !device && !OWN_KINDS.contains(&mount.kind.as_str())
    };
    let not_ours = ["/sys", "/home", "/root", "/boot", "/var", "/run", "/mnt", "/opt", "/srv"];
    let forbidden = |mount: &&Mount| not_ours.contains(&mount.point.as_str());
    match mounts.iter().find(foreign).or_else(|| mounts.iter().find(forbidden)) {
        Some(mount) => escaped(format!("{} ({}) is there", mount.point, mount.kind)),
        None => held(format!("{} mounts, none of them the host's to write", mounts.len())),
    }
}
