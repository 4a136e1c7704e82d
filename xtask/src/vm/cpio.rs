//! Archive format of an initramfs ("newc"), written into memory.
//!
//! The format is one fixed header per entry, so writing it takes less code than staging a tree
//! on disk and calling `cpio` would, and device nodes need no privilege.
//! Reference: `Documentation/driver-api/early-userspace/buffer-format.rst` of the kernel.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_000;

/// An initramfs under construction. Paths are relative to the root, without a leading slash.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    // The kernel unpacks in order and fails on a file whose directory is missing, so parents are
    // written first; the set also makes adding a path twice harmless.
    seen: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// Adds a directory and its parents.
    pub fn directory(&mut self, path: &str) {
        if !path.is_empty() {
            self.entry(path, DIRECTORY, (0, 0), &[]);
        }
    }

    /// Adds a directory with the given permission bits.
    pub fn directory_with(&mut self, path: &str, permissions: u32) {
        self.entry(path, 0o040_000 | (permissions & 0o7777), (0, 0), &[]);
    }

    /// Adds a regular file with the given permission bits.
    pub fn file(&mut self, path: &str, permissions: u32, data: &[u8]) {
        self.entry(path, REGULAR | (permissions & 0o7777), (0, 0), data);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK, (0, 0), target.as_bytes());
    }

    /// Adds a character device.
    pub fn character_device(&mut self, path: &str, permissions: u32, number: (u32, u32)) {
        self.entry(path, CHARACTER | permissions, number, &[]);
    }

    /// Whether the path was added already.
    pub fn contains(&self, path: &str) -> bool {
        self.seen.contains(path)
    }

    /// Closes the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.record("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        if self.seen.contains(path) {
            return;
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
        self.seen.insert(path.to_owned());
        self.record(path, mode, device, data);
    }

    fn record(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        self.inode += 1;
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        let size = u32::try_from(data.len()).expect("an initramfs entry is far below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a path is far below 4 GiB");
        self.bytes.extend_from_slice(b"070701");
        for field in
            [self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0]
        {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Stdio;

    use super::*;

    fn sample() -> Vec<u8> {
        let mut archive = Archive::default();
        archive.file("usr/bin/tool", 0o755, b"#!/bin/sh\n");
        archive.symlink("bin", "usr/bin");
        archive.character_device("dev/console", 0o600, (5, 1));
        archive.directory("usr");
        archive.finish()
    }

    #[test]
    fn parents_come_first_and_nothing_comes_twice() {
        let bytes = sample();
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<&str> = text
            .match_indices("070701")
            .map(|(at, _)| text[at + 110..].split('\0').next().expect("a name"))
            .collect();
        assert_eq!(
            names,
            ["usr", "usr/bin", "usr/bin/tool", "bin", "dev", "dev/console", "TRAILER!!!"]
        );
    }

    #[test]
    fn busybox_reads_what_we_write() {
        let Some(busybox) = crate::shell::find_program("busybox") else {
            return crate::settings::skip("busybox_reads_what_we_write", "no busybox");
        };
        let mut child = crate::shell::command(busybox)
            .args(["cpio", "-tv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start busybox");
        child.stdin.take().expect("a pipe").write_all(&sample()).expect("write the archive");
        let output = child.wait_with_output().expect("busybox ends");
        let listing = String::from_utf8(output.stdout).expect("text");
        let modes: Vec<&str> = listing.lines().filter_map(|l| l.split(' ').next()).collect();
        assert!(output.status.success());
        assert_eq!(
            modes,
            ["drwxr-xr-x", "drwxr-xr-x", "-rwxr-xr-x", "lrwxrwxrwx", "drwxr-xr-x", "crw-------"]
        );
    }
}
