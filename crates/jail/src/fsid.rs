//! File access under other ids, for the length of one closure and on one thread.
//!
//! A sandbox's tmpfs belongs to the sandbox's user namespace: the kernel refuses to create an inode
//! there for a uid which that namespace does not map, root included. So the host creates a box's
//! files *as the box's user*. The file-system ids are per thread, which is why this is not `seteuid`.
//!
//! Invariant: when [`with`] returns or unwinds, the thread has the ids it came with.

use std::io;

/// Error for ids that cannot be used: this process may not, or its user namespace does not map
/// them.
#[derive(Debug, thiserror::Error)]
#[error("act on files as uid {uid} gid {gid}")]
pub struct Error {
    /// Requested uid.
    pub uid: u32,
    /// Requested gid.
    pub gid: u32,
    #[source]
    cause: io::Error,
}

/// Runs `work` with the file-system ids `uid` and `gid`; nothing changes if they already are ours.
pub fn with<R>(uid: u32, gid: u32, work: impl FnOnce() -> R) -> Result<R, Error> {
    let _ids = Switched::to(uid, gid)?;
    Ok(work())
}

/// Previous ids of the thread, restored on drop.
struct Switched {
    uid: u32,
    gid: u32,
}

impl Switched {
    fn to(uid: u32, gid: u32) -> Result<Self, Error> {
        // The guard exists before the first change, so a half-done switch is undone as well.
        let before = Self { uid: set_uid(UNCHANGED), gid: set_gid(UNCHANGED) };
        // The group goes first: a changed fsuid takes the file capabilities away.
        if before.gid != gid {
            set_gid(gid);
        }
        if before.uid != uid {
            set_uid(uid);
        }
        if set_uid(UNCHANGED) == uid && set_gid(UNCHANGED) == gid {
            return Ok(before);
        }
        let cause = io::Error::from_raw_os_error(libc::EPERM);
        Err(Error { uid, gid, cause })
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        if set_uid(UNCHANGED) != self.uid {
            set_uid(self.uid);
        }
        if set_gid(UNCHANGED) != self.gid {
            set_gid(self.gid);
        }
    }
}

/// Invalid id: the call then changes nothing and returns the current one.
const UNCHANGED: u32 = u32::MAX;

/// Sets the thread's fsuid and returns the previous one. The call reports no errors.
fn set_uid(uid: u32) -> u32 {
    // SAFETY: the call takes an integer by value, touches no memory of ours and changes this thread only.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) as u32 }
}

/// Sets the thread's fsgid and returns the previous one. The call reports no errors.
fn set_gid(gid: u32) -> u32 {
    // SAFETY: the call takes an integer by value, touches no memory of ours and changes this thread only.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) as u32 }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::MetadataExt};

    use super::*;

    fn ids() -> (u32, u32) {
        (set_uid(UNCHANGED), set_gid(UNCHANGED))
    }

    fn owner_of_new_file(name: &str) -> (u32, u32) {
        let dir = tempfile::tempdir().expect("temp dir");
        rustix::fs::chmod(dir.path(), rustix::fs::Mode::from_raw_mode(0o777)).expect("chmod");
        let make = || File::create(dir.path().join(name)).expect("create");
        let file = if ids().0 == 0 { with(4242, 4343, make).expect("root may") } else { make() };
        let meta = file.metadata().expect("metadata");
        (meta.uid(), meta.gid())
    }

    #[test]
    fn our_own_ids_need_no_privilege() {
        let (uid, gid) = ids();
        assert_eq!(with(uid, gid, ids).expect("no change"), (uid, gid));
    }

    #[test]
    fn files_belong_to_the_borrowed_ids_and_the_thread_gets_its_own_back() {
        let before = ids();
        let expected = if before.0 == 0 { (4242, 4343) } else { before };
        assert_eq!(owner_of_new_file("a"), expected);
        assert_eq!(ids(), before);
    }

    #[test]
    fn a_panic_gives_the_ids_back() {
        let before = ids();
        let (uid, gid) = if before.0 == 0 { (4242, 4343) } else { before };
        let unwound = std::panic::catch_unwind(|| with(uid, gid, || panic!("inside")));
        assert!(unwound.is_err());
        assert_eq!(ids(), before);
    }

    #[test]
    fn an_id_that_cannot_be_taken_is_an_error_and_work_does_not_run() {
        // The highest id is the "no change" mark, which no user namespace can map.
        let mut ran = false;
        assert!(with(UNCHANGED, UNCHANGED, || ran = true).is_err());
        assert!(!ran);
    }
}
