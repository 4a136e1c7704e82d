//! Additional calls of the zygote: those that build a child's sandbox.
//!
//! The zygote runs our code and imported libraries. Its filter limits what a flaw in a library can
//! reach, and each child drops the calls below before it runs user code.

use super::{Rule, allow, checks};

const ALLOWED: &[super::Allowed] = &[
    ("unshare", "gives the child its namespaces"),
    ("setns", "enters the namespaces prepared for the child"),
    ("clone", "starts the child in its namespaces, as a child of the launcher"),
    ("clone3", "asks for nothing that clone may not ask for here, and can enter a cgroup at birth"),
    ("mount", "builds the child's tree: proc, tmpfs, read-only binds"),
    ("umount2", "drops the old root after pivot_root"),
    ("fsopen", "builds a file system before it is visible anywhere"),
    ("fsconfig", "sets size and options of that file system"),
    ("fsmount", "turns it into a detached mount"),
    ("move_mount", "attaches a detached mount"),
    ("open_tree", "clones a prepared tree"),
    ("mount_setattr", "makes a cloned tree read-only in one step"),
    ("pivot_root", "makes the child's tree its root"),
    ("chroot", "enters the new root where pivot_root is not possible"),
    ("sethostname", "names the child's own UTS namespace"),
    ("setrlimit", "sets the child's limits, that of core dumps included"),
    ("prlimit64", "sets the child's limits, that of core dumps included"),
    ("connect", "a zygote has no listener; its children are checked"),
    ("listen", "a zygote has no listener; its children are checked"),
    ("sysinfo", "a zygote has no listener; its children are checked"),
    ("capset", "drops the capabilities of the child's user namespace"),
    ("seccomp", "stacks the program filter on the child"),
    ("prctl", "drops the bounding set, sets securebits, no_new_privs and the death signal"),
];

pub(super) fn rules() -> Vec<Rule> {
    let checked = checks::ZYGOTE_UNCOUNTED.iter().copied().chain([checks::ZYGOTE_IOCTL]);
    ALLOWED.iter().copied().map(allow).chain(checked).collect()
}
