//! S3-compatible server: versitygw over a directory.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::{Health, Process, Start, free_address};

/// Ports tried.
const MAX_TRIES: usize = 5;

/// Id of the only key.
pub const KEY_ID: &str = "ringfence-test";

/// Secret of that key.
pub const SECRET: &str = "a-secret-of-tests";

/// Bucket that is there at the start.
pub const BUCKET: &str = "blobs";

/// S3-compatible server. It is killed when dropped.
#[derive(Debug)]
pub struct S3 {
    program: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    process: Process,
}

impl S3 {
    /// Starts a server with one empty bucket on a free port of the loopback.
    pub fn start(program: &Path) -> Result<Self> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let directory = tempfile::tempdir().context("make a directory for S3")?;
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

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Restarts a killed server on the same address, with what it kept.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(&self.program, self.directory.path(), self.address)?;
        Ok(())
    }

    /// Names of the objects of the bucket below a prefix.
    pub fn objects(&self, prefix: &str) -> Vec<String> {
        let folder = self.directory.path().join("data").join(BUCKET).join(prefix);
        let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
        let files = found.flatten().filter(|entry| entry.path().is_file());
        let mut names: Vec<_> =
            files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Arguments of a server over a directory of buckets.
pub fn arguments(directory: &Path, address: SocketAddr) -> Vec<String> {
    let (data, sidecar) = (directory.join("data"), directory.join("sidecar"));
    let words = ["--port", &address.to_string(), "--access", KEY_ID, "--secret", SECRET];
    let words = words.map(str::to_owned).into_iter().chain(["posix".to_owned()]);
    // Beside the files, because not every file system has extended attributes.
    let sidecar = ["--sidecar".to_owned(), sidecar.display().to_string()];
    words.chain(sidecar).chain([data.display().to_string()]).collect()
}

/// Makes the directories of a server, with its bucket.
pub fn prepare(directory: &Path) -> Result<()> {
    for folder in ["sidecar", &format!("data/{BUCKET}")] {
        let folder = directory.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    Ok(())
}

fn run(program: &Path, directory: &Path, address: SocketAddr) -> Result<Process> {
    prepare(directory)?;
    let arguments = arguments(directory, address);
    let log = directory.join("log");
    Process::start(&Start { program, arguments, log, address, health: Health::Connect })
}
