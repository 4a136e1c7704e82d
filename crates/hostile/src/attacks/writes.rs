//! Writes to read-only files, by path and through a hard link.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::{
    AttackContext, Case, Finding, Group,
    context::worst,
    finding::{escaped, held},
};

/// Directories of the root that belong to the host or to us.
const READ_ONLY: &[&str] =
    &["/", "/usr", "/usr/bin", "/etc", "/bin", "/lib", "/dev", "/.ringfence"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(Group::Filesystem, "F07", "a hard link cannot reach a read-only file", hard_link),
        Case::new(
            Group::Filesystem,
            "F21",
            "no program's own file can be overwritten",
            overwrite_programs,
        ),
    ];
    cases.extend(READ_ONLY.iter().map(|directory| {
        let id = format!("F26.write.{}", name(directory));
        let promise = format!("nothing can be created in {directory}");
        Case::new(Group::Filesystem, id, promise, move |context| create_in(context, directory))
    }));
    let change = |(id, path): (&str, &'static str)| {
        let promise = format!("{path} cannot be changed");
        Case::new(Group::Filesystem, id, promise, move |context| append_to(context, path))
    };
    let files = [
        ("F26.change.passwd", "/etc/passwd"),
        ("F26.change.env", "/usr/bin/env"),
        ("F26.change.attack", "/.ringfence/attack"),
    ];
    cases.extend(files.map(change));
    cases
}

fn name(directory: &str) -> String {
    let name = directory.trim_matches(['/', '.']).replace('/', "-");
    if name.is_empty() { "root".into() } else { name }
}

/// Creates a file in a directory; the control does so in one of its own.
fn create_in(context: &AttackContext, directory: &str) -> Finding {
    let path = Path::new(context.pick(directory, ".")).join("ringfence-probe");
    let tries = [
        ("create", File::create(&path).map(drop)),
        ("mkdir", fs::create_dir(path.with_extension("d"))),
        ("symlink", std::os::unix::fs::symlink("/etc/passwd", path.with_extension("l"))),
        (
            "fifo",
            rustix::fs::mkfifoat(rustix::fs::CWD, path.with_extension("p"), 0o600.into())
                .map_err(io::Error::from),
        ),
    ];
    drop((fs::remove_file(&path), fs::remove_dir(path.with_extension("d"))));
    drop((fs::remove_file(path.with_extension("l")), fs::remove_file(path.with_extension("p"))));
    let findings = tries.into_iter().map(|(what, answer)| context.succeeded(what, answer));
    worst(findings).unwrap_or_else(|| held("nothing was tried"))
}

/// Opens for writing, changes the mode, renames and truncates; the control does so to its own file.
fn append_to(context: &AttackContext, path: &str) -> Finding {
    let path = context.pick(path, "own-file");
    if context.is_outside() && fs::write(path, "ours").is_err() {
        return context.refused("scratch", &io::Error::last_os_error());
    }
    let opened = context.succeeded("open for writing", OpenOptions::new().append(true).open(path));
    let mode = rustix::fs::chmod(path, 0o777.into()).map_err(io::Error::from);
    let moved = fs::rename(path, "moved-file");
    let findings = [opened, context.succeeded("chmod", mode), context.succeeded("rename", moved)];
    drop(fs::remove_file("moved-file"));
    worst(findings).unwrap_or_else(|| held("nothing was tried"))
}

/// Links a protected file into the workspace and writes through the link.
fn hard_link(context: &AttackContext) -> Finding {
    let link = context.scratch().join("linked");
    if context.is_outside() && fs::write("original", "before").is_err() {
        return context.refused("scratch", &io::Error::last_os_error());
    }
    let targets: &[&str] =
        context.pick(&["/usr/bin/env", "/etc/passwd", "/.ringfence/attack"], &["original"]);
    let attempt = |target: &&str| {
        let linked = fs::hard_link(target, &link)
            .and_then(|()| OpenOptions::new().append(true).open(&link)?.write_all(b"after"));
        drop(fs::remove_file(&link));
        context.succeeded(target, linked)
    };
    worst(targets.iter().map(attempt)).unwrap_or_else(|| held("no target"))
}

/// Number of times the control waits for its own program's file.
const BUSY_TRIES: usize = 100;

/// Keeps a handle of a program's file, lets the program end, and overwrites the file: a container
/// once replaced its own runtime on the host this way.
fn overwrite_programs(context: &AttackContext) -> Finding {
    if context.is_outside() {
        return overwrite_own_copy(context);
    }
    let Ok(entries) = fs::read_dir("/proc") else { return held("no /proc to go through") };
    let attempts = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .map(|entry| write_to_program(context, &entry.path().join("exe")));
    worst(attempts).unwrap_or_else(|| held("no process to be seen"))
}

/// Writes to a program's file. While the program runs its file is busy with any permissions, so the
/// mount decides then.
fn write_to_program(context: &AttackContext, exe: &Path) -> Finding {
    let what = exe.display().to_string();
    match OpenOptions::new().write(true).open(exe) {
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
            let flags = rustix::fs::statvfs(exe).map(|stat| stat.f_flag);
            match flags {
                Ok(flags) if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) => {
                    held(format!("{what} lies on a read-only mount"))
                }
                _ => escaped(format!("{what} is only busy, not protected")),
            }
        }
        answer => context.succeeded(&what, answer),
    }
}

#[expect(clippy::disallowed_methods, reason = "the control runs a program of its own, outside")]
fn overwrite_own_copy(context: &AttackContext) -> Finding {
    let overwrite = || -> io::Result<()> {
        fs::copy("/bin/sleep", "program")?;
        let mut child = std::process::Command::new("./program").arg("3").spawn()?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let exe = format!("/proc/{}/exe", child.id());
        let handle = rustix::fs::open(exe, flags, 0.into());
        child.kill()?;
        child.wait()?;
        let handle = handle?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&handle);
        OpenOptions::new().write(true).open(format!("/proc/self/fd/{number}"))?.write_all(b"x")
    };
    // A process that forked while the copy was written holds it for a moment, until its own exec.
    let mut answer = overwrite();
    for _ in 0..BUSY_TRIES {
        if !matches!(&answer, Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        answer = overwrite();
    }
    drop(fs::remove_file("program"));
    context.succeeded("overwriting an ended program", answer)
}
