//! Bubblewrap with the same view of the host and the same namespaces as a sandbox of Ringfence.
//!
//! It sets no limits, no Landlock rules and no filter: its fastest useful form is compared with the
//! only form of a sandbox.

use anyhow::Result;
use serde_json::{Value, json};

use super::{PROGRAMS, host_trees, provide};

const WALLS: [&str; 20] = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--clearenv",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/workspace",
    "--chdir",
    "/workspace",
    "--hostname",
    "sandbox",
    "--ro-bind",
    "/usr",
];

/// The two commands.
pub(super) fn commands() -> Result<Vec<Value>> {
    let bwrap = provide("bwrap", "bubblewrap")?.display().to_string();
    let mut walls: Vec<String> = WALLS.map(str::to_owned).to_vec();
    walls.push("/usr".to_owned());
    let (links, directories) = host_trees();
    for (path, target) in links {
        walls.extend(["--symlink".to_owned(), target, path.to_owned()]);
    }
    for path in directories {
        walls.extend(["--ro-bind", path, path].map(str::to_owned));
    }
    let command = |(name, program): (&str, &[&str])| {
        let words = std::iter::once(bwrap.clone()).chain(walls.clone());
        let argv: Vec<String> = words.chain(program.iter().map(|&word| word.to_owned())).collect();
        json!({"name": format!("bubblewrap {name}"), "argv": argv})
    };
    Ok(PROGRAMS.map(command).to_vec())
}
