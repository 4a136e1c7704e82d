//! The classic breakout: a second chroot, a handle outside of it, and many steps up.

use std::{fs, io, os::unix::fs::MetadataExt};

use ringfence_jail::attack;
use rustix::process::chroot;

use crate::{
    AttackContext, Case, Finding, Group,
    child::in_child,
    finding::{broken, escaped, held},
};

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(Group::Filesystem, "F24", "a chroot breakout stays inside", breakout)]
}

fn breakout(context: &AttackContext) -> Finding {
    let scratch = context.scratch();
    if let Err(error) = fs::create_dir_all(scratch.join("jail/deeper")) {
        return broken(format!("scratch: {error}"));
    }
    let finding = in_child(|| climb(context));
    drop(fs::remove_dir_all(scratch.join("jail")));
    finding
}

/// Climbs out of a chroot. The control first enters one, so that there is something to break out
/// of.
fn climb(context: &AttackContext) -> Finding {
    let climbed = || -> io::Result<bool> {
        std::env::set_current_dir(context.scratch().join("jail"))?;
        if context.is_outside() {
            attack::enter_own(0)?;
            chroot(".")?;
        }
        let before = identity()?;
        let handle = fs::File::open(".")?;
        chroot("deeper")?;
        rustix::process::fchdir(handle)?;
        for _ in 0..64 {
            std::env::set_current_dir("..")?;
        }
        chroot(".")?;
        Ok(identity()? != before)
    };
    match climbed() {
        Ok(true) => escaped("the root is another one now"),
        Ok(false) => held("the root is the same as before"),
        Err(error) => context.refused("chroot", &error),
    }
}

fn identity() -> io::Result<(u64, u64)> {
    fs::metadata("/").map(|root| (root.dev(), root.ino()))
}
