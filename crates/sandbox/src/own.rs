//! Files of ours that every sandbox finds, read-only, in `/.ringfence`.

use ringfence_jail::OwnFile;

/// The interpreters' drivers, found by the build script.
const DRIVERS: &[OwnFile] = include!(concat!(env!("OUT_DIR"), "/drivers.rs"));

/// The jail as a library for zygotes.
const PRELOAD: OwnFile = OwnFile {
    name: "preload.so",
    content: include_bytes!(concat!(env!("OUT_DIR"), "/preload.so")),
};

/// `free`, `ps` and `uptime`, which come first in `PATH`: the system's own need files of `/proc` that a
/// sandbox does not have. Each falls back to those in a root without Python.
const TOOLS: [OwnFile; 4] = [
    OwnFile { name: "procps.py", content: include_bytes!("../tools/procps.py") },
    OwnFile { name: "bin/free", content: include_bytes!("../tools/free") },
    OwnFile { name: "bin/ps", content: include_bytes!("../tools/ps") },
    OwnFile { name: "bin/uptime", content: include_bytes!("../tools/uptime") },
];

/// All of them.
pub fn own_files() -> Vec<OwnFile> {
    let mut files = DRIVERS.to_vec();
    files.extend(TOOLS);
    files.push(PRELOAD);
    files
}
