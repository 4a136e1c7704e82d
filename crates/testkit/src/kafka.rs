//! Apache Kafka: one process that is broker and controller, with its log on disk, so that messages
//! survive a restart.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::process::{Health, Process, Start, command, free_address};

/// Ports tried.
const MAX_TRIES: usize = 5;

/// Options of the Java machine: a small heap, and a start that is not slowed by compiling everything well.
const JAVA: [&str; 5] = [
    "-Xmx256m",
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+PerfDisableSharedMem",
];

/// Kafka server. It is killed when dropped.
#[derive(Debug)]
pub struct Kafka {
    jars: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    process: Process,
}

impl Kafka {
    /// Starts a broker without topics from a folder of jars.
    pub fn start(jars: &Path) -> Result<Self> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let directory = tempfile::tempdir().context("make a directory for Kafka")?;
            let address = free_address()?;
            match format(jars, directory.path(), address)
                .and_then(|()| run(jars, directory.path(), address))
            {
                Ok(process) => {
                    return Ok(Self { jars: jars.to_owned(), directory, address, process });
                }
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.context("no try was made")?)
    }

    /// Address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the broker as settings take it.
    pub fn url(&self) -> String {
        format!("kafka://{}", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Restarts a killed server on the same address, with the log that it had.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(&self.jars, self.directory.path(), self.address)?;
        Ok(())
    }
}

/// Writes the settings of a broker and formats its log directory.
pub fn format(jars: &Path, directory: &Path, address: SocketAddr) -> Result<()> {
    let controller = free_address()?;
    let logs = directory.join("logs");
    let settings = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{address}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n\
         auto.create.topics.enable=false\n\
         default.replication.factor=1\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=3\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=3\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         log.cleaner.dedupe.buffer.size=8388608\n",
        logs.display()
    );
    let path = directory.join("server.properties");
    fs::write(&path, settings).context("write Kafka's settings")?;
    // Any 16 bytes in the alphabet of base64 for URLs are a cluster id.
    let mut format = command("java");
    format.args(JAVA).arg("-cp").arg(jars.join("*")).arg("kafka.tools.StorageTool");
    format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]).arg(&path).stdin(Stdio::null());
    let output = format.output().context("start Java")?;
    if !output.status.success() {
        bail!("Kafka cannot format its log: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Arguments of `java` that run the broker of a formatted directory.
pub fn arguments(jars: &Path, directory: &Path) -> Vec<String> {
    let options = JAVA.iter().map(|option| (*option).to_owned());
    let jars = jars.join("*").display().to_string();
    let settings = directory.join("server.properties").display().to_string();
    options.chain(["-cp".to_owned(), jars, "kafka.Kafka".to_owned(), settings]).collect()
}

fn run(jars: &Path, directory: &Path, address: SocketAddr) -> Result<Process> {
    let arguments = arguments(jars, directory);
    let log = directory.join("log");
    let program = Path::new("java");
    // The broker accepts connections once it serves.
    Process::start(&Start { program, arguments, log, address, health: Health::Connect })
}
