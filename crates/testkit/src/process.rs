//! Process of a server: started on a free port, stopped, resumed, killed, and killed when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::http;

/// Time limit of a start, far beyond what a busy machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Process of a server. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

/// Command line and health check of a server.
#[derive(Debug, Clone)]
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<String>,
    /// File for its standard error.
    pub(crate) log: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) health: Health<'a>,
}

/// Sign that a server is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Health<'a> {
    /// A path answers 200.
    Path(&'a str),
    /// It accepts a connection.
    Connect,
}

impl Health<'_> {
    fn is_good(self, address: SocketAddr) -> bool {
        match self {
            Self::Path(path) => http::get(address, path).is_ok_and(|answer| answer.status == 200),
            Self::Connect => TcpStream::connect(address).is_ok(),
        }
    }
}

impl Process {
    /// Starts the server and waits until it is ready.
    pub(crate) fn start(start: &Start<'_>) -> Result<Self> {
        let log = File::create(&start.log).context("create its log")?;
        let mut command = command(start.program);
        command.args(&start.arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().context("share its log")?).stderr(log);
        let shown = start.program.display();
        let child = command.spawn().with_context(|| format!("start `{shown}`"))?;
        let mut process = Self { child };
        process.await_health(start)?;
        Ok(process)
    }

    fn await_health(&mut self, start: &Start<'_>) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if start.health.is_good(start.address) {
                return Ok(());
            }
            let said = || std::fs::read_to_string(&start.log).unwrap_or_default();
            let shown = start.program.display();
            if let Some(status) = self.child.try_wait().context("look at it")? {
                bail!("`{shown}` ended with {status}: {}", said());
            }
            if Instant::now() > deadline {
                bail!("`{shown}` does not serve: {}", said());
            }
            // Yields the processor; the deadline is what bounds the wait.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process: it keeps its sockets and does not answer.
    pub fn freeze(&self) {
        let pid = self.signal(Signal::STOP);
        // A signal takes its time on a busy machine, and the threads go on answering meanwhile.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("it stops");
    }

    /// Resumes the process.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) -> Pid {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it lives");
        pid
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Free local address. Another process may take it before the server does; then the server fails
/// and the caller tries the next.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    listener.local_addr().context("read the port")
}

#[expect(clippy::disallowed_methods, reason = "starting servers for tests is what this is for")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
