//! Peer service: FastAPI and uvicorn of pinned versions, and the files it runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::peers::docker::Engine;
use super::super::peers::provide;
use crate::{settings, shell};

/// Interpreter of the distribution, which sandboxes of the host's root run.
const PYTHON: &str = "/usr/bin/python3";
/// Path of the handler in the container.
const INSIDE: &str = "/handler";

/// Files and interpreter of the peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// Interpreter with FastAPI.
    python: PathBuf,
    /// Directory of the service, the handler, and the program for one call.
    files: PathBuf,
}

impl Peer {
    /// Installs missing packages and copies the files, so that nothing is written to the checkout.
    pub(super) fn provide(scratch: &Path) -> Result<Self> {
        let python = environment()?;
        let files = scratch.join("peer");
        let from = peers_directory();
        fs::create_dir_all(&files).with_context(|| format!("create `{}`", files.display()))?;
        for file in ["service.py", "bare.py", "skills/text_statistics/handler.py"] {
            let from = from.join(file);
            let to = files.join(from.file_name().context("a file with a name")?);
            fs::copy(&from, &to).with_context(|| format!("copy `{}`", from.display()))?;
        }
        Ok(Self { python, files })
    }

    /// Service with this many worker processes, for the plan.
    pub(super) fn service(&self, workers: usize, engine: Option<&Engine>) -> Value {
        let files = self.files.display().to_string();
        let bare = [PYTHON.to_owned(), format!("{files}/bare.py")];
        let mount = format!("{files}:{INSIDE}:ro");
        let container = engine.map(|engine| {
            engine.argv(&["-i", "-v", &mount], &[PYTHON, &format!("{INSIDE}/bare.py")])
        });
        json!({
            "name": name(workers),
            "argv": [
                self.python.display().to_string(), "-m", "uvicorn", "service:app",
                "--app-dir", files, "--host", "127.0.0.1", "--port", "{port}",
                "--workers", workers.to_string(), "--loop", "uvloop", "--http", "httptools",
                "--no-access-log", "--log-level", "warning",
            ],
            "env": {
                "PEER_PYTHON": json!(bare).to_string(),
                "PEER_DOCKER": json!(container.unwrap_or_default()).to_string(),
            },
            "ready": "/health",
            "is_ours": false,
        })
    }
}

/// Name of the service with this many workers.
pub(super) fn name(workers: usize) -> String {
    format!("fastapi, {workers} worker{}", if workers == 1 { "" } else { "s" })
}

/// Folder of the peers' files.
pub(super) fn peers_directory() -> PathBuf {
    settings::workspace_root().join("benches/peers")
}

/// Environment with the pinned packages, created once and cached.
fn environment() -> Result<PathBuf> {
    let pinned = peers_directory().join("requirements.txt");
    let wanted = fs::read_to_string(&pinned).context("read what is pinned")?;
    let cache = settings::cache_directory()?;
    let kept = cache.join("fastapi");
    // Written last: an environment without it is incomplete, and one with other contents is outdated.
    let stamp = kept.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(kept.join("bin/python"));
    }
    println!("installing the peer service");
    provide("python3", "python3")?;
    fs::create_dir_all(&cache).with_context(|| format!("create `{}`", cache.display()))?;
    shell::run(shell::command(PYTHON).args(["-m", "venv", "--clear"]).arg(&kept))
        .context("make an environment; `apt-get install python3-venv` may be missing")?;
    let mut pip = shell::command(kept.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    shell::run(pip.arg(&pinned)).context("install the peer service")?;
    fs::write(&stamp, wanted).context("note what was installed")?;
    Ok(kept.join("bin/python"))
}
