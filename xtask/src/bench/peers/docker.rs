//! Container engine of the distribution, started for this run alone.
//!
//! Its socket, data and state are in a temporary directory and it changes no network setup of the
//! host, so it collides with no other engine and leaves nothing behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{PROGRAMS, provide, tree};
use crate::{host, shell};

const IMAGE: &str = "ringfence-bench";
/// Time limit for start and stop of the engine.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(60);

/// Running engine. Ends when dropped.
#[derive(Debug)]
pub(in super::super) struct Engine {
    child: Child,
    client: PathBuf,
    socket: String,
}

impl Engine {
    /// Starts the engine in `scratch` and loads its image.
    pub(in super::super) fn start(scratch: &Path) -> Result<Self> {
        if !host::is_root() {
            bail!("an engine of our own needs root");
        }
        let daemon = provide("dockerd", "docker.io")?;
        let client = provide("docker", "docker.io")?;
        let archive = tree::archive(scratch)?;
        let log = scratch.join("dockerd.log");
        let child = spawn(&daemon, scratch, &log)?;
        let socket = format!("unix://{}", scratch.join("docker.sock").display());
        let mut engine = Self { child, client, socket };
        engine.wait_until_up(&log)?;
        let mut import = engine.docker();
        import.arg("import").arg(&archive).arg(IMAGE).stdout(Stdio::null());
        shell::run(&mut import).context("import the image")?;
        Ok(engine)
    }

    /// The two commands, as a user would type them.
    pub(super) fn commands(&self, runs: usize) -> Vec<Value> {
        let command = |(name, program): (&str, &[&str])| {
            let argv = self.argv(&[], program);
            json!({"name": format!("docker run {name}"), "argv": argv, "runs": runs})
        };
        PROGRAMS.map(command).to_vec()
    }

    /// `docker run` of a program in the image, with more options.
    pub(in super::super) fn argv(&self, options: &[&str], program: &[&str]) -> Vec<String> {
        let client = self.client.display().to_string();
        let fixed = [&client, "-H", &self.socket, "run", "--rm", "--network", "none"];
        let words = fixed.iter().chain(options).chain(&[IMAGE]).chain(program);
        words.map(|&word| word.to_owned()).collect()
    }

    fn docker(&self) -> Command {
        let mut command = shell::command(&self.client);
        command.args(["-H", &self.socket]);
        command
    }

    fn wait_until_up(&mut self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().context("watch the engine")? {
                bail!("the engine ended with {status}: {}", last_line(log));
            }
            let mut version = self.docker();
            version.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
            if version.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the engine is not up after {ENGINE_TIMEOUT:?}: {}", last_line(log))
    }
}

/// Parent of its containers' cgroups, removed after the run.
fn cgroup_parent() -> String {
    format!("/{IMAGE}-engine-{}", std::process::id())
}

/// Removes the empty parent that the engine leaves behind in every hierarchy.
fn remove_cgroups() {
    let name = cgroup_parent();
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    for root in roots {
        let _ = std::fs::remove_dir(root.join(name.trim_start_matches('/')));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
        remove_cgroups();
    }
}

impl Engine {
    fn end(&mut self) {
        let pid = self.child.id().to_string();
        let _ = shell::command("kill").args(["-TERM", &pid]).status();
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(daemon: &Path, scratch: &Path, log: &Path) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("create `{}`", log.display()))?;
    let below = |name: &str| scratch.join(name).display().to_string();
    shell::command(daemon)
        .args(["--host", &format!("unix://{}", below("docker.sock"))])
        .args(["--data-root", &below("data"), "--exec-root", &below("exec")])
        .args(["--pidfile", &below("docker.pid")])
        .args(["--bridge=none", "--iptables=false", "--ip6tables=false"])
        .args(["--cgroup-parent", &cgroup_parent()])
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("share the log")?)
        .stderr(output)
        .spawn()
        .context("start dockerd")
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}
