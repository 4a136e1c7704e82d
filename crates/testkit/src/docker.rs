//! A container engine of its own for tests: Debian's, with its own socket, data and state.
//!
//! It changes no network setup of the host, so it collides with no other engine, and ends with the value.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{process::command, settings};

/// Program of Debian's package `docker.io`.
pub const PROGRAM: &str = "/usr/sbin/dockerd";

/// Name of the small Debian image with Python.
pub const IMAGE: &str = "debian-python";

/// Name of a second runtime, which is the engine's own program.
pub const SECOND_RUNTIME: &str = "second";

/// Time limit for the start and the end of an engine.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(60);

/// Cached archive of a small Debian tree with Python, whether or not it was built yet.
pub fn tree() -> Result<PathBuf> {
    Ok(settings::cache_directory()?.join("debootstrap-bookworm-python3-minimal.tar"))
}

/// A running engine. It ends when dropped, and its containers with it.
#[derive(Debug)]
pub struct Dockerd {
    child: Child,
    directory: TempDir,
    runtimes: Vec<String>,
}

/// The engine of this test binary while a test uses it.
static SHARED: Mutex<Weak<Dockerd>> = Mutex::new(Weak::new());

impl Dockerd {
    /// The engine with [`IMAGE`] that the tests of this process share, or a recorded skip of this test.
    ///
    /// # Panics
    ///
    /// If there can be none and tests may not skip.
    pub fn shared_or_skip(test: &str) -> Option<Arc<Self>> {
        if let Some(problem) = missing() {
            settings::skip(test, &problem);
            return None;
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = shared.upgrade() {
            return Some(engine);
        }
        let engine = Arc::new(Self::start().expect("the engine starts"));
        engine.import(&tree().expect("a cache"), IMAGE).expect("the image is imported");
        *shared = Arc::downgrade(&engine);
        Some(engine)
    }

    /// Starts an engine without images.
    pub fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("rf-docker").tempdir();
        let directory = directory.context("make a directory for the engine")?;
        let runtimes = gvisor().into_iter().map(|_| "runsc".to_owned()).collect();
        let child = spawn(directory.path())?;
        let mut engine = Self { child, directory, runtimes };
        engine.await_ready()?;
        Ok(engine)
    }

    /// Socket of the engine.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("docker.sock")
    }

    /// Runtimes beside the engine's own.
    pub fn runtimes(&self) -> &[String] {
        &self.runtimes
    }

    /// Imports an archive of a root file system as an image.
    pub fn import(&self, archive: &Path, name: &str) -> Result<()> {
        let file = File::open(archive).with_context(|| format!("open `{}`", archive.display()))?;
        let length = file.metadata().context("look at the archive")?.len();
        let path = format!("/images/create?fromSrc=-&repo={name}");
        let said = self.request("POST", &path, "application/x-tar", &mut file.take(length), length);
        said.map(drop)
    }

    /// Makes an image of another with one more file, which all users can run.
    pub fn add_file(&self, image: &str, path: &Path, inside: &str, name: &str) -> Result<()> {
        let made =
            self.json("POST", "/containers/create", &json!({"Image": image, "Cmd": ["/"]}))?;
        let id = made["Id"].as_str().context("the id of a container")?.to_owned();
        let mut tar = command("tar");
        tar.arg("-C").arg(path.parent().context("a file is in a folder")?);
        tar.args(["--owner=0", "--group=0", "--mode=755", "-cf", "-"]);
        tar.arg(format!("--transform=s|.*|{inside}|")).arg(path.file_name().context("a name")?);
        let packed = tar.output().context("start tar")?.stdout;
        let length = packed.len() as u64;
        let to = format!("/containers/{id}/archive?path=/");
        self.request("PUT", &to, "application/x-tar", &mut packed.as_slice(), length)?;
        self.json("POST", &format!("/commit?container={id}&repo={name}"), &json!({}))?;
        self.json("DELETE", &format!("/containers/{id}?force=1"), &json!({}))?;
        Ok(())
    }

    /// All containers, running or not, as the engine describes them.
    pub fn containers(&self) -> Result<Vec<Value>> {
        let all = self.json("GET", "/containers/json?all=1", &json!({}))?;
        Ok(all.as_array().cloned().unwrap_or_default())
    }

    /// Description of a container.
    pub fn inspect(&self, id: &str) -> Result<Value> {
        self.json("GET", &format!("/containers/{id}/json"), &json!({}))
    }

    /// Kills a container from outside.
    pub fn kill(&self, id: &str) -> Result<()> {
        self.json("POST", &format!("/containers/{id}/kill"), &json!({})).map(drop)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let length = body.len() as u64;
        let said = self.request(method, path, "application/json", &mut body.as_bytes(), length)?;
        Ok(serde_json::from_slice(&said).unwrap_or(Value::Null))
    }

    /// One request in HTTP/1.0, whose answer ends with the connection.
    fn request(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &mut dyn Read,
        length: u64,
    ) -> Result<Vec<u8>> {
        let mut stream = UnixStream::connect(self.socket()).context("connect to the engine")?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .context("write to the engine")?;
        io::copy(body, &mut stream).context("send to the engine")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).context("read from the engine")?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.context("an answer of HTTP")? + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let said = answer.split_off(end);
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&said));
        }
        Ok(said)
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while self.json("GET", "/_ping", &Value::Null).is_err() {
            let log = || {
                let text = std::fs::read_to_string(self.directory.path().join("log"));
                let text = text.unwrap_or_default();
                let last: Vec<_> = text.lines().rev().take(5).collect();
                last.join("\n")
            };
            if let Some(status) = self.child.try_wait().context("look at the engine")? {
                bail!("the engine ended with {status}: {}", log());
            }
            if Instant::now() > deadline {
                bail!("the engine does not serve: {}", log());
            }
            // Yields the processor; the deadline is what bounds the wait.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // Asked to end, so that it ends its own helpers and unmounts what it mounted.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_cgroups(&cgroup_parent(self.directory.path()));
    }
}

/// Reason why there can be no engine here.
fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("an engine of our own needs root".to_owned());
    }
    if !Path::new(PROGRAM).exists() {
        return Some("no dockerd: install the package `docker.io`".to_owned());
    }
    match tree() {
        Ok(tree) if tree.exists() => None,
        _ => Some("no Debian tree: `cargo xtask test` builds one".to_owned()),
    }
}

/// gVisor's runtime of Debian's package `runsc`, if it is installed.
fn gvisor() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/runsc")).filter(|path| path.exists())
}

fn spawn(directory: &Path) -> Result<Child> {
    let log = File::create(directory.join("log")).context("create the engine's log")?;
    let below = |name: &str| directory.join(name).display().to_string();
    let mut dockerd = command(PROGRAM);
    dockerd
        .args(["--host", &format!("unix://{}", below("docker.sock"))])
        .args(["--data-root", &below("data"), "--exec-root", &below("exec")])
        .args(["--pidfile", &below("docker.pid")])
        .args(["--bridge=none", "--iptables=false", "--ip6tables=false"])
        .args(["--ip-forward=false", "--ip-masq=false"])
        .args(["--cgroup-parent", &cgroup_parent(directory)])
        .args(["--add-runtime", &format!("{SECOND_RUNTIME}=/usr/sbin/runc")]);
    if let Some(runsc) = gvisor() {
        dockerd.args(["--add-runtime", &format!("runsc={}", runsc.display())]);
    }
    dockerd.stdin(Stdio::null()).stdout(log.try_clone().context("share the log")?).stderr(log);
    dockerd.spawn().context("start dockerd")
}

/// Parent of the cgroups of its containers.
fn cgroup_parent(directory: &Path) -> String {
    format!("/{}", directory.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes the empty parent that the engine leaves in every hierarchy.
fn remove_cgroups(parent: &str) {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    for root in roots {
        let _ = std::fs::remove_dir(root.join(parent.trim_start_matches('/')));
    }
}
