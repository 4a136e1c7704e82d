//! Programs with more privileges than their caller: setuid files and file capabilities.

use std::{
    fs, io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Command, Stdio},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::{
    AttackContext, Case, Finding, Group,
    context::worst,
    finding::{broken, escaped, held, not_applicable},
};

/// Programs that are setuid root on most hosts, and only print help here.
const CANDIDATES: &[&str] = &[
    "/usr/bin/passwd",
    "/usr/bin/chsh",
    "/usr/bin/chfn",
    "/usr/bin/gpasswd",
    "/usr/bin/newgrp",
    "/usr/bin/umount",
    "/usr/bin/mount",
    "/usr/bin/su",
    "/bin/su",
    "/bin/mount",
];

/// Uid without any privilege, for the control as root.
const UNPRIVILEGED_ID: u32 = 65534;

pub(super) fn cases() -> Vec<Case> {
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Filesystem, id, promise, attack)
    };
    vec![
        case("F28.setuid", "a setuid-root program gains nothing", run_setuid),
        case("F28.filecaps", "no file can be given capabilities", give_capabilities),
        case("F28.nnp", "no exec can ever gain a privilege", new_privileges),
        case("F28.setid-calls", "no other user or group can be taken on", take_ids),
    ]
}

fn run_setuid(context: &AttackContext) -> Finding {
    let setuid = |path: &&&str| fs::metadata(path).is_ok_and(|file| file.mode() & 0o4000 != 0);
    let tries = CANDIDATES.iter().filter(setuid).map(|path| match effective_uid(context, path) {
        Ok((real, effective)) if real == effective => held(format!("{path} ran as {effective}")),
        Ok((_, effective)) => escaped(format!("{path} ran as {effective}")),
        Err(error) => context.refused(path, &error),
    });
    let none = || {
        let text = "no setuid-root program here";
        if context.is_outside() { not_applicable(text) } else { held(text) }
    };
    let finding = worst(tries).unwrap_or_else(none);
    if context.is_outside() && finding.verdict == crate::Verdict::Held {
        return not_applicable("the host's own mounts or no_new_privs stop setuid programs");
    }
    finding
}

/// Uids of a program at its end: a zombie keeps them until it is reaped.
#[expect(clippy::disallowed_methods, reason = "the attack starts the host's setuid programs")]
fn effective_uid(context: &AttackContext, path: &str) -> io::Result<(u32, u32)> {
    let mut command = Command::new(path);
    command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if context.is_outside() && rustix::process::geteuid().is_root() {
        command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
    }
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    child.wait()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let mut ids = line.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok());
    let pair = ids.next().zip(ids.next());
    pair.ok_or_else(|| io::Error::other("its status has no uid"))
}

/// `security.capability`, version 2: CAP_SYS_ADMIN permitted and effective.
fn give_capabilities(context: &AttackContext) -> Finding {
    let path = context.scratch().join("capable");
    if let Err(error) = fs::write(&path, "#!/bin/sh\n") {
        return broken(format!("scratch: {error}"));
    }
    let words = [0x0200_0001_u32, 1 << 21, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    let answer = rustix::fs::setxattr(&path, "security.capability", &value, flags);
    drop(fs::remove_file(&path));
    context.succeeded("setxattr", answer.map_err(io::Error::from))
}

fn new_privileges(context: &AttackContext) -> Finding {
    match rustix::thread::no_new_privs() {
        Ok(true) if context.is_outside() => not_applicable("this process has no_new_privs already"),
        Ok(true) => held("no_new_privs is set"),
        Ok(false) => escaped("no_new_privs is not set"),
        Err(error) => broken(error.to_string()),
    }
}

/// Changes to another user or group, by each call.
fn take_ids(context: &AttackContext) -> Finding {
    use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let id = if rustix::process::getuid().is_root() { UNPRIVILEGED_ID } else { 0 };
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    let calls = [
        ("setgroups", set_thread_groups(&[gid])),
        ("setresgid", set_thread_res_gid(gid, gid, gid)),
        ("setresuid", set_thread_res_uid(uid, uid, uid)),
    ];
    let tried = calls
        .into_iter()
        .map(|(name, answer)| context.succeeded(name, answer.map_err(io::Error::from)));
    worst(tried).unwrap_or_else(|| held("no call"))
}
