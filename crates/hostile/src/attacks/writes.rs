//! Writing to what is read-only, by path and through a hard link.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::{
    Case, Finding, Ground, Group,
    finding::{escaped, held},
    ground::worst,
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
        Case::new(Group::Filesystem, id, promise, move |ground| create_in(ground, directory))
    }));
    let change = |(id, path): (&str, &'static str)| {
        let promise = format!("{path} cannot be changed");
        Case::new(Group::Filesystem, id, promise, move |ground| append_to(ground, path))
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

/// The control writes to a directory of ours: the host's own stay untouched.
fn create_in(ground: &Ground, directory: &str) -> Finding {
    let path = Path::new(ground.pick(directory, ".")).join("ringfence-probe");
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
    let findings = tries.into_iter().map(|(what, answer)| ground.succeeded(what, answer));
    worst(findings).unwrap_or_else(|| held("nothing was tried"))
}

/// Opens for writing, changes the mode, renames and truncates; the control does so to its own file.
fn append_to(ground: &Ground, path: &str) -> Finding {
    let path = ground.pick(path, "own-file");
    if ground.is_outside() && fs::write(path, "ours").is_err() {
        return ground.refused("scratch", &io::Error::last_os_error());
    }
    let opened = ground.succeeded("open for writing", OpenOptions::new().append(true).open(path));
    let mode = rustix::fs::chmod(path, 0o777.into()).map_err(io::Error::from);
    let moved = fs::rename(path, "moved-file");
    let findings = [opened, ground.succeeded("chmod", mode), ground.succeeded("rename", moved)];
    drop(fs::remove_file("moved-file"));
    worst(findings).unwrap_or_else(|| held("nothing was tried"))
}

/// Links a protected file into the workspace and writes through the link.
fn hard_link(ground: &Ground) -> Finding {
    let link = ground.scratch().join("linked");
    if ground.is_outside() && fs::write("original", "before").is_err() {
        return ground.refused("scratch", &io::Error::last_os_error());
    }
    let targets: &[&str] =
        ground.pick(&["/usr/bin/env", "/etc/passwd", "/.ringfence/attack"], &["original"]);
    let attempt = |target: &&str| {
        let linked = fs::hard_link(target, &link)
            .and_then(|()| OpenOptions::new().append(true).open(&link)?.write_all(b"after"));
        drop(fs::remove_file(&link));
        ground.succeeded(target, linked)
    };
    worst(targets.iter().map(attempt)).unwrap_or_else(|| held("no target"))
}

/// How often the control waits for its own program's file.
const BUSY_TRIES: usize = 100;

/// Keeps a handle of a program's file, lets the program end, and overwrites the file: the way in
/// which a container once replaced its own runtime on the host.
fn overwrite_programs(ground: &Ground) -> Finding {
    if ground.is_outside() {
        return overwrite_own_copy(ground);
    }
    let Ok(entries) = fs::read_dir("/proc") else { return held("no /proc to go through") };
    let attempts = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .map(|entry| write_to_program(ground, &entry.path().join("exe")));
    worst(attempts).unwrap_or_else(|| held("no process to be seen"))
}

/// While a program runs its file is busy whatever the permissions, so the mount decides then.
fn write_to_program(ground: &Ground, exe: &Path) -> Finding {
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
        answer => ground.succeeded(&what, answer),
    }
}

#[expect(clippy::disallowed_methods, reason = "the control runs a program of its own, outside")]
fn overwrite_own_copy(ground: &Ground) -> Finding {
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
    // Whoever forked while the copy was written holds it for a moment, until their own exec.
    let mut answer = overwrite();
    for _ in 0..BUSY_TRIES {
        if !matches!(&answer, Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        answer = overwrite();
    }
    drop(fs::remove_file("program"));
    ground.succeeded("overwriting an ended program", answer)
}
