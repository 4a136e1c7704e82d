//! Content of the test machine: a small Debian made of this host's own files.
//!
//! The binary's default root is the host's `/usr`, so the machine needs a real one: a dynamic
//! loader, bash, the core utilities and Python with its standard library. busybox provides the
//! rest.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cpio::Archive;
use super::scratch::Scratch;
use crate::shell;

/// Real programs (not busybox applets) that sandboxed code may call.
const PROGRAMS: &[&str] = &[
    "bash", "cat", "chmod", "cp", "dd", "echo", "env", "false", "head", "id", "ln", "ls", "mkdir",
    "mkfifo", "mv", "nproc", "rm", "seq", "setpriv", "sleep", "sort", "stat", "tail", "timeout",
    "touch", "tr", "true", "uname", "wc", "yes",
];

/// Parts of the standard library that are not needed here.
const PYTHON_LEFT_OUT: &[&str] = &[
    "dist-packages",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
];

/// Largest initramfs: it and its unpacked copy take two fifths of the machine's memory, and the largest
/// sandbox of the suite half of it. The stripped debug binary is two thirds of it.
const MAX_BYTES: usize = 208 << 20;

/// Builds the initramfs. Each of `built` becomes `/usr/bin/NAME`; `script` runs at boot.
pub fn build(built: &[(&str, &Path)], script: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    skeleton(&mut archive, script);
    add_python(&mut archive)?;
    for name in PROGRAMS {
        let program = shell::find_program(name).with_context(|| format!("find `{name}`"))?;
        add_with_libraries(&mut archive, &program, &format!("usr/bin/{name}"))?;
    }
    for (name, binary) in built {
        add_binary(&mut archive, name, binary)?;
    }
    add_busybox(&mut archive)?;
    let bytes = archive.finish();
    if bytes.len() > MAX_BYTES {
        bail!("the initramfs grew to {} MiB, the limit is {}", bytes.len() >> 20, MAX_BYTES >> 20);
    }
    Ok(bytes)
}

/// Adds a binary under test without its debugging information and names: those are most of a debug
/// build, and the machine has little memory.
pub(super) fn add_binary(archive: &mut Archive, name: &str, binary: &Path) -> Result<()> {
    for library in libraries(binary)? {
        add_file(archive, &library, &inside(&library))?;
    }
    let stripped = Scratch::create("stripped", &[])?;
    shell::run(
        shell::command("strip").args(["--strip-all", "-o"]).arg(&stripped.path).arg(binary),
    )?;
    let bytes = fs::read(&stripped.path).context("read the stripped binary")?;
    archive.file(&format!("usr/bin/{name}"), 0o755, &bytes);
    Ok(())
}

fn skeleton(archive: &mut Archive, script: &str) {
    // Only what no file below brings along: mount points and the merged-/usr links.
    for path in ["proc", "sys", "dev", "tmp", "run", "root", "home", "var/tmp", "usr/sbin"] {
        archive.directory(path);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.directory(&format!("usr/{name}"));
        archive.symlink(name, &format!("usr/{name}"));
    }
    archive.character_device("dev/console", 0o600, (5, 1));
    archive.character_device("dev/null", 0o666, (1, 3));
    archive.file("etc/passwd", 0o644, PASSWD.as_bytes());
    archive.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n");
    archive.file("etc/shadow", 0o600, b"root:*:19000:0:99999:7:::\n");
    archive.file("etc/hosts", 0o644, b"127.0.0.1 localhost\n");
    archive.file("etc/nsswitch.conf", 0o644, b"passwd: files\ngroup: files\nhosts: files\n");
    archive.file("etc/hostname", 0o644, b"ringfence-vm\n");
    archive.file("init", 0o755, include_bytes!("init.sh"));
    archive.file("usr/bin/rootless", 0o755, include_bytes!("rootless.sh"));
    archive.file("command", 0o755, script.as_bytes());
}

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"; // tidy-ok: an account name

/// busybox under its own name.
pub(super) fn add_busybox_alone(archive: &mut Archive) -> Result<()> {
    let busybox = shell::find_program("busybox").context("find `busybox` (busybox-static)")?;
    add_file(archive, &busybox, "usr/bin/busybox")
}

/// busybox under its own name, and under every applet name that no real program has taken.
fn add_busybox(archive: &mut Archive) -> Result<()> {
    let busybox = shell::find_program("busybox").context("find `busybox` (busybox-static)")?;
    if !libraries(&busybox)?.is_empty() {
        bail!("`{}` is not static; install busybox-static", busybox.display());
    }
    add_file(archive, &busybox, "usr/bin/busybox")?;
    for applet in shell::read(shell::command(&busybox).arg("--list"))?.lines() {
        archive.symlink(&format!("usr/bin/{applet}"), "busybox");
    }
    Ok(())
}

fn add_python(archive: &mut Archive) -> Result<()> {
    let python = fs::canonicalize("/usr/bin/python3").context("find `/usr/bin/python3`")?;
    let name = python.file_name().and_then(|name| name.to_str()).context("name of python3")?;
    add_with_libraries(archive, &python, &format!("usr/bin/{name}"))?;
    archive.symlink("usr/bin/python3", name);
    let library = PathBuf::from("/usr/lib").join(name);
    for file in python_files(&library)? {
        let inside = inside(&file);
        if file.extension().is_some_and(|extension| extension == "so") {
            add_with_libraries(archive, &file, &inside)?;
        } else {
            add_file(archive, &file, &inside)?;
        }
    }
    Ok(())
}

fn python_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("read directory `{}`", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // `config-*` holds the static library for embedding, a third of the whole.
            let is_left_out =
                PYTHON_LEFT_OUT.contains(&name.as_str()) || name.starts_with("config-");
            if path.is_dir() && !is_left_out {
                pending.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn add_with_libraries(archive: &mut Archive, file: &Path, name: &str) -> Result<()> {
    for library in libraries(file)? {
        add_file(archive, &library, &inside(&library))?;
    }
    add_file(archive, file, name)
}

fn add_file(archive: &mut Archive, file: &Path, name: &str) -> Result<()> {
    if archive.contains(name) {
        return Ok(());
    }
    let problem = || format!("read `{}` for the initramfs", file.display());
    let permissions = fs::metadata(file).with_context(problem)?.permissions().mode();
    archive.file(name, permissions & 0o777, &fs::read(file).with_context(problem)?);
    Ok(())
}

/// Path of a host path in the machine: relative, and below `usr` as on any merged system.
fn inside(path: &Path) -> String {
    let path = path.to_string_lossy();
    let relative = path.trim_start_matches('/');
    match relative.split('/').next() {
        Some("bin" | "sbin" | "lib" | "lib64") => format!("usr/{relative}"),
        _ => relative.to_owned(),
    }
}

/// The shared libraries of an executable, the loader included; none if it is static.
fn libraries(file: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = shell::command("ldd").arg(file).output().context("start `ldd`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("=> not found") {
        bail!("`{}` lacks a shared library on this host:\n{text}", file.display());
    }
    Ok(parse_ldd(&text))
}

fn parse_ldd(text: &str) -> BTreeSet<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_paths_move_below_usr() {
        assert_eq!(
            inside(Path::new("/lib64/ld-linux-x86-64.so.2")),
            "usr/lib64/ld-linux-x86-64.so.2"
        );
        assert_eq!(inside(Path::new("/usr/lib/libz.so.1")), "usr/lib/libz.so.1");
        assert_eq!(inside(Path::new("/library/x")), "library/x");
    }

    #[test]
    fn ldd_lines_yield_libraries_and_loader_but_no_vdso() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected: BTreeSet<PathBuf> =
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
                .map(PathBuf::from)
                .into();
        assert_eq!(parse_ldd(text), expected);
        assert_eq!(parse_ldd("\tnot a dynamic executable\n"), BTreeSet::new());
    }
}
