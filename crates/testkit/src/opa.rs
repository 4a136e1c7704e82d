//! OPA server with its own bundle.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::{Health, Process, Start, free_address};

/// Ports tried.
const MAX_TRIES: usize = 5;

/// OPA server. It is killed when dropped.
#[derive(Debug)]
pub struct Opa {
    program: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    process: Process,
}

impl Opa {
    /// Serves these files as one bundle of this revision, and reloads them when they change.
    pub fn start(program: &Path, revision: &str, files: &[(&str, &str)]) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory for OPA")?;
        write(directory.path(), revision, files)?;
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let address = free_address()?;
            match run(program, directory.path(), address) {
                Ok(process) => {
                    return Ok(Self { program: program.to_owned(), directory, address, process });
                }
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.context("no try was made")?)
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Replaces the bundle by other files of another revision.
    pub fn rewrite(&self, revision: &str, files: &[(&str, &str)]) -> Result<()> {
        write(self.directory.path(), revision, files)
    }

    /// Restarts a killed server on the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(&self.program, self.directory.path(), self.address)?;
        Ok(())
    }
}

fn write(directory: &Path, revision: &str, files: &[(&str, &str)]) -> Result<()> {
    let bundle = directory.join("bundle");
    fs::create_dir_all(&bundle).context("make a folder for the bundle")?;
    for (name, text) in files {
        fs::write(bundle.join(name), text).context("write a rule")?;
    }
    let manifest = serde_json::json!({"revision": revision, "roots": [""]});
    fs::write(bundle.join(".manifest"), manifest.to_string()).context("write the manifest")
}

fn run(program: &Path, directory: &Path, address: SocketAddr) -> Result<Process> {
    let bundle = directory.join("bundle").display().to_string();
    let address_text = address.to_string();
    let arguments = ["run", "--server", "--disable-telemetry", "--log-level", "error", "--watch"];
    let more = ["--addr", &address_text, "--bundle", &bundle];
    let arguments = arguments.into_iter().chain(more).map(str::to_owned).collect();
    let log = directory.join("log");
    Process::start(&Start {
        program,
        arguments,
        log,
        address,
        health: Health::Path("/health?bundles"),
    })
}
