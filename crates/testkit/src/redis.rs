//! Redis: one server without persistence, as a cache is run, so that a restart forgets everything.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::{Health, Process, Start, command, free_address};

/// Program of Debian's package `redis-server`.
pub const PROGRAM: &str = "/usr/bin/redis-server";

/// Client program of the same server.
const CLIENT: &str = "/usr/bin/redis-cli";

/// Ports tried.
const MAX_TRIES: usize = 5;

/// Redis server. It is killed when dropped.
#[derive(Debug)]
pub struct Redis {
    directory: TempDir,
    address: SocketAddr,
    process: Process,
}

impl Redis {
    /// Starts an empty server on a free port of the loopback.
    pub fn start() -> Result<Self> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let directory = tempfile::tempdir().context("make a directory for Redis")?;
            let address = free_address()?;
            match run(directory.path(), address) {
                Ok(process) => return Ok(Self { directory, address, process }),
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.context("no try was made")?)
    }

    /// URL of the server as settings take it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Restarts a killed server on the same address, empty.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(self.directory.path(), self.address)?;
        Ok(())
    }

    /// Answer of the server to a command, by its own client.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let port = self.address.port().to_string();
        let mut client = command(CLIENT);
        client.args(["-h", "127.0.0.1", "-p", &port, "--raw"]).args(words);
        let output = client.output().context("start redis-cli")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

/// Arguments of a server without persistence.
pub fn arguments(directory: &Path, address: SocketAddr) -> Vec<String> {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let directory = directory.display().to_string();
    let words = ["--bind", &host, "--port", &port, "--dir", &directory];
    let words = words.into_iter().chain(["--save", "", "--appendonly", "no"]);
    words.map(str::to_owned).collect()
}

fn run(directory: &Path, address: SocketAddr) -> Result<Process> {
    let arguments = arguments(directory, address);
    let log: PathBuf = directory.join("log");
    let program = Path::new(PROGRAM);
    Process::start(&Start { program, arguments, log, address, health: Health::Connect })
        .context("Redis; install the package `redis-server`")
}
