//! Running service: start, readiness, end.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{account::Account, command, http, plan};

/// Time limit of start and stop.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Ready service. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
    pub(crate) is_ours: bool,
    /// Time from the start of the process until it was ready.
    pub(crate) ready_after: Duration,
    running: Running,
    // Removed after the process ended: fields are dropped in this order.
    pub(crate) account: Account,
}

/// Process. Its standard output stays open, because writing to a closed one would kill it.
#[derive(Debug)]
struct Running {
    child: Child,
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Service {
    /// Starts the service; `number` is one that no other start has.
    pub(crate) fn start(asked: &plan::Service, scratch: &Path, number: usize) -> Result<Self> {
        let log = scratch.join(format!("service-{number}.log"));
        let data = scratch.join(format!("data-{number}"));
        Self::try_start(asked, &data, &log, number)
            .with_context(|| format!("start `{}`; it said: {}", asked.name, last_lines(&log)))
    }

    fn try_start(asked: &plan::Service, data: &Path, log: &Path, number: usize) -> Result<Self> {
        let account = Account::open(&number.to_string());
        let port = free_port()?;
        let began = Instant::now();
        let child = account.inside(|| spawn(asked, &argv(asked, data, port), log))?;
        let mut running = Running { child, _stdout: None };
        let address = match asked.is_ours {
            true => running.said_address()?,
            false => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        };
        running.wait_until_ready(address, &asked.ready)?;
        Ok(Self {
            name: asked.name.clone(),
            address,
            ready_after: began.elapsed(),
            key: asked.is_ours.then(|| read_key(data)).transpose()?,
            is_ours: asked.is_ours,
            running,
            account,
        })
    }

    /// Pid of its first process.
    pub(crate) fn pid(&self) -> u32 {
        self.running.child.id()
    }
}

impl Running {
    /// Address from Ringfence's first line, an object.
    fn said_address(&mut self) -> Result<SocketAddr> {
        let stdout = self.child.stdout.take().context("a pipe from the service")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line).context("read its address")?;
        self._stdout = Some(lines);
        let said: Value = serde_json::from_str(&line).context("its first line is no object")?;
        let url = said["url"].as_str().context("it says no `url`")?;
        url.trim_start_matches("http://").parse().with_context(|| format!("understand `{url}`"))
    }

    fn wait_until_ready(&mut self, address: SocketAddr, path: &str) -> Result<()> {
        let request = http::request(address, path, None, None);
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}");
            }
            if http::ask(address, &request).is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not ready after {READY_TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let deadline = Instant::now() + READY_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        eprintln!("process {} did not end when asked to", self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(asked: &plan::Service, argv: &[String], log: &Path) -> Result<Child> {
    let (program, arguments) = argv.split_first().context("a service without a program")?;
    let log = File::create(log).with_context(|| format!("create `{}`", log.display()))?;
    let stdout = if asked.is_ours { Stdio::piped() } else { log.try_clone()?.into() };
    let mut command = command(program);
    command.args(arguments).envs(&asked.env).stdin(Stdio::null()).stdout(stdout).stderr(log);
    command.spawn().with_context(|| format!("start `{program}`"))
}

fn argv(asked: &plan::Service, data: &Path, port: u16) -> Vec<String> {
    let (data, port) = (data.display().to_string(), port.to_string());
    let filled = |word: &String| word.replace("{data}", &data).replace("{port}", &port);
    asked.argv.iter().map(filled).collect()
}

/// Port that was free a moment ago, which suffices on an otherwise idle machine.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

fn read_key(data: &Path) -> Result<String> {
    let file: PathBuf = data.join("admin.key");
    let text = fs::read_to_string(&file).with_context(|| format!("read `{}`", file.display()))?;
    Ok(text.trim().to_owned())
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(argv: &[&str]) -> plan::Service {
        plan::Service {
            name: "it".to_owned(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            env: Default::default(),
            ready: "/".to_owned(),
            is_ours: false,
        }
    }

    #[test]
    fn places_are_filled_in() {
        let words = argv(&asked(&["x", "--data={data}", "{port}"]), Path::new("/d"), 7);
        assert_eq!(words, ["x", "--data=/d", "7"]);
    }

    #[test]
    fn a_service_that_ends_is_not_waited_for_and_its_words_are_told() {
        let scratch = std::env::temp_dir().join(format!("ringfence-load-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("scratch");
        let asked = asked(&["/bin/sh", "-c", "echo no luck >&2; exit 3"]);
        let error = Service::start(&asked, &scratch, 0).expect_err("it ends");
        fs::remove_dir_all(&scratch).expect("clean up");
        let words = format!("{error:#}");
        assert!(words.contains("exit status: 3") && words.contains("no luck"), "{words}");
    }
}
