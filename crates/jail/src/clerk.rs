//! Answers a sandbox's question about memory in the kernel's place.
//!
//! `sysinfo` tells a program the memory of the whole machine, and libc, Java and others size
//! themselves by it. The filter hands that one call to the service, which answers with the
//! sandbox's own limit. The asker is hostile: nothing it controls is read but the address for the
//! answer, and it is written to through the asker's own memory, where a bad address harms it alone.

use std::{
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    time::Duration,
};

use rustix::io::Errno;

const RECEIVE: libc::c_ulong = 0xc050_2100; // SECCOMP_IOCTL_NOTIF_RECV
const SEND: libc::c_ulong = 0xc018_2101; // SECCOMP_IOCTL_NOTIF_SEND
const ID_VALID: libc::c_ulong = 0x4008_2102; // SECCOMP_IOCTL_NOTIF_ID_VALID

/// What the sandbox is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its memory limit in bytes.
    pub memory: u64,
    /// How long it has been there.
    pub uptime: Duration,
}

/// Takes one question from a listener that is ready, and answers it. An asker that is gone by then
/// is no error.
pub fn answer(listener: BorrowedFd<'_>, facts: Facts) -> Result<(), Errno> {
    // SAFETY: the structure is plain data, and the kernel wants it zeroed.
    let mut question: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut question) })
        .or_else(gone)?;
    if question.id == 0 {
        return Ok(());
    }
    let error = match reply(listener, &question, facts) {
        Ok(()) => 0,
        Err(errno) => -errno.raw_os_error(),
    };
    let answer = libc::seccomp_notif_resp { id: question.id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads one `seccomp_notif_resp`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) }).or_else(gone)
}

/// Opens the asker's memory, makes sure that it is still the asker's, then writes.
fn reply(
    listener: BorrowedFd<'_>,
    question: &libc::seccomp_notif,
    facts: Facts,
) -> Result<(), Errno> {
    if i64::from(question.data.nr) != libc::SYS_sysinfo || question.pid == 0 {
        return Err(Errno::NOSYS);
    }
    let path = format!("/proc/{}/mem", question.pid);
    let memory = std::fs::OpenOptions::new().write(true).open(path).map_err(|_| Errno::NOSYS)?;
    // SAFETY: the kernel reads one u64, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID, &raw const question.id) })?;
    let info = facts.as_sysinfo();
    // SAFETY: `info` is plain data without padding that matters: it was zeroed as a whole.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const info).cast::<u8>(), size_of::<libc::sysinfo>())
    };
    memory.write_all_at(bytes, question.data.args[0]).map_err(|_| Errno::FAULT)
}

impl Facts {
    fn as_sysinfo(self) -> libc::sysinfo {
        // SAFETY: the structure is plain data, for which zero is a value.
        let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
        info.uptime = self.uptime.as_secs().cast_signed();
        info.totalram = self.memory;
        info.freeram = self.memory;
        info.procs = 1;
        info.mem_unit = 1;
        info
    }
}

fn ioctl(result: libc::c_int) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let raw = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(raw.unwrap_or(libc::EIO)))
}

/// The asker was killed while it waited.
fn gone(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}
