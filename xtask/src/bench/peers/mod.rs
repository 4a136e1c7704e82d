//! Peers: installed, configured alike, and reported when they are not available.

mod bubblewrap;
pub(super) mod docker;
mod runc;
pub(crate) mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{host, shell};

/// Program of each peer, by the row's last word.
pub(super) const PROGRAMS: [(&str, &[&str]); 2] =
    [("true", &["/bin/true"]), ("python", &["/usr/bin/python3", "-c", "pass"])];

/// Directories of the host that a sandbox sees; peers see the same.
const HOST_TREES: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Peers that are ready to be measured.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Commands of the plan.
    pub(super) commands: Vec<Value>,
    /// Missing peers with the reason.
    pub(super) skipped: Vec<(String, String)>,
    /// Engine that runs until this is dropped.
    _engine: Option<docker::Engine>,
}

/// Starts every available peer. `scratch` is a temporary directory.
pub(super) fn gather(scratch: &Path, docker_runs: usize) -> Peers {
    let mut peers = Peers::default();
    peers.add("bubblewrap", bubblewrap::commands());
    peers.add("runc", runc::commands(scratch));
    match docker::Engine::start(scratch) {
        Ok(engine) => {
            peers.commands.extend(engine.commands(docker_runs));
            peers._engine = Some(engine);
        }
        Err(problem) => peers.add("docker run", Err(problem)),
    }
    peers
}

impl Peers {
    fn add(&mut self, name: &str, commands: Result<Vec<Value>>) {
        match commands {
            Ok(commands) => self.commands.extend(commands),
            Err(problem) => {
                println!("SKIPPED {name}: {problem:#}");
                self.skipped.push((name.to_owned(), format!("{problem:#}")));
            }
        }
    }
}

/// Finds a program; installs its package where that is possible.
pub(super) fn provide(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = shell::find_program(program) {
        return Ok(found);
    }
    if !host::is_root() {
        bail!("`{program}` is missing; install it with `apt-get install {package}`");
    }
    println!("installing {package}");
    let mut apt = shell::command("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["-q", "install", "-y", "--no-install-recommends", package]);
    shell::run(&mut apt).with_context(|| format!("install `{package}`"))?;
    shell::find_program(program).with_context(|| format!("`{package}` brought no `{program}`"))
}

/// Host trees that are links into `/usr`, and those that are directories.
fn host_trees() -> (Vec<(&'static str, String)>, Vec<&'static str>) {
    let (mut links, mut directories) = (Vec::new(), Vec::new());
    for tree in HOST_TREES {
        match std::fs::read_link(tree) {
            Ok(target) => links.push((tree, target.display().to_string())),
            Err(_) if Path::new(tree).is_dir() => directories.push(tree),
            Err(_) => {}
        }
    }
    (links, directories)
}
