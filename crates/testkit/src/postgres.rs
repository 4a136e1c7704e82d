//! PostgreSQL cluster of a test run: real, on disk, with `fsync`.
//!
//! A supervising shell starts the server again whenever it ends, so that tests can kill it. The shell ends
//! the server and removes the directory when the test process ends, however it ends.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::process::{command, free_address};

/// Directory of the server's programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// User that the server runs as: it refuses to run as root.
const USER: &str = "postgres";

/// Time limit of a start, far beyond what a busy machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Starts the server until a file says that it is over, then removes the directory.
const SUPERVISE: &str = r#"
dir=$1; shift
trap 'touch "$dir/over"; kill -QUIT $pid 2>/dev/null' TERM
while [ ! -e "$dir/over" ]; do
    "$@" >>"$dir/log" 2>&1 & pid=$!
    while kill -0 $pid 2>/dev/null; do wait $pid; done
done
rm -rf "$dir"
"#;

/// Cluster. It is ended when dropped, or when the process ends.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    address: SocketAddr,
    databases: AtomicU64,
    /// Ends the thread that owns the supervisor, when dropped.
    _over: mpsc::Sender<()>,
    supervisor: Child,
}

impl Postgres {
    /// Starts a cluster on a free port of the loopback.
    pub fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ringfence-postgres-").tempdir();
        let directory = directory.context("make a directory for PostgreSQL")?.keep();
        if geteuid().is_root() {
            run(command("chown").arg(USER).arg(&directory))?;
        }
        let data = directory.join("data");
        let mut initdb = command_as_user("TERM", &program("initdb"));
        initdb.args(["--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D"]);
        run(initdb.arg(&data))?;
        let address = free_address()?;
        let (over, supervisor) = supervise(&directory, &data, address)?;
        let databases = AtomicU64::new(0);
        let cluster = Self { directory, address, databases, _over: over, supervisor };
        cluster.await_ready()?;
        Ok(cluster)
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes an empty database and gives its name.
    pub fn database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// URL of a database at this address of the server, or of a proxy to it.
    pub fn url_at(address: SocketAddr, database: &str) -> String {
        format!("postgres://{USER}@{address}/{database}?sslmode=disable")
    }

    /// URL of a database.
    pub fn url(&self, database: &str) -> String {
        Self::url_at(self.address, database)
    }

    /// Runs a statement; gives its rows, one per line.
    pub fn sql(&self, database: &str, statement: &str) -> Result<String> {
        let mut psql = command(program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(database)]);
        let output = psql.args(["-c", statement]).stdin(Stdio::null()).output();
        let output = output.context("start psql")?;
        if !output.status.success() {
            bail!("{statement}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Ends the server at once, as a crash does, and waits until it serves again.
    pub fn restart_immediately(&self) -> Result<()> {
        let pid = self.pid()?;
        kill_process(pid, Signal::QUIT).context("end the server")?;
        let deadline = Instant::now() + START_TIMEOUT;
        while self.pid().is_ok_and(|now| now == pid) {
            if Instant::now() > deadline {
                bail!("the server does not end");
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.await_ready()
    }

    fn pid(&self) -> Result<Pid> {
        let text = fs::read_to_string(self.directory.join("data/postmaster.pid"))?;
        let pid = text.lines().next().and_then(|line| line.trim().parse().ok());
        pid.and_then(Pid::from_raw).context("no process id of the server")
    }

    fn await_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.sql("postgres", "SELECT 1").is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                bail!("PostgreSQL does not serve: {log}");
            }
            // Yields the processor; the deadline is what bounds the wait.
            thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let pid = i32::try_from(self.supervisor.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.supervisor.wait();
    }
}

fn program(name: &str) -> PathBuf {
    Path::new(PROGRAMS).join(name)
}

/// Command that runs as the server's user, and gets a signal when the thread that started it ends.
fn command_as_user(signal: &str, program: &Path) -> Command {
    let mut command = command("setpriv");
    if geteuid().is_root() {
        command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
        command.arg("--init-groups");
    }
    command.args(["--pdeathsig", signal]).arg(program).stdin(Stdio::null());
    command
}

/// Starts the supervisor from a thread that lives as long as the cluster.
fn supervise(
    directory: &Path,
    data: &Path,
    address: SocketAddr,
) -> Result<(mpsc::Sender<()>, Child)> {
    let mut shell = command_as_user("TERM", Path::new("/bin/sh"));
    shell.args(["-c", SUPERVISE, "sh"]).arg(directory).arg(program("postgres"));
    shell.arg("-D").arg(data).arg("-k").arg(directory);
    shell.args(["-h", "127.0.0.1", "-p", &address.port().to_string()]);
    let settings = ["fsync=on", "shared_buffers=32MB", "max_connections=100", "max_wal_size=256MB"];
    for setting in settings {
        shell.args(["-c", setting]);
    }
    shell.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    let (over, is_over) = mpsc::channel();
    let (started, child) = mpsc::channel();
    thread::spawn(move || {
        // The caller waits for this.
        let _ = started.send(shell.spawn());
        let _ = is_over.recv();
    });
    let child = child.recv().context("the thread that starts PostgreSQL ended")?;
    Ok((over, child.context("start PostgreSQL")?))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
