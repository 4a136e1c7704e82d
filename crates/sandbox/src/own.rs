//! Files of ours that every sandbox finds, read-only, in `/.ringfence`.

use ringfence_jail::OwnFile;

/// The interpreters' drivers, found by the build script.
const DRIVERS: &[OwnFile] = include!(concat!(env!("OUT_DIR"), "/drivers.rs"));

/// The jail as a library for zygotes.
const PRELOAD: OwnFile = OwnFile {
    name: "preload.so",
    content: include_bytes!(concat!(env!("OUT_DIR"), "/preload.so")),
};

/// All of them.
pub fn own_files() -> Vec<OwnFile> {
    let mut files = DRIVERS.to_vec();
    files.push(PRELOAD);
    files
}
