//! Embedded files that every sandbox has, read-only, in `/.ringfence`.

use ringfence_jail::OwnFile;

/// Drivers of the interpreters, listed by the build script.
const DRIVERS: &[OwnFile] = include!(concat!(env!("OUT_DIR"), "/drivers.rs"));

/// The jail as a library for zygotes.
const PRELOAD: OwnFile = OwnFile {
    name: "preload.so",
    content: include_bytes!(concat!(env!("OUT_DIR"), "/preload.so")),
};

/// `free`, `ps` and `uptime`, which come first in `PATH`: the system's own versions need files of
/// `/proc` that a sandbox does not have. In a root without Python each falls back to the system's
/// version.
const TOOLS: [OwnFile; 4] = [
    OwnFile { name: "procps.py", content: include_bytes!("../tools/procps.py") },
    OwnFile { name: "bin/free", content: include_bytes!("../tools/free") },
    OwnFile { name: "bin/ps", content: include_bytes!("../tools/ps") },
    OwnFile { name: "bin/uptime", content: include_bytes!("../tools/uptime") },
];

/// All embedded files.
pub fn own_files() -> Vec<OwnFile> {
    let mut files = DRIVERS.to_vec();
    files.extend(TOOLS);
    files.push(PRELOAD);
    files
}
