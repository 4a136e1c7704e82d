//! Starts the binary as a server and as a client of it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::wire;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_ringfence");

/// Far beyond what anything here should take on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// `ringfence` in an environment without settings.
pub(crate) fn command(args: &[&str]) -> Command {
    command_of(Path::new(BINARY), args)
}

#[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
fn command_of(binary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.stdin(Stdio::null());
    command
}

/// A directory for a server, with room for skills beside the data.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("skills")).expect("a folder for skills");
        Self { dir }
    }

    /// A directory that has something in it already.
    pub(crate) fn in_dir(dir: TempDir) -> Self {
        std::fs::create_dir(dir.path().join("skills")).expect("a folder for skills");
        Self { dir }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn skills(&self) -> PathBuf {
        self.dir.path().join("skills")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server here and waits until it listens.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, variables: &[(&str, &str)]) -> Server {
        self.serve_on("127.0.0.1:0", variables)
    }

    pub(crate) fn serve_on(&self, listen: &str, variables: &[(&str, &str)]) -> Server {
        self.start(command(&["serve", "--json", "--listen", listen]), variables)
    }

    /// Starts another binary as a server here.
    pub(crate) fn serve_as(&self, binary: &Path, variables: &[(&str, &str)]) -> Server {
        let args = ["serve", "--json", "--listen", "127.0.0.1:0"];
        self.start(command_of(binary, &args), variables)
    }

    /// Starts a server by a command that lacks only its arguments.
    pub(crate) fn serve_command(&self, mut command: Command, variables: &[(&str, &str)]) -> Server {
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
        self.start(command, variables)
    }

    fn start(&self, mut command: Command, variables: &[(&str, &str)]) -> Server {
        let (data, skills) = (shown(&self.data()), shown(&self.skills()));
        command.args(["--data", &data, "--skills", &skills]).envs(variables.iter().copied());
        let log = File::create(self.path("log")).expect("a file for the log");
        command.stdout(Stdio::piped()).stderr(log);
        let began = Instant::now();
        let mut child = command.spawn().expect("the binary starts");
        let banner = first_line(&mut child);
        let ready = began.elapsed();
        let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let Some(banner) = banner else { panic!("no server came up: {}", log()) };
        let banner: Value = serde_json::from_str(&banner).expect("one object");
        let key = std::fs::read_to_string(self.data().join("admin.key")).expect("the admin key");
        let url = banner["url"].as_str().expect("an address").to_owned();
        let (_, address) = url.split_once("://").expect("a URL");
        let address = address.to_owned();
        Server { child: Some(child), banner, key: key.trim().to_owned(), address, data, ready }
    }
}

/// The first line of standard output; `None` if it ends without one.
fn first_line(child: &mut Child) -> Option<String> {
    let output = child.stdout.take().expect("a pipe");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = String::new();
        if reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            let _ = sender.send(line);
        }
        // Kept open for as long as the server lives.
        let _ = reader.read_to_end(&mut Vec::new());
    });
    receiver.recv_timeout(STEP_TIMEOUT).ok()
}

/// A server that is killed with this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) banner: Value,
    pub(crate) key: String,
    pub(crate) address: String,
    pub(crate) data: String,
    /// From the start of the process to its banner.
    pub(crate) ready: Duration,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// A client command on this server's data directory.
    pub(crate) fn client(&self, args: &[&str]) -> Ran {
        let mut args = args.to_vec();
        args.extend(["--data", &self.data]);
        ran(&mut command(&args))
    }

    /// A request with the admin key.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> wire::Answer {
        let key = [("authorization", format!("Bearer {}", self.key))];
        wire::ask(&self.address, method, path, &key, body).expect("an answer")
    }

    pub(crate) fn call(&self, tool: &str, args: &Value) -> Value {
        let body = serde_json::json!({"tool": tool, "args": args});
        let answer = self.ask("POST", "/v1/calls", Some(&body));
        assert!(answer.status < 300, "{answer:?}");
        answer.json()
    }

    /// Asks it to end and waits for that.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(self.pid(), rustix::process::Signal::TERM);
        let mut child = self.child.take().expect("it runs");
        child.wait().expect("it ends").code()
    }

    /// Waits for the end of one that was killed.
    pub(crate) fn gone(mut self) {
        let mut child = self.child.take().expect("it ran");
        child.wait().expect("it ends");
    }

    /// Ends it without asking.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a pid"), signal).expect("it lives");
}

/// Result of one command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line: {self:?}");
        serde_json::from_str(&self.stdout).expect("JSON")
    }

    /// Checks the code and that every part is in standard error.
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in: {}", self.stderr);
        }
    }

    /// Checks that it worked.
    pub(crate) fn worked(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    command.output().expect("the binary starts").into()
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_str().expect("a temporary name is text").to_owned()
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + STEP_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        // Not a measure of time: the machine is left to what is waited for.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A skill folder with this handler.
pub(crate) fn skill(folder: &Path, name: &str, flags: &str, handler: &str) {
    // Made elsewhere and moved, so that the server never sees half of it.
    let making = folder.with_extension("making");
    std::fs::create_dir_all(&making).expect("a folder");
    let manifest = format!(
        "name: {name}\nversion: 1.0.0\ndescription: A skill of a test.\n\
         handler: handler.run\nsafety_flags: [{flags}]\nlimits:\n  timeout_seconds: 2\n"
    );
    let schema = r#"{"input": {"type": "object", "properties": {"n": {"type": "integer"}}},
                     "output": {"type": "object"}}"#;
    for (file, content) in
        [("skill.yaml", manifest.as_str()), ("schema.json", schema), ("handler.py", handler)]
    {
        std::fs::write(making.join(file), content).expect("a file");
    }
    std::fs::rename(&making, folder.join(name)).expect("a skill folder");
}
