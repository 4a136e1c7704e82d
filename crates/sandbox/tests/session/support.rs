//! A service with a binary of its own, and helpers of the tests.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told, or to tell")]

use std::{
    env, fs,
    future::Future,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ringfence_policy::Permit;
use ringfence_sandbox::{
    Config, Language, Native, Output,
    files::BoxPath,
    session::{
        Error, ExecRequest, Interpreter, Process, ProcessEnd, Session, SessionRequest,
        interpreter::{Collected, Event, ExecuteRequest, Execution, Options},
    },
};
use tempfile::TempDir;

/// Time limit that is longer than anything takes, even while the machine is busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A backend and one session in it.
pub(crate) struct Host {
    pub(crate) native: Native,
    pub(crate) session: Session,
    _dir: TempDir,
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(SessionRequest::default()).await
    }

    pub(crate) async fn with(request: SessionRequest) -> Self {
        let (native, dir) = native();
        let session =
            within("session", native.session(permit(), request)).await.expect("a session");
        Self { native, session, _dir: dir }
    }

    /// Starts a shell script.
    pub(crate) async fn start(&self, script: &str) -> Process {
        start(&self.session, script).await
    }

    /// Runs a shell script that must succeed, and returns what it printed.
    pub(crate) async fn sh(&self, script: &str) -> String {
        sh(&self.session, script).await
    }

    pub(crate) async fn python(&self) -> Interpreter {
        self.interpreter(Language::Python).await
    }

    pub(crate) async fn javascript(&self) -> Interpreter {
        self.interpreter(Language::Javascript).await
    }

    pub(crate) async fn interpreter(&self, language: Language) -> Interpreter {
        let made = self.session.interpreter(permit(), language, Options::default());
        within("interpreter", made).await.expect("an interpreter")
    }

    pub(crate) async fn close(self) {
        within("close", self.native.clone().close()).await;
    }
}

/// A backend with its own copy of the binary, so that its processes can be recognised.
pub(crate) fn native() -> (Native, TempDir) {
    let (dir, exe) = stage(&binary(), "ringfence");
    (Native::open(Config { exe, ..Config::one_shot() }), dir)
}

pub(crate) fn script(text: &str) -> ExecRequest {
    ExecRequest::new(["/bin/bash", "-c", text])
}

pub(crate) async fn start(session: &Session, text: &str) -> Process {
    exec(session, script(text)).await
}

pub(crate) async fn exec(session: &Session, request: ExecRequest) -> Process {
    within("exec", session.exec(permit(), request)).await.expect("a process")
}

pub(crate) async fn sh(session: &Session, text: &str) -> String {
    let process = start(session, text).await;
    let end = wait(&process).await;
    assert_eq!(end.code, Some(0), "{text}: {end:?} {}", text_of(process.stderr()));
    text_of(process.stdout())
}

pub(crate) async fn wait(process: &Process) -> ProcessEnd {
    within("end of a process", process.wait()).await.expect("an end")
}

pub(crate) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.kept()).into_owned()
}

/// Waits until the output holds the text.
pub(crate) async fn until_said(output: &Output, text: &str) {
    eventually(&format!("output `{text}`"), || text_of(output).contains(text)).await;
}

pub(crate) fn at(path: &str) -> BoxPath {
    BoxPath::parse(path).expect("a path")
}

/// Executes code to its end.
pub(crate) async fn execute(interpreter: &Interpreter, code: &str) -> Collected {
    let execution = interpreter.execute(permit(), ExecuteRequest::new(code)).expect("queued");
    within("execution", execution.collect()).await
}

/// Plain text of the result of the code.
pub(crate) async fn value(interpreter: &Interpreter, code: &str) -> String {
    let all = execute(interpreter, code).await;
    let main = all.results.iter().find(|rich| rich.main);
    let main = main.unwrap_or_else(|| panic!("no result of `{code}`: {all:?}"));
    main.data["text/plain"].as_str().expect("text").to_owned()
}

/// Waits until the code runs.
pub(crate) async fn until_started(execution: &mut Execution) -> bool {
    match within("start of an execution", execution.next()).await {
        Some(Event::Started { fresh }) => fresh,
        other => panic!("not a start: {other:?}"),
    }
}

pub(crate) fn code_of<T>(result: Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

/// Awaits at most [`TEST_TIMEOUT`].
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: no end after {TEST_TIMEOUT:?}"),
    }
}

/// Polls until the condition holds, or fails.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not after {TEST_TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Pids, as we see them, of all processes with this variable in their environment.
pub(crate) fn processes_with(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    pids.filter(has_mark).collect()
}

/// The cgroup directories that a process is in, of those we made.
pub(crate) fn cgroups_of(pid: i32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a living process");
    let parts: Vec<_> = text
        .lines()
        .filter_map(|line| line.rsplit_once("ringfence.").map(|(_, name)| name.to_owned()))
        .collect();
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                if parts.iter().any(|part| path.ends_with(format!("ringfence.{part}"))) {
                    found.push(path.clone());
                }
                left.push(path);
            }
        }
    }
    found
}

/// Runs `test` of this binary again, to be killed by the caller. `None` in that child.
pub(crate) fn as_victim(test: &str) -> Option<(Child, TempDir)> {
    const MARK: &str = "RINGFENCE_TEST_VICTIM";
    if env::var_os(MARK).is_some() {
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1").env("RINGFENCE_BIN", binary());
    // Removes what it cannot clean up itself.
    let dir = tempfile::tempdir().expect("temp dir");
    command.stdin(Stdio::null()).stdout(Stdio::null()).env("TMPDIR", dir.path());
    Some((command.spawn().expect("this test can be started again"), dir))
}

/// Runs `test` of this binary again as a user without any rights. `true` in that child.
pub(crate) fn as_ordinary_user(test: &str) -> bool {
    const MARK: &str = "RINGFENCE_TEST_UNPRIVILEGED";
    if env::var_os(MARK).is_some() {
        return true;
    }
    let (_dir, exe) = stage(&env::current_exe().expect("a path"), "session");
    let (_binary_dir, binary) = stage(&binary(), "ringfence");
    let mut command = Command::new(exe);
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1").env("RINGFENCE_BIN", binary);
    command.uid(65534).gid(65534).current_dir("/").stdin(Stdio::null());
    let output = command.output().expect("this test can be started again");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
    false
}

fn binary() -> PathBuf {
    if let Some(path) = env::var_os("RINGFENCE_BIN") {
        return PathBuf::from(path);
    }
    let this = env::current_exe().expect("a running test has a path");
    // `target/debug/deps/session-0123` beside `target/debug/ringfence`.
    let built = this.ancestors().nth(2).map(|dir| dir.join("ringfence"));
    match built.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("no binary to test: run `cargo build -p ringfence`, or set RINGFENCE_BIN"),
    }
}

fn stage(from: &Path, name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("ringfence-session-").tempdir().expect("temp dir");
    let copy = dir.path().join(name);
    fs::copy(from, &copy).unwrap_or_else(|error| panic!("copy {}: {error}", from.display()));
    for path in [dir.path(), copy.as_path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    }
    (dir, copy)
}

/// Permit for one run.
pub(crate) fn permit() -> Permit {
    ringfence_policy::local_permit()
}
